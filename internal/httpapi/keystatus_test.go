package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

// A key from its first moment to after its end.
func TestKeyStatus(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	s.keyStatus(t, s.merchant, ordersEndpoint, key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	held := s.holdCharges(t)
	first := s.sending(t, s.placing(key, theOrder))
	receive(t, "the charge at the provider", held.arrived)
	running := decoded[api.KeyRecord](t, s.keyStatus(t, s.merchant, ordersEndpoint, key), http.StatusOK)
	want := api.KeyRecord{
		Endpoint: ordersEndpoint, Status: api.KeyStatusPROCESSING, Generation: 1, SagaKey: running.SagaKey,
		CreatedAt: running.CreatedAt, ExpiresAt: running.CreatedAt.Add(retention),
	}
	if diff := cmp.Diff(want, running); diff != "" || running.SagaKey == nil || time.Since(running.CreatedAt) > time.Hour {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	held.release()
	order := receive(t, "the answer", first).order(t, http.StatusCreated)
	completed := decoded[api.KeyRecord](t, s.get(t, "/v1/idempotency-keys/"+key), http.StatusOK) // orders are the default
	want.Status, want.ResponseStatus, want.SagaKey = api.KeyStatusCOMPLETED, http.StatusCreated, &order.ID
	want.CompletedAt = completed.CompletedAt
	if diff := cmp.Diff(want, completed); diff != "" || completed.CompletedAt.Before(completed.CreatedAt) {
		t.Errorf("completed (-want +got):\n%s", diff)
	}
	s.expire(t, key)
	if expired := decoded[api.KeyRecord](t, s.get(t, "/v1/idempotency-keys/"+key), http.StatusOK); !expired.Expired {
		t.Errorf("expired: %+v", expired)
	}
	s.keyStatus(t, s.merchant, "POST /v1/orders/{id}/refunds", key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	s.keyStatus(t, s.other, ordersEndpoint, key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	s.getAs(t, "", "/v1/idempotency-keys/"+key).checkRefusal(t, http.StatusUnauthorized, "unauthorized", "")
}

// A request that begins no saga has a key without one; and what its status tells is not the answer.
func TestKeyStatusOfAPatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	key := newKeyText()
	s.send(t, s.patching(key, location, `{"secret-note":"of the shop"}`)).order(t, http.StatusOK)
	got := s.keyStatus(t, s.merchant, "PATCH /v1/orders/{id}", key)
	if record := decoded[api.KeyRecord](t, got, http.StatusOK); record.SagaKey != nil || record.ResponseStatus != http.StatusOK {
		t.Errorf("record %+v", record)
	}
	for _, secret := range []string{key, "secret-note", query[string](t, s, `SELECT encode(fingerprint, 'hex') FROM idempotency_keys WHERE key = $1`, key)} {
		if strings.Contains(got.body, secret) {
			t.Errorf("the status tells %q: %s", secret, got.body)
		}
	}
}

func TestBadKeyStatusRequests(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.unchanged(t, func() {
		s.get(t, "/v1/idempotency-keys/short").checkRefusal(t, http.StatusBadRequest, "invalid-request", "parameter key")
		s.get(t, "/v1/idempotency-keys/"+url.PathEscape("a key with blanks in it")).checkRefusal(t, http.StatusBadRequest, "invalid-request", "parameter key")
		s.get(t, "/v1/idempotency-keys/"+newKeyText()+"?endpoint=GET%20/v1/orders").
			checkRefusal(t, http.StatusBadRequest, "invalid-request", "parameter endpoint")
	})
}
