package stage

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"paysaga/providers/sandbox"
)

// SentHeader tells punctual when a message was sent.
const SentHeader = "Stage-Sent"

// Letter is one webhook as it came out of the sandbox.
type Letter struct {
	Provider string
	Header   http.Header
	Body     []byte
	Copies   int // brought to the inbox so far
	Lost     bool
}

// mail keeps what the sandbox sends, in place of the shop, until somebody brings it.
type mail struct {
	url     string
	now     func() time.Time
	mu      sync.Mutex
	letters []*Letter
}

func newMail(r Reporter, now func() time.Time) *mail {
	r.Helper()
	m := &mail{now: now}
	server := httptest.NewServer(m)
	r.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *mail) targets() map[string]sandbox.WebhookTarget {
	return map[string]sandbox.WebhookTarget{
		Stripe: {URL: m.url + "/stripe", Secrets: []string{StripeSecret}},
		Adyen:  {URL: m.url + "/adyen", Secrets: []string{AdyenHMACKey}},
		PayPal: {URL: m.url + "/paypal", WebhookID: PayPalWebhookID},
	}
}

// ServeHTTP takes a webhook in and holds it back.
func (m *mail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "broken off", http.StatusBadRequest)
		return
	}
	header := r.Header.Clone()
	header.Set(SentHeader, m.now().Format(time.RFC3339Nano))
	m.mu.Lock()
	m.letters = append(m.letters, &Letter{Provider: strings.TrimPrefix(r.URL.Path, "/"), Header: header, Body: body})
	m.mu.Unlock()
	_, _ = w.Write([]byte("[accepted]"))
}

func (m *mail) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letters = nil
}

// Letters are all webhooks that were sent so far, the oldest first.
func (s *Stage) Letters() []*Letter {
	s.Helper()
	s.Sandbox.FlushWebhooks(s.Context())
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	return slices.Clone(s.mail.letters)
}

// Bring hands a webhook to the API once. One that is not taken now stays in the mail.
func (s *Stage) Bring(one *Letter) {
	s.Helper()
	switch status := s.post(one.Provider, one.Header, one.Body); status {
	case http.StatusOK:
		one.Copies++
	case http.StatusServiceUnavailable: // the server is dead, or PayPal did not say whether it is the sender
	default:
		s.Fatalf("webhook of %s: status %d: %s", one.Provider, status, one.Body)
	}
}

func (s *Stage) post(provider string, header http.Header, body []byte) int {
	s.Helper()
	answer, err := s.client.Do(s.webhookRequest(s.front.url, provider, header, body))
	s.Must(err)
	s.Must(answer.Body.Close())
	return answer.StatusCode
}

func (s *Stage) webhookRequest(base, provider string, header http.Header, body []byte) *http.Request {
	s.Helper()
	posted, err := http.NewRequestWithContext(s.Context(), http.MethodPost, base+"/webhooks/"+provider, bytes.NewReader(body))
	s.Must(err)
	posted.Header = header.Clone()
	s.book.Secret("a webhook", string(body))
	return posted
}
