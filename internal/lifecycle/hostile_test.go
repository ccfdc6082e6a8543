package lifecycle_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/stage"
	"paysaga/internal/webhook"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// hostilities are webhooks that must change nothing. Each arranges an order, and then brings them.
var hostilities = map[string]func(f *flow){
	"about payments that are not ours": func(f *flow) {
		theirs := f.Letters()
		f.Clear()
		f.First.Key = "another order"
		f.First.ID = f.First.SagaKey()
		f.Got, f.Sent = map[string]stage.Reply{}, nil
		f.want(f.Place(), http.StatusCreated)
		f.changesNothing(func() { f.bringAll(theirs, 1) })
	},
	"months late": func(f *flow) {
		f.want(f.Ask(stage.ToRefund, "part", stage.Part(1000)), f.done(http.StatusCreated))
		late := f.Letters()
		f.hearAll()
		f.Pass(100 * 24 * time.Hour)
		f.clearEvents() // as if they came for the first time
		f.changesNothing(func() { f.bringAll(late, 1) })
	},
	"again and again, in reverse": func(f *flow) {
		f.want(f.Ask(stage.ToRefund, "part", stage.Part(1000)), f.done(http.StatusCreated))
		f.Settle(func() {})
		again := f.Letters()
		slices.Reverse(again)
		f.changesNothing(func() { f.bringAll(again, 3) })
		f.clearEvents()
		f.changesNothing(func() { f.bringAll(again, 3) })
	},
	"of unknown types": func(f *flow) {
		f.Settle(func() {})
		f.Endpoints = maps.Clone(f.Endpoints)
		f.Endpoints[stage.PayPal] = webhook.Endpoint{Parser: f.trustingParser()}
		f.Serve()
		f.changesNothing(func() { f.bringAll(f.unknownTypes(), 2) })
	},
}

// TestWebhooksThatChangeNothing: they are kept, and that is all.
func TestWebhooksThatChangeNothing(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{})
			for name, bring := range hostilities {
				t.Run(name, func(t *testing.T) {
					f := h.fresh(t).newFlow(stage.TwoCups(provider, stage.Pays))
					f.want(f.Place(), http.StatusCreated)
					bring(f)
					if t.Failed() {
						t.Log(f.Report())
					}
				})
			}
		})
	}
}

// TestWebhooksOfAnEarlierAttempt: what is told of a payment that was declined says nothing about the next one.
func TestWebhooksOfAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for _, first := range stage.Providers() {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{})
			for _, second := range stage.Providers() {
				t.Run("then "+second, func(t *testing.T) { tryTwice(t, h.fresh(t), first, second) })
			}
		})
	}
}

func tryTwice(t *testing.T, h house, first, second string) {
	t.Helper()
	kind := map[string]string{stage.Stripe: stage.Asks, stage.Adyen: stage.Asks, stage.PayPal: stage.TakesTime}[first]
	order := stage.TwoCups(first, kind)
	order.Payment.OnDecline = saga.DeclineAwaits
	f := h.newFlow(order)
	f.want(f.Place(), http.StatusAccepted)
	f.Customer("refuse")
	f.Bank("fail")
	f.Poll()
	f.hearAll()
	if next := f.Saga().Order.Payment.NextAction; next == nil || next.Type != saga.NextActionPaymentMethod {
		t.Fatalf("not declined: %s", f.Report())
	}
	old := f.Letters()
	f.want(f.Ask(stage.ToContinue, "other", stage.OtherPayment(second, stage.Asks)), http.StatusAccepted)
	f.clearEvents()
	f.changesNothing(func() { f.bringAll(old, 2) })
	f.Customer("approve")
	f.want(f.Proceed("back"), http.StatusOK)
	f.clearEvents()
	f.changesNothing(func() { f.bringAll(old, 2) })
	f.Settle(func() {})
	f.checkEnd()
	if s := f.Saga(); s.State != saga.Completed {
		t.Errorf("ended in %s", s.State)
	}
	if t.Failed() {
		t.Log(f.Report())
	}
}

// bringAll brings webhooks a number of times, each of which must be taken, and applies them until none waits any more.
func (f *flow) bringAll(letters []*stage.Letter, copies int) {
	f.Helper()
	for range copies {
		for _, one := range letters {
			f.Stage.Bring(one)
		}
	}
	const mostSearches = 20 // more than the inbox makes
	for range mostSearches {
		f.Hear()
	}
	if len(letters) == 0 {
		f.Error("no webhooks")
	}
	distinct := map[string]bool{}
	for _, one := range letters {
		distinct[one.Provider+string(one.Body)] = true
	}
	if kept := f.Count(`SELECT count(*) FROM webhook_events WHERE status IN ('applied', 'unmatched')`); kept != int64(len(distinct)) {
		f.Errorf("%d webhooks were sent, %d are kept", len(distinct), kept)
	}
}

// changesNothing compares all that there is before and after, but for leases, and for when the open are looked at next.
func (f *flow) changesNothing(bring func()) {
	f.Helper()
	f.clearEvents()
	before, calls := f.snapshot(), f.changingCalls()
	bring()
	if diff := cmp.Diff(before, f.snapshot()); diff != "" {
		f.Errorf("changed:\n%s", diff)
	}
	if more := f.changingCalls() - calls; more != 0 {
		f.Errorf("%d calls that move money were made", more)
	}
}

