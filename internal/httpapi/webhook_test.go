package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paysaga/internal/httpapi"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/adyen"
)

// Webhooks reach their handler as they came, without an API key and past the API's limit and rules of bodies.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	type event struct{ path, body, signature string }
	seen := make(chan event, 1)
	handler, err := httpapi.New(httpapi.Config{
		Store: s.store, Runner: s.runner, Guard: s.guard(t), MaxBody: bodyLimit, Logger: s.config.Logger,
		Webhooks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read body: %v", err)
			}
			seen <- event{r.URL.Path, string(body), r.Header.Get("Signature")}
			_, _ = io.WriteString(w, "[accepted]")
		}),
	})
	noError(t, err)
	s.api = httptest.NewServer(handler)
	t.Cleanup(s.api.Close)
	for _, provider := range []string{"stripe", "adyen", "paypal", "nobody"} {
		want := event{"/webhooks/" + provider, `{"a":1,"a":2} ` + strings.Repeat("x", bodyLimit), "of " + provider}
		got, err := s.try(t.Context(), request{method: http.MethodPost, path: want.path, body: want.body, header: http.Header{"Signature": {want.signature}}})
		noError(t, err)
		if got.status != http.StatusOK || got.body != "[accepted]" {
			t.Errorf("%s: %d %s", provider, got.status, got.body)
		}
		if event := receive(t, "the event", seen); event != want {
			t.Errorf("%s: the handler saw %d bytes at %s, signed %q", provider, len(event.body), event.path, event.signature)
		}
	}
	s.send(t, request{method: http.MethodGet, path: "/webhooks/stripe"}).problem(t, http.StatusMethodNotAllowed, "method-not-allowed")
}

// judge is a parser that does as the message says.
type judge struct{}

func (judge) Parse(_ http.Header, body []byte, _ time.Time) ([]providers.Notice, error) {
	switch {
	case strings.Contains(string(body), "forged"):
		return nil, providers.ErrSignature
	case strings.Contains(string(body), "trouble"):
		return nil, errors.New("the provider's certificate cannot be had")
	}
	return nil, nil
}

// The inbox answers as the contract says, and each of its problems leads to a page.
func TestInboxKeepsTheContract(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	inbox, err := webhook.New(webhook.Config{
		Store: s.store, Runner: s.runner, Lease: time.Minute, Interval: time.Second, Concurrency: 1, Logger: s.config.Logger,
		Endpoints: map[string]webhook.Endpoint{"stripe": {Parser: judge{}}, "adyen": {Parser: judge{}, Accepted: adyen.Accepted}},
	})
	noError(t, err)
	handler, err := httpapi.New(httpapi.Config{
		Store: s.store, Runner: s.runner, Guard: s.guard(t), MaxBody: bodyLimit, Logger: s.config.Logger, Webhooks: inbox,
	})
	noError(t, err)
	s.api = httptest.NewServer(handler)
	t.Cleanup(s.api.Close)
	post := func(provider, body string) answer {
		return s.send(t, request{
			method: http.MethodPost, path: "/webhooks/" + provider, body: body, header: http.Header{"Content-Type": {"application/json"}},
		})
	}
	for provider, want := range map[string]string{"stripe": "{}", "adyen": "[accepted]"} {
		if got := post(provider, `{"id":"evt_1"}`); got.status != http.StatusOK || got.body != want {
			t.Errorf("%s is answered %d %s", provider, got.status, got.body)
		}
	}
	for name, c := range map[string]struct {
		provider, body string
		status         int
		slug           string
	}{
		"forged":      {"stripe", `{"id":"forged"}`, http.StatusBadRequest, "webhook-refused"},
		"nobody's":    {"ravelin", `{}`, http.StatusNotFound, "not-found"},
		"too large":   {"adyen", strings.Repeat(" ", 1<<20+1), http.StatusRequestEntityTooLarge, "body-too-large"},
		"not judged":  {"stripe", `{"id":"trouble"}`, http.StatusServiceUnavailable, "unavailable"},
		"not adyen's": {"adyen", `{"id":"forged"}`, http.StatusBadRequest, "webhook-refused"},
	} {
		p := post(c.provider, c.body).problem(t, c.status, c.slug)
		page := s.getAs(t, "", p.Type)
		if page.status != http.StatusOK || !strings.Contains(page.body, p.Title) {
			t.Errorf("%s: %q has no page at %s: %d", name, p.Title, p.Type, page.status)
		}
	}
}

func TestNoWebhooks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, path := range []string{"/webhooks/stripe", "/webhooks/", "/webhooks/stripe/more"} {
		s.send(t, request{method: http.MethodPost, path: path, body: `{}`, header: http.Header{"Content-Type": {"application/json"}}}).
			problem(t, http.StatusNotFound, "not-found")
	}
}
