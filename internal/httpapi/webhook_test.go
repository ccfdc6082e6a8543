package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"paysaga/internal/httpapi"
)

// Webhooks reach their handler as they came, without an API key and past the API's limit and rules of bodies.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	type event struct{ path, body, signature string }
	seen := make(chan event, 1)
	handler, err := httpapi.New(httpapi.Config{
		Store: s.store, Runner: s.runner, Retention: retention, MaxBody: bodyLimit, Logger: s.config.Logger,
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

func TestNoWebhooks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, path := range []string{"/webhooks/stripe", "/webhooks/", "/webhooks/stripe/more"} {
		s.send(t, request{method: http.MethodPost, path: path, body: `{}`, header: http.Header{"Content-Type": {"application/json"}}}).
			problem(t, http.StatusNotFound, "not-found")
	}
}
