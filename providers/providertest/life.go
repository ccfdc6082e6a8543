package providertest

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// lives are what becomes of a payment after its charge, beyond the calls that suite.go tries one by one.
var lives = map[string]func(*testing.T, bench){
	"what cannot be charged is refused first":     refusesFirst,
	"the customer approves":                       approved,
	"the customer approves, the money is held":    approvedHeld,
	"the customer refuses":                        refused,
	"held, then all is captured":                  capturesAll,
	"held, then a part is captured for good":      capturesPart,
	"held, then more than that is to be captured": capturesTooMuch,
	"held, then captured in parts":                capturesParts,
	"held, then voided":                           voidedHold,
	"held until the hold ends":                    expires,
	"refunded in parts":                           refundsParts,
}

func (b bench) look(t *testing.T, reference string) providers.Outcome {
	t.Helper()
	return b.Lookup(t.Context(), providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, Reference: reference, SentAt: time.Now()})
}

// expectLook compares how a payment stands, where the provider can be asked.
func (b bench) expectLook(t *testing.T, reference string, kind providers.OutcomeKind, code string, money int64) {
	t.Helper()
	got := b.look(t, reference)
	if b.Windows().NoLookup {
		if got.Kind != providers.Unknown || got.Code != providers.CodeNoLookup {
			t.Errorf("look-up: %+v", got)
		}
		return
	}
	if got.Kind != kind || got.Code != code || got.Money != dollars(money) || got.Reference != reference {
		t.Errorf("look-up: %+v, want %s %s of %d", got, kind, code, money)
	}
}

func captureOf(held providers.Outcome, attempt string, amount int64, final bool) providers.CaptureRequest {
	return providers.CaptureRequest{
		Key: providers.SubKey(sagaKey + "_capture" + attempt), SagaKey: sagaKey, Reference: held.Reference, Money: dollars(amount), Final: final,
	}
}

// captured is a capture that works, made twice.
func (b bench) captured(t *testing.T, request providers.CaptureRequest) {
	t.Helper()
	first := b.Capture(t.Context(), request)
	if first.Kind != b.done() || first.Money != (providers.Money{}) && first.Money != request.Money || first.Reference == "" {
		t.Fatalf("capture: %+v", first)
	}
	if again := b.Capture(t.Context(), request); !cmp.Equal(first, again) {
		t.Errorf("the repeat ended otherwise: %s", cmp.Diff(first, again))
	}
}

// refusesFirst: Check finds without a call what Charge would refuse.
func refusesFirst(t *testing.T, b bench) {
	t.Helper()
	if err := b.Check(order(chargeKey, b.Methods.Succeeds)); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*providers.ChargeRequest){
		"no key":                   func(r *providers.ChargeRequest) { r.Key = "" },
		"no money":                 func(r *providers.ChargeRequest) { r.Money.Amount = 0 },
		"no currency":              func(r *providers.ChargeRequest) { r.Money.Currency = "XXX" },
		"no method":                func(r *providers.ChargeRequest) { r.Method = "" },
		"a card number":            func(r *providers.ChargeRequest) { r.Method = "4111111111111111" },
		"a method and method data": func(r *providers.ChargeRequest) { r.MethodData = []byte(`{"type":"scheme"}`) },
	} {
		request := order(chargeKey, b.Methods.Succeeds)
		change(&request)
		invalid, ok := errors.AsType[*providers.RequestError](b.Check(request))
		if !ok || invalid.Field == "" || invalid.Code == "" || invalid.Detail == "" {
			t.Errorf("%s: %+v", name, invalid)
			continue
		}
		if got := b.Charge(t.Context(), request); got.Kind != providers.Rejected || got.Code != invalid.Code {
			t.Errorf("%s: charge %+v, want rejected as %s", name, got, invalid.Code)
		}
	}
	if sent := b.requests(t); len(sent) != 0 {
		t.Errorf("sent: %+v", sent)
	}
}

// asks is a charge for which the customer must act.
func (b bench) asks(t *testing.T, manualCapture bool) (asked providers.Outcome, next providers.ContinueRequest) {
	t.Helper()
	request := order(chargeKey, b.Methods.Action)
	request.ManualCapture = manualCapture
	asked = b.charged(t, request, providers.ActionRequired)
	return asked, providers.ContinueRequest{
		Key: sagaKey + "_continue", ChargeKey: chargeKey, Reference: asked.Reference, Money: request.Money, ManualCapture: manualCapture,
	}
}

