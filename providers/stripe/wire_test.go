package stripe

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"paysaga/providers"
)

const (
	testSagaKey = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	testKey     = providers.SubKey(testSagaKey + "_charge")
)

// canned is one answer, byte for byte.
type canned struct {
	status int
	header map[string]string
	body   string
}

func (c canned) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range c.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(c.status)
	_, _ = w.Write([]byte(c.body))
}

// adapterAt is an adapter that talks to handler over real HTTP.
func adapterAt(t *testing.T, handler http.Handler) *Adapter {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return adapterTo(t, server.URL)
}

func adapterTo(t *testing.T, url string) *Adapter {
	t.Helper()
	// The timeout is far over what loopback needs: a test that runs into it fails by its outcome, not by its time.
	adapter, err := New(Config{APIKey: "sk_test_TOPSECRET", BaseURL: url, CallTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}

func chargeRequest() providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: testKey, SagaKey: testSagaKey, OrderID: "order-1",
		Money: providers.Money{Amount: 3998, Currency: "EUR"}, Method: "pm_card_visa",
	}
}

func voidRequest() providers.VoidRequest {
	return providers.VoidRequest{Key: providers.SubKey(testSagaKey + "_void"), Reference: "pi_1"}
}

func refundRequest() providers.RefundRequest {
	return providers.RefundRequest{
		Key: providers.SubKey(testSagaKey + "_refund"), SagaKey: testSagaKey, Reference: "pi_1",
		Money: providers.Money{Amount: 1000, Currency: "EUR"},
	}
}
