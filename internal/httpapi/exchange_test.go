package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"paysaga/api"
)

// theOrder is what most tests send. Others are made from it by changed.
const theOrder = `{"currency":"EUR","amount":3998,"items":[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}],` +
	`"payment":{"provider":"stripe","method":"pm_card_visa","capture":"automatic"},` +
	`"customer":{"reference":"customer-4711","email":"ada@example.com"},"metadata":{"cart":"c-9"}}`

// changed replaces one part of a text, which must be there.
func changed(t *testing.T, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("%q is not in the text exactly once", from)
	}
	return strings.Replace(text, from, to, 1)
}

// paidBy is theOrder with another payment method.
func paidBy(method string) string { return strings.Replace(theOrder, "pm_card_visa", method, 1) }

// payingWith is theOrder with another payment, written out.
func payingWith(payment string) string {
	return strings.Replace(theOrder, `{"provider":"stripe","method":"pm_card_visa","capture":"automatic"}`, payment, 1)
}

// heldBy is theOrder whose money is only held.
func heldBy(provider, method string) string {
	return payingWith(`{"provider":"` + provider + `","method":"` + method + `","capture":"manual"}`)
}

// awaitingAfter is theOrder that keeps its stock when it is declined.
func awaitingAfter(method string) string {
	return payingWith(`{"provider":"stripe","method":"` + method + `","on_decline":"await"}`)
}

// request is an HTTP request, byte for byte.
type request struct {
	method, path string
	header       http.Header
	body         string
}

// answer is an HTTP answer, byte for byte.
type answer struct {
	status int
	header http.Header
	body   string
}

// placing is the usual request for an order.
func (s *shop) placing(key, body string) request {
	return request{method: http.MethodPost, path: "/v1/orders", body: body, header: http.Header{
		"Authorization": {"Bearer " + s.merchant}, "Idempotency-Key": {key}, "Content-Type": {"application/json"},
	}}
}

// asking is the usual request about an order: /continue, /capture, /cancel, /refunds.
func (s *shop) asking(key, path, body string) request {
	r := s.placing(key, body)
	r.path = path
	return r
}

// ask sends a request about an order of the merchant, under a new key.
func (s *shop) ask(t *testing.T, path, body string) answer {
	t.Helper()
	return s.send(t, s.asking(newKeyText(), path, body))
}

// place sends an order of the merchant.
func (s *shop) place(t *testing.T, key, body string) answer {
	t.Helper()
	return s.send(t, s.placing(key, body))
}

// get asks with the merchant's API key.
func (s *shop) get(t *testing.T, path string) answer {
	t.Helper()
	return s.getAs(t, s.merchant, path)
}

func (s *shop) getAs(t *testing.T, apiKey, path string) answer {
	t.Helper()
	header := http.Header{}
	if apiKey != "" {
		header.Set("Authorization", "Bearer "+apiKey)
	}
	return s.send(t, request{method: http.MethodGet, path: path, header: header})
}

// putStock sets a count with the merchant's API key.
func (s *shop) putStock(t *testing.T, sku, body string) answer {
	t.Helper()
	return s.send(t, request{method: http.MethodPut, path: "/v1/stock/" + sku, body: body, header: http.Header{
		"Authorization": {"Bearer " + s.merchant}, "Content-Type": {"application/json"},
	}})
}

// send sends a request and holds the answer against the contract.
func (s *shop) send(t *testing.T, r request) answer {
	t.Helper()
	got, err := s.try(t.Context(), r)
	noError(t, err)
	s.check(t, r, got)
	return got
}

// sending sends a request in the background. The answer is held against the contract when it is received.
func (s *shop) sending(t *testing.T, r request) <-chan answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() {
		got, err := s.try(t.Context(), r)
		if err != nil {
			t.Errorf("%s %s: %v", r.method, r.path, err)
		}
		answered <- got
	}()
	return answered
}

// try sends a request and gives what comes, unchecked.
func (s *shop) try(ctx context.Context, r request) (answer, error) {
	s.log.Request(r.header, r.body)
	sent, err := http.NewRequestWithContext(ctx, r.method, s.api.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.header != nil {
		sent.Header = r.header.Clone()
	}
	got, err := s.api.Client().Do(sent)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return answer{}, err
	}
	s.log.Body("an answer", string(body))
	return answer{status: got.StatusCode, header: got.Header, body: string(body)}, nil
}

// order reads an order that was answered with the given status.
func (a answer) order(t *testing.T, status int) api.Order {
	t.Helper()
	return decoded[api.Order](t, a, status)
}

// problem reads a problem of the given status and type.
func (a answer) problem(t *testing.T, status int, slug string) api.Problem {
	t.Helper()
	p := decoded[api.Problem](t, a, status)
	if p.Type != "/problems/"+slug || p.Status != status {
		t.Fatalf("the problem is %s with status %d, want %s with %d: %s", p.Type, p.Status, slug, status, p.Detail)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type is %q", got)
	}
	return p
}

func decoded[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	var value T
	noError(t, json.Unmarshal([]byte(a.body), &value))
	return value
}

// orderNow reads an order as it stands.
func (s *shop) orderNow(t *testing.T, location string) api.Order {
	t.Helper()
	return s.get(t, location).order(t, http.StatusOK)
}