// decide is what the customer does; it gives what the customer's way back brings to the shop.
func (b bench) decide(t *testing.T, asked providers.Outcome, decision string) []byte {
	t.Helper()
	if b.Details != nil {
		return b.Details(t, asked, decision)
	}
	answer := httptest.NewRecorder()
	b.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/_sandbox/payments/"+asked.Reference+"/"+decision, bytes.NewReader([]byte("{}"))))
	if answer.Code/100 != 2 {
		t.Fatalf("%s: %d %s", decision, answer.Code, answer.Body)
	}
	return nil
}

// continued goes on twice under one key, which ends as one call does.
func (b bench) continued(t *testing.T, request providers.ContinueRequest, want providers.OutcomeKind) {
	t.Helper()
	first := b.Continue(t.Context(), request)
	if first.Kind != want || first.Reference != request.Reference || first.Money != request.Money {
		t.Fatalf("continue: %+v, want %s", first, want)
	}
	if again := b.Continue(t.Context(), request); !cmp.Equal(first, again) {
		t.Errorf("the repeat ended otherwise: %s", cmp.Diff(first, again))
	}
	b.expectLook(t, request.Reference, want, "", price)
}

func approved(t *testing.T, b bench) {
	t.Helper()
	asked, next := b.asks(t, false)
	if got := b.look(t, asked.Reference); !b.Windows().NoLookup && !cmp.Equal(asked, got) {
		t.Errorf("looked up: %s", cmp.Diff(asked, got))
	}
	if early := b.Continue(t.Context(), next); early.Kind != providers.ActionRequired && early.Kind != providers.Rejected {
		t.Errorf("before the customer has acted: %+v", early)
	}
	next.Key, next.Details = next.Key+"_2", b.decide(t, asked, "approve")
	b.continued(t, next, providers.Succeeded)
	b.expectLedger(t, chargeKey, 0, price, 0)
}

func approvedHeld(t *testing.T, b bench) {
	t.Helper()
	asked, next := b.asks(t, true)
	next.Details = b.decide(t, asked, "approve")
	b.continued(t, next, providers.Authorized)
	b.expectLedger(t, chargeKey, price, 0, 0)
	b.captured(t, captureOf(asked, "", price, true))
	b.expectLedger(t, chargeKey, 0, price, 0)
	b.expectLook(t, asked.Reference, providers.Succeeded, "", price)
}

// refused: the provider may say so, or go on waiting for a customer who may yet approve; nothing is taken.
func refused(t *testing.T, b bench) {
	t.Helper()
	asked, next := b.asks(t, false)
	next.Details = b.decide(t, asked, "refuse")
	switch got := b.Continue(t.Context(), next); got.Kind {
	case providers.Declined, providers.Canceled, providers.ActionRequired:
	default:
		t.Errorf("continue: %+v", got)
	}
	b.expectLedger(t, chargeKey, 0, 0, 0)
}

func capturesAll(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	b.expectLook(t, held.Reference, providers.Authorized, "", price)
	b.captured(t, captureOf(held, "", price, true))
	b.expectLedger(t, chargeKey, 0, price, 0)
	b.expectLook(t, held.Reference, providers.Succeeded, "", price)
}

// capturesPart: what a final capture leaves is let go, and not to be had by a second one.
func capturesPart(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	b.captured(t, captureOf(held, "", 1000, true))
	b.expectLedger(t, chargeKey, 0, 1000, 0)
	b.expectLook(t, held.Reference, providers.Succeeded, "", 1000)
	if second := b.Capture(t.Context(), captureOf(held, "_2", 500, true)); second.Kind == providers.Succeeded {
		t.Errorf("a second capture: %+v", second)
	}
	b.expectLedger(t, chargeKey, 0, 1000, 0)
}

func capturesTooMuch(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	want := providers.Rejected
	if b.Deferred {
		want = providers.Processing
	}
	if got := b.Capture(t.Context(), captureOf(held, "", price+1, true)); got.Kind != want {
		t.Errorf("%+v", got)
	}
	b.expectLedger(t, chargeKey, price, 0, 0)
}