func (f *flow) snapshot() (rows []map[string]any) {
	f.Helper()
	for _, table := range []string{"orders", "refunds", "sagas", "saga_steps", "reservations", "stock", "findings", "outbox_events", "idempotency_keys"} {
		all, err := f.Pool.Query(f.Context(), `SELECT to_jsonb(t) - ARRAY['next_attempt_at', 'lock_version', 'locked_until', 'drives', 'unrecorded',
			'updated_at', 'next_action'] FROM `+table+` t ORDER BY 1`)
		f.Must(err)
		for all.Next() {
			row := map[string]any{}
			f.Must(all.Scan(&row))
			rows = append(rows, row)
		}
		f.Must(all.Err())
	}
	return rows
}

func (f *flow) changingCalls() (n int) {
	f.Helper()
	for _, call := range f.Requests() {
		if call.Method == http.MethodPost && call.Call != sandbox.CallLookup && call.Call != sandbox.CallToken {
			n++
		}
	}
	return n
}

func (f *flow) clearEvents() { f.Helper(); f.Exec(`DELETE FROM webhook_events`) }

// trustingParser reads PayPal's webhooks, whoever signed them: the signatures are somebody else's test.
func (f *flow) trustingParser() webhook.Parser {
	f.Helper()
	parser, err := paypal.NewWebhook(paypal.Config{
		ClientID: "client", ClientSecret: "secret", BaseURL: f.judge(), WebhookID: stage.PayPalWebhookID, VerifyByAPI: true,
		CertificateHosts: []string{f.URL[len("http://"):]},
	})
	f.Must(err)
	return parser
}

// judge is where every signature is good.
func (f *flow) judge() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/oauth2/token" {
			_, _ = w.Write([]byte(`{"access_token":"A21","token_type":"Bearer","expires_in":32400}`))
			return
		}
		_, _ = w.Write([]byte(`{"verification_status":"SUCCESS"}`))
	}))
	f.Cleanup(server.Close)
	return server.URL
}

// unknownTypes are events of types that no adapter knows, about our payment and about none.
func (f *flow) unknownTypes() []*stage.Letter {
	f.Helper()
	payment := f.Saga().Order.Payment.ProviderReference
	var letters []*stage.Letter
	for i, about := range []string{payment, "nobody"} {
		switch f.provider() {
		case stage.Stripe:
			letters = append(letters, f.stripeLetter(fmt.Sprintf("evt_unknown%d", i), "radar.early_fraud_warning.created", about))
		case stage.Adyen:
			letters = append(letters, f.adyenLetter("NOTIFICATION_OF_CHARGEBACK", about), f.adyenLetter("REPORT_AVAILABLE", "report"+about+".csv"))
		default:
			letters = append(letters, f.paypalLetter(fmt.Sprintf("WH-UNKNOWN-%d", i), "CUSTOMER.DISPUTE.CREATED", about))
		}
	}
	return letters
}

func (f *flow) stripeLetter(id, kind, payment string) *stage.Letter {
	f.Helper()
	body := f.encode(map[string]any{
		"id": id, "object": "event", "type": kind, "created": f.Now().Unix(), "data": map[string]any{"object": map[string]any{
			"id": "issfr_1", "object": "radar.early_fraud_warning", "payment_intent": payment,
		}},
	})
	stamp := strconv.FormatInt(f.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(stage.StripeSecret))
	mac.Write([]byte(stamp + "." + string(body)))
	return f.letter(stage.Stripe, body, map[string]string{"Stripe-Signature": "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))})
}

func (f *flow) adyenLetter(event, payment string) *stage.Letter {
	f.Helper()
	key, err := hex.DecodeString(stage.AdyenHMACKey)
	f.Must(err)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s:%s:%s:%s:%d:%s:%s:%s", payment, "", stage.Merchant, "", 0, "EUR", event, "true")
	return f.letter(stage.Adyen, f.encode(map[string]any{"live": "false", "notificationItems": []any{map[string]any{
		"NotificationRequestItem": map[string]any{
			"pspReference": payment, "merchantAccountCode": stage.Merchant, "merchantReference": "", "eventCode": event, "success": "true",
			"eventDate": f.Now().Format(time.RFC3339), "amount": map[string]any{"value": 0, "currency": "EUR"},
			"additionalData": map[string]any{"hmacSignature": base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		},
	}}}), nil)
}

func (f *flow) paypalLetter(id, kind, payment string) *stage.Letter {
	f.Helper()
	return f.letter(stage.PayPal, f.encode(map[string]any{
		"id": id, "event_version": "1.0", "create_time": f.Now().UTC().Format(time.RFC3339), "resource_type": "dispute", "event_type": kind,
		"resource": map[string]any{"dispute_id": "PP-D-1", "disputed_transactions": []any{map[string]any{"seller_transaction_id": payment}}},
	}), map[string]string{
		"Paypal-Transmission-Id": id, "Paypal-Transmission-Time": f.Now().UTC().Format(time.RFC3339), "Paypal-Auth-Algo": "SHA256withRSA",
		"Paypal-Transmission-Sig": base64.StdEncoding.EncodeToString([]byte("good")), "Paypal-Cert-Url": f.URL + "/paypal/cert.pem",
	})
}

func (f *flow) letter(provider string, body []byte, header map[string]string) *stage.Letter {
	one := &stage.Letter{Provider: provider, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	for name, value := range header {
		one.Header.Set(name, value)
	}
	one.Header.Set(stage.SentHeader, f.Now().Format(time.RFC3339Nano))
	return one
}

func (f *flow) encode(value any) []byte {
	f.Helper()
	body, err := json.Marshal(value)
	f.Must(err)
	return body
}
