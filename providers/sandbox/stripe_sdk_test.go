package sandbox_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/charge"
	"github.com/stripe/stripe-go/v76/paymentintent"
	"github.com/stripe/stripe-go/v76/refund"

	"paysaga/providers/sandbox"
)

func (b *bench) backend() stripe.Backend {
	return stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: new(b.url + "/stripe"), HTTPClient: http.DefaultClient, MaxNetworkRetries: stripe.Int64(0),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
}

func (b *bench) intents() paymentintent.Client {
	return paymentintent.Client{B: b.backend(), Key: testKey}
}

func sdkOrder(t *testing.T, method string) *stripe.PaymentIntentParams {
	t.Helper()
	params := &stripe.PaymentIntentParams{
		Amount: stripe.Int64(3998), Currency: new("eur"), Confirm: new(true), PaymentMethod: new(method),
		AutomaticPaymentMethods: &stripe.PaymentIntentAutomaticPaymentMethodsParams{
			Enabled: new(true), AllowRedirects: new("never"),
		},
	}
	params.Context = t.Context()
	params.SetIdempotencyKey("k1")
	params.AddMetadata("saga_key", "saga-k1")
	params.AddExpand("latest_charge")
	return params
}

func TestStripeSDKCharges(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, err := b.intents().New(sdkOrder(t, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	if payment.Status != stripe.PaymentIntentStatusSucceeded || payment.AmountReceived != 3998 || payment.LatestCharge == nil ||
		!payment.LatestCharge.Captured || payment.LatestCharge.PaymentMethodDetails.Card.Last4 != "4242" {
		t.Errorf("payment is %+v", payment)
	}
	want := sandbox.Charge{
		Provider: "stripe", ID: payment.ID, Identifier: "k1", Reference: "saga-k1", Amount: 3998, Currency: "EUR", Status: "succeeded",
		Captured: 3998, Calls: 1,
	}
	if diff := cmp.Diff(want, b.only(t)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if payment.LastResponse.Header.Get("Stripe-Version") != "2023-10-16" || payment.LastResponse.RequestID == "" {
		t.Errorf("headers are %v", payment.LastResponse.Header)
	}
}

func TestStripeSDKOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method  string
		status  stripe.PaymentIntentStatus
		code    stripe.ErrorCode
		decline stripe.DeclineCode
	}{
		{method: "pm_card_mastercard", status: "succeeded"},
		{method: "pm_card_threeDSecureOptional", status: "succeeded"},
		{method: "pm_card_visa_chargeDeclined", status: "requires_payment_method", code: "card_declined", decline: "generic_decline"},
		{method: "pm_card_chargeDeclined", status: "requires_payment_method", code: "card_declined", decline: "generic_decline"},
		{method: "pm_card_chargeDeclinedInsufficientFunds", status: "requires_payment_method", code: "card_declined", decline: "insufficient_funds"},
		{method: "pm_card_visa_chargeDeclinedInsufficientFunds", status: "requires_payment_method", code: "card_declined", decline: "insufficient_funds"},
		{method: "pm_card_chargeDeclinedLostCard", status: "requires_payment_method", code: "card_declined", decline: "lost_card"},
		{method: "pm_card_visa_chargeDeclinedStolenCard", status: "requires_payment_method", code: "card_declined", decline: "stolen_card"},
		{method: "pm_card_chargeDeclinedFraudulent", status: "requires_payment_method", code: "card_declined", decline: "fraudulent"},
		{method: "pm_card_chargeDeclinedExpiredCard", status: "requires_payment_method", code: "expired_card"},
		{method: "pm_card_chargeDeclinedProcessingError", status: "requires_payment_method", code: "processing_error"},
		{method: "pm_card_authenticationRequired", status: "requires_action"},
		{method: "pm_card_threeDSecure2Required", status: "requires_action"},
	} {
		t.Run(test.method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			payment, err := b.intents().New(sdkOrder(t, test.method))
			if test.code == "" {
				if err != nil || payment.Status != test.status {
					t.Fatalf("payment %+v, error %v", payment, err)
				}
				return
			}
			var refused *stripe.Error
			if !errors.As(err, &refused) {
				t.Fatalf("error is %v", err)
			}
			if refused.Code != test.code || refused.DeclineCode != test.decline {
				t.Errorf("error is %v", refused)
			}
			checkCardError(t, refused)
			b.wantMoney(t, string(test.status), 0, 0, 0)
		})
	}
}

