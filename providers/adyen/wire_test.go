package adyen

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"paysaga/providers"
)

const (
	testSagaKey  = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	testKey      = providers.SubKey(testSagaKey + "_charge")
	testPayment  = "QFQTPCQ8HXSKGK82"
	testAPIKey   = "AQEyhmfxTOPSECRET-LQ=={<"
	testMerchant = "PaysagaECOM"
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
	adapter, err := New(Config{APIKey: testAPIKey, MerchantAccount: testMerchant, BaseURL: url + "/v71", CallTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}

// sent is a request as it arrived.
type sent struct {
	path   string
	header http.Header
	body   string
}

// recorder answers each call in the same way and keeps what was sent.
type recorder struct {
	answer http.Handler
	calls  chan sent
}

func newRecorder(answer http.Handler) *recorder {
	return &recorder{answer: answer, calls: make(chan sent, 10)}
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	r.calls <- sent{path: request.Method + " " + request.URL.Path, header: request.Header, body: string(body)}
	r.answer.ServeHTTP(w, request)
}

func euros(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "EUR"} }

func chargeRequest() providers.ChargeRequest {
	return providers.ChargeRequest{Key: testKey, SagaKey: testSagaKey, OrderID: "order-1", Money: euros(3998), Method: "stored_APPROVED"}
}

func continueRequest() providers.ContinueRequest {
	return providers.ContinueRequest{
		Key: testSagaKey + "_continue", ChargeKey: testKey, Reference: testPayment, Money: euros(3998),
		Details: []byte(`{"redirectResult":"X6XtfGC3!Y"}`),
	}
}

func captureRequest() providers.CaptureRequest {
	return providers.CaptureRequest{Key: testSagaKey + "_capture", SagaKey: testSagaKey, Reference: testPayment, Money: euros(2000)}
}

func refundRequest() providers.RefundRequest {
	return providers.RefundRequest{Key: testSagaKey + "_refund", SagaKey: testSagaKey, Reference: testPayment, Money: euros(1000)}
}

func voidRequest() providers.VoidRequest {
	return providers.VoidRequest{Key: testSagaKey + "_void", ChargeKey: testKey, Reference: testPayment}
}