// capturesParts: while a rest is held the payment is Authorized, of all that was held at first.
func capturesParts(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	if !b.Parts {
		if got := b.Capture(t.Context(), captureOf(held, "", 1000, false)); got.Kind == providers.Succeeded {
			t.Errorf("a part, and more to follow: %+v", got)
		}
		return
	}
	b.captured(t, captureOf(held, "", 1000, false))
	b.expectLedger(t, chargeKey, price-1000, 1000, 0)
	b.expectLook(t, held.Reference, providers.Authorized, providers.CodePartiallyCaptured, price)
	void := b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", ChargeKey: chargeKey, Reference: held.Reference})
	if void.Kind != providers.Rejected || void.Code != providers.CodeAlreadyCaptured {
		t.Errorf("void: %+v", void)
	}
	b.captured(t, captureOf(held, "_2", 2000, true))
	b.expectLedger(t, chargeKey, 0, 3000, 0)
	b.expectLook(t, held.Reference, providers.Succeeded, "", 3000)
}

func voidedHold(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	void := providers.VoidRequest{Key: sagaKey + "_void", ChargeKey: chargeKey, Reference: held.Reference, ManualCapture: true}
	if got := b.Void(t.Context(), void); got.Kind != b.done() {
		t.Errorf("void: %+v", got)
	}
	b.expectLedger(t, chargeKey, 0, 0, 0)
	got := b.look(t, held.Reference)
	if !b.Windows().NoLookup && (got.Kind != providers.Canceled || got.Code == providers.CodeAuthorizationExpired) {
		t.Errorf("look-up: %+v", got)
	}
	b.expectNoCapture(t, held, "")
}

// expectNoCapture: a hold that is gone is not captured.
func (b bench) expectNoCapture(t *testing.T, held providers.Outcome, code string) {
	t.Helper()
	got := b.Capture(t.Context(), captureOf(held, "", price, true))
	switch {
	case b.Deferred && got.Kind != providers.Processing, !b.Deferred && got.Kind != providers.Canceled,
		code != "" && !b.Deferred && got.Code != code:
		t.Errorf("capture: %+v", got)
	}
	b.expectLedger(t, chargeKey, 0, 0, 0)
}

// expires: the provider lets go of the hold by itself when Windows().Hold has passed, and not before.
func expires(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	b.sandbox.AdvanceClock(b.Windows().Hold - time.Hour)
	b.expectLook(t, held.Reference, providers.Authorized, "", price)
	b.expectLedger(t, chargeKey, price, 0, 0)
	b.sandbox.AdvanceClock(2 * time.Hour)
	b.expectLook(t, held.Reference, providers.Canceled, providers.CodeAuthorizationExpired, price)
	b.expectNoCapture(t, held, providers.CodeAuthorizationExpired)
}

// refundsParts: each refund is one of its own, and together they never give back more than was taken.
func refundsParts(t *testing.T, b bench) {
	t.Helper()
	taken := b.charged(t, order(chargeKey, b.Methods.Succeeds), providers.Succeeded)
	b.sandbox.FlushWebhooks(t.Context()) // the capture that follows the charge at some providers
	references := make(map[string]bool)
	for attempt, amount := range map[string]int64{"": 1000, "_2": 1000, "_3": 1998} {
		request := providers.RefundRequest{
			Key: providers.SubKey(sagaKey + "_refund" + attempt), SagaKey: sagaKey, Reference: taken.Reference, Money: dollars(amount),
		}
		got := b.Refund(t.Context(), request)
		if got.Kind != b.done() || got.Reference == "" || got.Money != request.Money || references[got.Reference] {
			t.Errorf("refund%s: %+v", attempt, got)
		}
		references[got.Reference] = true
	}
	b.expectLedger(t, chargeKey, 0, price, 3998)
	over := b.Refund(t.Context(), providers.RefundRequest{
		Key: sagaKey + "_refund_4", SagaKey: sagaKey, Reference: taken.Reference, Money: dollars(1),
	})
	if over.Kind == providers.Succeeded && over.Code != providers.CodeAlreadyRefunded {
		t.Errorf("a cent more: %+v", over)
	}
	b.expectLedger(t, chargeKey, 0, price, 3998)
	b.expectLook(t, taken.Reference, providers.Canceled, providers.CodeRefunded, price)
	none := b.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: sagaKey + "_refund_5", Payment: taken.Reference})
	if !b.Windows().NoLookup && none.Kind != providers.NotFound {
		t.Errorf("a refund that was never made: %+v", none)
	}
}
