package stripe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
)

// TestNoticesOfALife: what the sandbox sends for a held, captured and refunded payment, verified and read, in the order of its
// sending. While a secret is replaced, each message is signed with both; the shop knows one of them.
func TestNoticesOfALife(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	webhook, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: []string{"whsec_new"}})
	if err != nil {
		t.Fatal(err)
	}
	notices := make(chan providers.Notice, 10)
	shop := httptest.NewServer(shopOf(t, webhook, notices))
	t.Cleanup(shop.Close)
	if err := b.sandbox.SetWebhookTarget("stripe", sandbox.WebhookTarget{URL: shop.URL, Secrets: []string{"whsec_old", "whsec_new"}}); err != nil {
		t.Fatal(err)
	}
	expect := func(kind string, about providers.About, key providers.SubKey, payment, reference string) {
		t.Helper()
		b.sandbox.FlushWebhooks(t.Context())
		got := <-notices
		want := providers.Notice{ID: got.ID, Type: kind, About: about, Key: key, Payment: payment, Reference: reference, At: got.At}
		if difference := cmp.Diff(want, got); difference != "" {
			t.Error(difference)
		}
	}
	held := b.held(t, "pm_card_pendingRefund", providers.Authorized)
	expect("payment_intent.amount_capturable_updated", providers.AboutCharge, chargeKey, held.Reference, "")
	b.Capture(t.Context(), captureOf(held.Reference, 3998))
	expect("payment_intent.succeeded", providers.AboutCharge, chargeKey, held.Reference, "")
	refund := b.Refund(t.Context(), refundOf(held.Reference, "", 3998))
	expect("charge.refunded", providers.AboutRefund, "", held.Reference, "")
	b.control(t, "/_sandbox/refunds/"+refund.Reference+"/settle")
	expect("charge.refund.updated", providers.AboutRefund, refundKey, held.Reference, refund.Reference)
}

// shopOf takes webhooks as a shop does.
func shopOf(t *testing.T, webhook *stripe.Webhook, notices chan<- providers.Notice) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		read, err := webhook.Parse(r.Header, body, time.Now())
		if err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
		}
		for _, notice := range read {
			notices <- notice
		}
	})
}
