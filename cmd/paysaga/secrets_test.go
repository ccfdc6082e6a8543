//go:build unix

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

const (
	toldWebhookSecret = "whsec_0123456789abcdefABCDEF"
	toldCustomer      = `"customer":{"reference":"customer-4711","email":"ada@example.com"},"metadata":{"note":"leave it at the door"},`
)

// What the program logs at its lowest level, counts and traces of good requests, bad ones and failures holds nothing secret (I10). The
// server's book is searched when the test ends.
func TestServerTellsNoSecrets(t *testing.T) {
	t.Parallel()
	s := newStoppedScene(t)
	address, traces := collector(t)
	s.serve(otherServer, false, "all", otherLease, "PAYSAGA_LOG_LEVEL=debug", "OTEL_EXPORTER_OTLP_ENDPOINT="+address,
		"STRIPE_WEBHOOK_SECRETS="+toldWebhookSecret)
	server := s.servers[otherServer]
	noError(t, s.sandbox.SetWebhookTarget("stripe", sandbox.WebhookTarget{
		URL: s.urls[otherServer] + "/webhooks/stripe", Secrets: []string{toldWebhookSecret},
	}))

	order := anOrder(s)
	order.body = strings.Replace(order.body, `"items"`, toldCustomer+`"items"`, 1)
	taken := s.do(order)
	location := "/v1/orders/" + readJSON[api.Order](t, taken.Body).ID.String()
	declined := newStoppedRequest(order.method, order.path, strings.Replace(order.body, "pm_card_visa", "pm_card_visa_chargeDeclined", 1))
	reused := order
	reused.body = strings.Replace(order.body, "3998", "1999", 1)
	s.wantStatuses([]toldRequest{
		{http.StatusCreated, order}, // replayed
		{http.StatusPaymentRequired, declined},
		{http.StatusUnprocessableEntity, reused},
		{http.StatusBadRequest, newStoppedRequest(order.method, order.path, order.body[1:])},
		{http.StatusOK, newStoppedRequest(http.MethodPatch, location, `{"metadata":{"note":"ring twice, please"}}`)},
		{http.StatusCreated, newStoppedRequest(http.MethodPost, location+"/refunds", `{"amount":1000,"reason":"it did not fit her"}`)},
		{http.StatusNotFound, newStoppedRequest(http.MethodPost, "/v1/orders/"+uuid.NewString()+"/cancel", `{}`)},
		{http.StatusOK, newStoppedRequest(http.MethodGet, "/v1/idempotency-keys/"+order.key, "")},
		{http.StatusOK, aCount(s)},
		{http.StatusBadRequest, newStoppedRequest(http.MethodPost, "/webhooks/stripe", order.body)}, // forged
	})
	s.sandbox.FlushWebhooks(t.Context())
	s.failWithoutTable(newStoppedRequest(order.method, order.path, order.body))

	server.terminate(t)
	for _, told := range []string{"POST /v1/orders", "PATCH /v1/orders/{id}", "provider POST 127.0.0.1"} {
		if !strings.Contains(traces.text(), told) {
			t.Errorf("no span %q came", told)
		}
	}
	_, _ = server.book.Write([]byte(traces.text()))
	for _, told := range []string{"webhook", "level=ERROR", "paysaga_build", "provider POST"} {
		if !server.book.Contains(told) {
			t.Errorf("%q was not told, so less was searched than should be:\n%s", told, server.output.text())
		}
	}
}

type toldRequest struct {
	status  int
	request stoppedRequest
}

func (s *stoppedScene) wantStatuses(requests []toldRequest) {
	s.t.Helper()
	for _, r := range requests {
		if got := s.get("the answer", s.send(otherServer, r.request)); got.Status != r.status {
			s.t.Errorf("%s %s: %d %s, want %d", r.request.method, r.request.path, got.Status, got.Body, r.status)
		}
	}
}

// failWithoutTable has the database fail a request: its errors could repeat what they were about.
func (s *stoppedScene) failWithoutTable(r stoppedRequest) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), `ALTER TABLE idempotency_keys RENAME TO idempotency_keys_away`)
	noError(s.t, err)
	s.wantStatuses([]toldRequest{{http.StatusServiceUnavailable, r}})
	_, err = s.pool.Exec(s.t.Context(), `ALTER TABLE idempotency_keys_away RENAME TO idempotency_keys`)
	noError(s.t, err)
}
