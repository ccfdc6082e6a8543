package lifecycle_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paysaga/providers/sandbox"
)

const (
	merchant        = "LifecycleMerchant"
	stripeSecret    = "whsec_lifecycle"
	adyenHMACKey    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	paypalWebhookID = "LIFECYCLEWEBHOOK"
	// sentHeader tells punctual when a message was sent.
	sentHeader = "Lifecycle-Sent"
)

// letter is one webhook as it came out of the sandbox.
type letter struct {
	provider string
	header   http.Header
	body     []byte
	copies   int // brought to the inbox so far
	lost     bool
}

// mail keeps what the sandbox sends, in place of the shop, until a test brings it.
type mail struct {
	url     string
	now     func() time.Time
	mu      sync.Mutex
	letters []*letter
}

func newMail(t *testing.T, now func() time.Time) *mail {
	t.Helper()
	m := &mail{now: now}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *mail) targets() map[string]sandbox.WebhookTarget {
	return map[string]sandbox.WebhookTarget{
		stripeName: {URL: m.url + "/stripe", Secrets: []string{stripeSecret}},
		adyenName:  {URL: m.url + "/adyen", Secrets: []string{adyenHMACKey}},
		paypalName: {URL: m.url + "/paypal", WebhookID: paypalWebhookID},
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
	header.Set(sentHeader, m.now().Format(time.RFC3339Nano))
	m.mu.Lock()
	m.letters = append(m.letters, &letter{provider: strings.TrimPrefix(r.URL.Path, "/"), header: header, body: body})
	m.mu.Unlock()
	_, _ = w.Write([]byte("[accepted]"))
}

func (m *mail) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letters = nil
}

// letters are all webhooks that were sent so far, the oldest first.
func (h *house) letters() []*letter {
	h.Helper()
	h.sandbox.FlushWebhooks(h.Context())
	h.mail.mu.Lock()
	defer h.mail.mu.Unlock()
	return slices.Clone(h.mail.letters)
}

// bring hands a webhook to the API once. One that is not taken now stays in the mail.
func (h *house) bring(one *letter) {
	h.Helper()
	switch status := h.post(one.provider, one.header, one.body); status {
	case http.StatusOK:
		one.copies++
	case http.StatusServiceUnavailable: // the server is dead, or PayPal did not say whether it is the sender
	default:
		h.Fatalf("webhook of %s: status %d: %s", one.provider, status, one.body)
	}
}

func (h *house) post(provider string, header http.Header, body []byte) int {
	h.Helper()
	answer, err := h.client.Do(h.webhookRequest(h.front.url, provider, header, body))
	h.must(err)
	h.must(answer.Body.Close())
	return answer.StatusCode
}

func (h *house) webhookRequest(base, provider string, header http.Header, body []byte) *http.Request {
	h.Helper()
	posted, err := http.NewRequestWithContext(h.Context(), http.MethodPost, base+"/webhooks/"+provider, bytes.NewReader(body))
	h.must(err)
	posted.Header = header.Clone()
	h.book.Secret("a webhook", string(body))
	return posted
}

// A webhook that was signed before time passed is in the mail with the time at which it was sent, however late it comes in.
func TestWebhooksAreSentBeforeTimePasses(t *testing.T) {
	t.Parallel()
	h := newHouse(t, sandbox.Options{})
	const tries = 20 // on a busy machine every third is overtaken, if nothing is done about it
	for range tries {
		f := h.fresh(t).newFlow(twoCups(paypalName, pays))
		f.want(f.place(), http.StatusCreated)
		f.pass(time.Hour)
		for _, one := range f.letters() {
			signed, err := time.Parse(time.RFC3339, one.header.Get("Paypal-Transmission-Time"))
			f.must(err)
			sent, err := time.Parse(time.RFC3339Nano, one.header.Get(sentHeader))
			f.must(err)
			if late := sent.Sub(signed); late > time.Hour/2 {
				t.Fatalf("a webhook was on its way for %s", late)
			}
		}
	}
}
