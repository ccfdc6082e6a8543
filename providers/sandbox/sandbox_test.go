package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"paysaga/providers/sandbox"
)

const testKey = "sk_test_sandbox"

// bench is a sandbox on a real port and a clock that stands still until moved.
type bench struct {
	*sandbox.Server

	url string
}

func newBench(t *testing.T, options sandbox.Options) *bench {
	t.Helper()
	if options.Now == nil {
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		options.Now = func() time.Time { return start }
	}
	server := sandbox.New(options)
	listener := httptest.NewServer(server.Handler())
	t.Cleanup(listener.Close)
	t.Cleanup(server.Close) // first, so that nothing hangs
	return &bench{Server: server, url: listener.URL}
}

// reply is an HTTP answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(r.body), &object); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	return object
}

// failure is the error object of Stripe's error bodies.
func (r reply) failure(t *testing.T) map[string]any {
	t.Helper()
	object, ok := r.json(t)["error"].(map[string]any)
	if !ok {
		t.Fatalf("no error in %s", r.body)
	}
	return object
}

// text walks into nested objects and gives the text at the end of the path, "" when there is none.
func text(object map[string]any, path ...string) string {
	for _, step := range path[:len(path)-1] {
		inner, ok := object[step].(map[string]any)
		if !ok {
			return ""
		}
		object = inner
	}
	found, ok := object[path[len(path)-1]].(string)
	if !ok {
		return ""
	}
	return found
}

// ids are those of the objects on a page of a list.
func (r reply) ids(t *testing.T) []string {
	t.Helper()
	var page struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	ids := make([]string, 0, len(page.Data))
	for _, each := range page.Data {
		ids = append(ids, text(each, "id"))
	}
	return ids
}

func send(t *testing.T, request *http.Request) (reply, error) {
	t.Helper()
	client := &http.Client{
		// On a connection used before, net/http itself sends a POST with an Idempotency-Key again when the connection breaks.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return reply{status: response.StatusCode, header: response.Header, body: string(body)}, err
}

func (b *bench) request(t *testing.T, method, path, body string, header map[string]string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(path, "/stripe/v1") {
		request.Header.Set("Authorization", "Bearer "+testKey)
		if method == http.MethodPost {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	return request
}

func (b *bench) try(t *testing.T, method, path, body string, header map[string]string) (reply, error) {
	t.Helper()
	return send(t, b.request(t, method, path, body, header))
}

func (b *bench) do(t *testing.T, method, path, body string, header map[string]string) reply {
	t.Helper()
	answer, err := b.try(t, method, path, body, header)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

func (b *bench) get(t *testing.T, path string) reply {
	t.Helper()
	return b.do(t, http.MethodGet, path, "", nil)
}

// post sends a form to Stripe's API under a key; an empty key sends none.
func (b *bench) post(t *testing.T, path, key string, form url.Values) reply {
	t.Helper()
	header := map[string]string{}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return b.do(t, http.MethodPost, "/stripe/v1"+path, form.Encode(), header)
}

// control posts JSON to the control API and expects a status.
func (b *bench) control(t *testing.T, path, body string, want int) reply {
	t.Helper()
	answer := b.do(t, http.MethodPost, "/_sandbox"+path, body, nil)
	if answer.status != want {
		t.Fatalf("POST %s %s: status %d, want %d: %s", path, body, answer.status, want, answer.body)
	}
	return answer
}

// order is the form of a plain confirmed payment; pairs change it, and an empty value removes the parameter.
func order(pairs ...string) url.Values {
	form := url.Values{
		"amount": {"3998"}, "currency": {"eur"}, "confirm": {"true"}, "payment_method": {"pm_card_visa"}, "payment_method_types[0]": {"card"},
		"metadata[saga_key]": {"saga-1"}, "metadata[order_id]": {"order-1"},
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			form.Del(pairs[i])
		}
	}
	return form
}

// only is the single charge of the ledger.
func (b *bench) only(t *testing.T) sandbox.Charge {
	t.Helper()
	charges := b.Ledger()
	if len(charges) != 1 {
		t.Fatalf("ledger has %d charges, want 1: %+v", len(charges), charges)
	}
	return charges[0]
}

// wantMoney checks the single charge of the ledger.
func (b *bench) wantMoney(t *testing.T, status string, authorized, captured, refunded int64) {
	t.Helper()
	entry := b.only(t)
	if entry.Status != status || entry.Authorized != authorized || entry.Captured != captured || entry.Refunded != refunded {
		t.Errorf("ledger is %+v, want %s with %d authorized, %d captured, %d refunded", entry, status, authorized, captured, refunded)
	}
}

// succeeds sends an order until its true answer comes, and reports whether it did.
func (b *bench) succeeds(t *testing.T, key string) bool {
	t.Helper()
	const patience = 50 // six faults at 10 % each let hardly two sendings in three fail
	for range patience {
		answer, err := b.try(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": key})
		if err == nil && answer.status == http.StatusOK && json.Valid([]byte(answer.body)) {
			return true
		}
	}
	return false
}

func inParallel(count int, do func(int)) {
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