// checkCardError holds what is true of every decline.
func checkCardError(t *testing.T, refused *stripe.Error) {
	t.Helper()
	if refused.HTTPStatusCode != http.StatusPaymentRequired || refused.Type != stripe.ErrorTypeCard || refused.ChargeID == "" ||
		refused.PaymentMethod == nil || refused.Msg == "" {
		t.Errorf("error is %v", refused)
	}
	payment := refused.PaymentIntent
	if payment == nil || payment.Status != "requires_payment_method" || payment.LastPaymentError.Code != refused.Code || payment.PaymentMethod != nil {
		t.Errorf("payment in the error is %+v", payment)
	}
}

func TestStripeSDKUnknownMethod(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	_, err := b.intents().New(sdkOrder(t, "pm_nothing"))
	var refused *stripe.Error
	if !errors.As(err, &refused) || refused.Code != stripe.ErrorCodeResourceMissing || refused.Param != "payment_method" || refused.HTTPStatusCode != 400 {
		t.Errorf("error is %v", err)
	}
	if charges := b.Ledger(); len(charges) != 0 {
		t.Errorf("ledger is %+v", charges)
	}
}

func TestStripeSDKDeclineThenAnotherMethod(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	_, err := b.intents().New(sdkOrder(t, "pm_card_visa_chargeDeclined"))
	var refused *stripe.Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	params := &stripe.PaymentIntentConfirmParams{PaymentMethod: new("pm_card_visa")}
	params.Context = t.Context()
	payment, err := b.intents().Confirm(refused.PaymentIntent.ID, params)
	if err != nil || payment.Status != "succeeded" || payment.LastPaymentError != nil {
		t.Fatalf("payment %+v, error %v", payment, err)
	}
	charges := charge.Client{B: b.backend(), Key: testKey}.List(&stripe.ChargeListParams{
		ListParams: stripe.ListParams{Context: t.Context()}, PaymentIntent: new(payment.ID),
	})
	var statuses []stripe.ChargeStatus
	for charges.Next() {
		statuses = append(statuses, charges.Charge().Status)
	}
	if diff := cmp.Diff([]stripe.ChargeStatus{"succeeded", "failed"}, statuses); diff != "" || charges.Err() != nil {
		t.Errorf("charges: %v %s", charges.Err(), diff)
	}
}

func TestStripeSDKAuthorizeAndCapture(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	params := sdkOrder(t, "pm_card_visa")
	params.CaptureMethod = new("manual")
	payment, err := b.intents().New(params)
	if err != nil || payment.Status != "requires_capture" || payment.AmountCapturable != 3998 || payment.LatestCharge.Captured {
		t.Fatalf("payment %+v, error %v", payment, err)
	}
	b.wantMoney(t, "requires_capture", 3998, 0, 0)
	capture := func(amount int64) error {
		params := &stripe.PaymentIntentCaptureParams{AmountToCapture: new(amount)}
		params.Context = t.Context()
		payment, err = b.intents().Capture(payment.ID, params)
		return err
	}
	id := payment.ID
	if err := capture(5000); !isCode(err, stripe.ErrorCodeAmountTooLarge) {
		t.Errorf("more than the hold: %v", err)
	}
	payment.ID = id
	if err := capture(3000); err != nil || payment.AmountReceived != 3000 || payment.AmountCapturable != 0 {
		t.Fatalf("payment %+v, error %v", payment, err)
	}
	b.wantMoney(t, "succeeded", 0, 3000, 0)
	if err := capture(100); !isCode(err, stripe.ErrorCodePaymentIntentUnexpectedState) {
		t.Errorf("second capture: %v", err)
	}
}

func isCode(err error, code stripe.ErrorCode) bool {
	var refused *stripe.Error
	return errors.As(err, &refused) && refused.Code == code
}

func TestStripeSDKCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	params := sdkOrder(t, "pm_card_visa")
	params.CaptureMethod = new("manual")
	payment, err := b.intents().New(params)
	if err != nil {
		t.Fatal(err)
	}
	cancel := &stripe.PaymentIntentCancelParams{CancellationReason: new("abandoned")}
	cancel.Context = t.Context()
	payment, err = b.intents().Cancel(payment.ID, cancel)
	if err != nil || payment.Status != "canceled" || payment.CanceledAt == 0 || payment.CancellationReason != "abandoned" {
		t.Fatalf("payment %+v, error %v", payment, err)
	}
	if entry := b.only(t); entry.Authorized != 0 || entry.Captured != 0 || entry.Status != "canceled" {
		t.Errorf("ledger is %+v", entry)
	}
	_, err = b.intents().Cancel(payment.ID, cancel)
	var refused *stripe.Error
	if !errors.As(err, &refused) || refused.Code != stripe.ErrorCodePaymentIntentUnexpectedState || refused.PaymentIntent.Status != "canceled" {
		t.Errorf("second cancel: %v", err)
	}
}

// giveBack refunds through the SDK; amount 0 is all that is left.
func (b *bench) giveBack(t *testing.T, key, payment string, amount int64) (*stripe.Refund, error) {
	t.Helper()
	params := &stripe.RefundParams{PaymentIntent: new(payment), Reason: new("requested_by_customer")}
	params.Context = t.Context()
	params.SetIdempotencyKey(key)
	if amount > 0 {
		params.Amount = new(amount)
	}
	return refund.Client{B: b.backend(), Key: testKey}.New(params)
}

func TestStripeSDKRefunds(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, err := b.intents().New(sdkOrder(t, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.giveBack(t, "r1", payment.ID, 1000)
	if err != nil || first.Status != "succeeded" || first.Amount != 1000 || first.PaymentIntent.ID != payment.ID {
		t.Fatalf("refund %+v, error %v", first, err)
	}
	if again, err := b.giveBack(t, "r1", payment.ID, 1000); err != nil || again.ID != first.ID {
		t.Errorf("repeat gave %+v, %v", again, err)
	}
	if _, err := b.giveBack(t, "r2", payment.ID, 2999); err == nil {
		t.Error("more than what is left was refunded")
	}
	b.wantMoney(t, "succeeded", 0, 3998, 1000)
	if _, err := b.giveBack(t, "r3", payment.ID, 0); err != nil {
		t.Error(err)
	}
	if _, err := b.giveBack(t, "r4", payment.ID, 0); !isCode(err, stripe.ErrorCodeChargeAlreadyRefunded) {
		t.Errorf("third refund: %v", err)
	}
	b.wantMoney(t, "succeeded", 0, 3998, 3998)
}

func TestStripeSDKListsRefunds(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, err := b.intents().New(sdkOrder(t, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"r1", "r2"} {
		if _, err := b.giveBack(t, key, payment.ID, 100); err != nil {
			t.Fatal(err)
		}
	}
	params := &stripe.RefundListParams{PaymentIntent: new(payment.ID)}
	params.Context = t.Context()
	list, count := refund.Client{B: b.backend(), Key: testKey}.List(params), 0
	for list.Next() {
		count++
	}
	if list.Err() != nil || count != 2 {
		t.Errorf("%d refunds, error %v", count, list.Err())
	}
}

func TestStripeSDKSearchLagsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{SearchDelay: time.Minute})
	payment, err := b.intents().New(sdkOrder(t, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	search := func() []string {
		params := &stripe.PaymentIntentSearchParams{SearchParams: stripe.SearchParams{Query: "metadata['saga_key']:'saga-k1'", Context: t.Context()}}
		found, ids := b.intents().Search(params), []string(nil)
		for found.Next() {
			ids = append(ids, found.PaymentIntent().ID)
		}
		if found.Err() != nil {
			t.Fatal(found.Err())
		}
		return ids
	}
	if ids := search(); len(ids) != 0 {
		t.Errorf("found %v at once", ids)
	}
	b.AdvanceClock(time.Minute)
	if diff := cmp.Diff([]string{payment.ID}, search()); diff != "" {
		t.Error(diff)
	}
}

func TestStripeSDKGarbageIsNoStripeError(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	if err := b.AddFault(sandbox.Fault{Kind: sandbox.FaultGarbageAfter, Times: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := b.intents().New(sdkOrder(t, "pm_card_visa"))
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("error is %v", err)
	}
	if payment, err := b.intents().New(sdkOrder(t, "pm_card_visa")); err != nil || payment.Status != "succeeded" {
		t.Errorf("repeat: %+v %v", payment, err)
	}
	if entry := b.only(t); entry.Captured != 3998 || entry.Calls != 2 {
		t.Errorf("ledger is %+v", entry)
	}
}
