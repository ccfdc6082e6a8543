package lifecycle_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// life is one order's life as a table has it, and how it ends.
type life struct {
	kind   string // of the first payment method
	manual bool
	await  bool // after a decline
	lives  func(f *flow)
	end    ending
	only   []string // providers; nil for all
	review bool     // a rule of package saga gives the end to a person
}

// ending is what the shop sees in the end.
type ending struct {
	State              saga.State
	Order              saga.OrderStatus
	Payment            saga.PaymentStatus
	Captured, Refunded int64
}

var (
	paidInFull = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, price, 0}
	paidInPart = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, 1000, 0}
	refused    = ending{saga.RolledBack, saga.OrderFailed, saga.PaymentDeclined, 0, 0}
	calledOff  = ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided, 0, 0}
	allBack    = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentRefunded, price, price}
)

// TestLives tries the ways that a payment can take, one by one, at each provider that has them.
func TestLives(t *testing.T) {
	t.Parallel()
	for _, provider := range allProviders {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			for name, one := range allLives() {
				t.Run(name, func(t *testing.T) { one.run(t, h, provider) })
			}
		})
	}
}

// An ordinary account of Adyen's captures once, which is told before it happens.
func TestOrdinaryAdyenAccount(t *testing.T) {
	t.Parallel()
	once := holdLives()["held, and parts cannot be captured"]
	once.only = []string{adyenName}
	once.run(t, newHouse(t, sandbox.Options{}), adyenName)
}

func (l life) run(t *testing.T, h *house, provider string) {
	t.Helper()
	if !l.isOf(provider) {
		return
	}
	order := twoCups(provider, l.kind)
	if l.manual {
		order.Payment.Capture = saga.CaptureManual
	}
	if l.await {
		order.Payment.OnDecline = saga.DeclineAwaits
	}
	f := h.fresh(t).newFlow(order)
	l.lives(f)
	f.settle(func() {})
	if s := f.now(); (ending{s.State, s.Order.Status, s.Order.Payment.Status, s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount}) != l.end {
		t.Errorf("ended otherwise than %+v", l.end)
	}
	if l.review {
		f.checkReplays()
	} else {
		f.checkEnd()
	}
	if t.Failed() {
		t.Log(f.tell())
	}
}

func (l life) isOf(provider string) bool {
	return l.only == nil || slices.Contains(l.only, provider)
}

// want fails the test unless a reply is as said: a status, or a problem's type.
func (f *flow) want(got reply, want any) {
	f.Helper()
	if want != any(got.Status) && want != any(got.Problem) {
		f.Errorf("answered %s, want %v", got, want)
	}
}

// deferred are answers of a provider that tells the end of captures, voids and refunds by webhook only.
func (f *flow) done(status int) any {
	if f.provider() == adyenName {
		return http.StatusAccepted
	}
	return status
}

func (f *flow) provider() string { f.Helper(); return f.now().Order.Payment.Provider }

// hearAll brings every webhook that was sent so far, once.
func (f *flow) hearAll() {
	f.Helper()
	for _, one := range f.letters() {
		if one.copies == 0 {
			f.house.bring(one)
		}
	}
	f.hear()
}

func allLives() map[string]life {
	all := map[string]life{}
	for _, some := range []map[string]life{chargeLives(), customerLives(), holdLives(), refundLives()} {
		maps.Copy(all, some)
	}
	return all
}

func chargeLives() map[string]life {
	return map[string]life{
		"paid": {kind: pays, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusCreated)
		}},
		"paid, and the webhook overtakes the answer": {kind: pays, end: paidInFull, lives: func(f *flow) {
			f.overtakes.Store(true)
			f.want(f.place(), http.StatusCreated)
			f.bringAll(f.letters(), 1)
		}},
		"declined": {kind: declines, end: refused, lives: func(f *flow) {
			f.want(f.place(), "payment-declined")
		}},
		"declined, then paid by another method": {kind: declines, await: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.want(f.proceed("nothing"), "payment-required")
			f.want(f.ask(toContinue, "again", otherPayment(f.provider(), declines)), http.StatusAccepted)
			f.want(f.ask(toContinue, "other", otherPayment(f.provider(), pays)), http.StatusOK)
		}},
		"declined, then paid at another provider": {kind: declines, await: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			other := map[string]string{stripeName: adyenName, adyenName: paypalName, paypalName: stripeName}[f.provider()]
			f.want(f.ask(toContinue, "other", otherPayment(other, pays)), http.StatusOK)
			if got := f.provider(); got != other {
				f.Errorf("paid at %s", got)
			}
		}},
		"declined, then the customer does nothing": {kind: declines, await: true, end: refused, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
		}},
		"declined, then called off": {
			kind: declines, await: true, end: ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentDeclined, 0, 0}, lives: func(f *flow) {
				f.want(f.place(), http.StatusAccepted)
				f.want(f.ask(toCancel, "cancel", map[string]any{}), http.StatusOK)
			},
		},
		"the bank takes its time and pays": {kind: takesTime, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.bank("settle")
		}},
		"the bank takes its time and refuses": {kind: takesTime, end: refused, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.bank("fail")
		}},
	}
}

func customerLives() map[string]life {
	return map[string]life{
		"approved, the webhook comes first": {kind: asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.customer("approve")
			f.hearAll()
			f.hearAll() // PayPal's approval leads to a capture, which is told once more
			f.want(f.proceed("back"), http.StatusOK)
		}},
		"approved, the customer comes back first": {kind: asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.want(f.proceed("early"), map[string]any{stripeName: 202, paypalName: 202, adyenName: "continue-refused"}[f.provider()])
			f.customer("approve")
			f.want(f.proceed("back"), http.StatusOK)
		}},
		"approved, a poll comes first": {kind: asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.customer("approve")
			f.poll()
			f.want(f.proceed("back"), http.StatusOK)
		}},
		"approved and held": {kind: asks, manual: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.customer("approve")
			f.want(f.proceed("back"), http.StatusOK)
			f.want(f.ask(toCapture, "capture", part(0)), f.done(http.StatusOK))
		}},
		"the customer refuses": {kind: asks, end: refused, only: []string{stripeName, adyenName}, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.customer("refuse")
			f.want(f.proceed("back"), "payment-declined")
		}},
		"the customer refuses, then pays by another method": {
			kind: asks, await: true, end: paidInFull, only: []string{stripeName, adyenName}, lives: func(f *flow) {
				f.want(f.place(), http.StatusAccepted)
				f.customer("refuse")
				f.want(f.proceed("back"), http.StatusAccepted)
				f.want(f.ask(toContinue, "other", otherPayment(f.provider(), pays)), http.StatusOK)
			},
		},
		"the customer does nothing": {kind: asks, end: calledOff, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
		}},
		"the customer approves after the deadline": {kind: asks, end: calledOff, only: []string{stripeName, paypalName}, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			next := f.now().Order.Payment
			f.endDeadline()
			f.decide(next.Provider, next.ProviderReference, next.NextAction, "approve")
		}},
		"the customer approves after the deadline, and it is given back": {
			kind: asks, end: ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, price, price}, only: []string{adyenName},
			lives: func(f *flow) {
				f.want(f.place(), http.StatusAccepted)
				next := f.now().Order.Payment
				f.endDeadline()
				f.hearAll()
				f.decide(next.Provider, next.ProviderReference, next.NextAction, "approve")
			},
		},
		"called off while the customer must act": {kind: asks, end: calledOff, lives: func(f *flow) {
			f.want(f.place(), http.StatusAccepted)
			f.want(f.ask(toCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
		}},
	}
}

func holdLives() map[string]life {
	held := func(f *flow) { f.want(f.place(), http.StatusCreated) }
	return map[string]life{
		"held, then all is captured": {kind: pays, manual: true, end: paidInFull, lives: func(f *flow) {
			held(f)
			f.want(f.ask(toCapture, "too much", capturePart(price+1, true)), "amount-too-large")
			f.want(f.ask(toRefund, "refund", part(0)), "cancel-instead")
			f.want(f.ask(toCapture, "capture", part(0)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.ask(toCapture, "once more", part(0)), "nothing-to-capture")
			f.want(f.ask(toCancel, "cancel", map[string]any{}), "refund-instead")
		}},
		"held, then a part is captured for good": {kind: pays, manual: true, end: paidInPart, lives: func(f *flow) {
			held(f)
			f.want(f.ask(toCapture, "capture", capturePart(1000, true)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.ask(toCapture, "once more", part(1)), "nothing-to-capture")
		}},
		"held, then captured in parts": {kind: pays, manual: true, end: paidInFull, only: []string{adyenName, paypalName}, lives: func(f *flow) {
			held(f)
			f.want(f.ask(toCapture, "one", capturePart(1000, false)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.ask(toRefund, "refund", part(0)), "cancel-instead")
			f.want(f.ask(toCapture, "too much", capturePart(price-999, false)), "amount-too-large")
			f.want(f.ask(toCapture, "two", capturePart(998, false)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.ask(toCapture, "rest", part(0)), f.done(http.StatusOK))
		}},
		"held, a part is captured, and the rest called off": {
			kind: pays, manual: true, end: paidInPart, only: []string{adyenName, paypalName}, lives: func(f *flow) {
				held(f)
				f.want(f.ask(toCapture, "one", capturePart(1000, false)), f.done(http.StatusOK))
				f.hearAll()
				f.want(f.ask(toCancel, "cancel", map[string]any{}), http.StatusOK)
				f.want(f.ask(toCapture, "rest", part(0)), "nothing-to-capture")
			},
		},
		"held, and parts cannot be captured": {kind: pays, manual: true, end: paidInFull, only: []string{stripeName}, lives: func(f *flow) {
			held(f)
			f.want(f.ask(toCapture, "one", capturePart(1000, false)), "one-capture")
			f.want(f.ask(toCapture, "all", part(0)), f.done(http.StatusOK))
		}},
		"held, then called off": {kind: pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.want(f.ask(toCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.ask(toCapture, "capture", part(0)), "order-over")
		}},
		"held until the hold ends": {kind: pays, manual: true, end: calledOff, lives: held},
		"held until the hold ends, which is told at once": {kind: pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.pass(f.adapters[f.provider()].Windows().Hold + time.Second)
			f.hearAll()
		}},
		"the hold ends as it is let go, which is told first": {kind: pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.hearAll()
			f.endHoldInVoid()
			f.hearAll()
		}},
		"the hold ends as it is let go, which is told last": {kind: pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.hearAll()
			f.endHoldInVoid()
			for _, one := range slices.Backward(f.letters()) {
				f.bring(one, 1)
			}
		}},
		"held, a part is captured, and the hold ends": {
			kind: pays, manual: true, end: paidInPart, only: []string{adyenName, paypalName}, lives: func(f *flow) {
				held(f)
				f.want(f.ask(toCapture, "one", capturePart(1000, false)), f.done(http.StatusOK))
			},
		},
		"the capture comes back": {
			kind: pays, manual: true, only: []string{adyenName}, review: true,
			end: ending{saga.NeedsReview, saga.OrderInReview, saga.PaymentCaptured, price, 0}, lives: func(f *flow) {
				held(f)
				f.ask(toCapture, "capture", part(0))
				f.hearAll()
				f.bankOn("fail")
			},
		},
	}
}

// endHoldInVoid lets the provider end a hold just before a cancel of it comes in, a minute before the end that is known here.
func (f *flow) endHoldInVoid() {
	f.Helper()
	f.pass(f.adapters[f.provider()].Windows().Hold - time.Minute)
	f.passAtProviders(2 * time.Minute)
	f.want(f.ask(toCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
}

// bankOn lets the bank decide about payments that are taken.
func (f *flow) bankOn(decision string) {
	f.Helper()
	for _, charge := range f.sandbox.Ledger() {
		f.control("payments/" + charge.ID + "/" + decision)
	}
}

func refundLives() map[string]life {
	paid := func(f *flow) { f.want(f.place(), http.StatusCreated) }
	return map[string]life{
		"refunded in parts": {kind: pays, end: allBack, lives: func(f *flow) {
			paid(f)
			f.want(f.ask(toCancel, "cancel", map[string]any{}), "refund-instead")
			f.want(f.ask(toRefund, "part", part(1000)), f.done(http.StatusCreated))
			f.want(f.ask(toRefund, "too much", part(price-999)), "amount-too-large")
			f.want(f.ask(toRefund, "rest", part(0)), f.done(http.StatusCreated))
			f.want(f.ask(toRefund, "more", part(1)), "amount-too-large")
		}},
		"a part of a part is refunded": {
			kind: pays, manual: true, end: ending{saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded, 1000, 400},
			lives: func(f *flow) {
				paid(f)
				f.want(f.ask(toCapture, "capture", capturePart(1000, true)), f.done(http.StatusOK))
				f.hearAll()
				f.want(f.ask(toRefund, "too much", part(1001)), "amount-too-large")
				f.want(f.ask(toRefund, "part", part(400)), f.done(http.StatusCreated))
			},
		},
		"refunded, and the webhook overtakes the answer": {kind: pays, end: allBack, lives: func(f *flow) {
			paid(f)
			f.overtakes.Store(true)
			f.want(f.ask(toRefund, "all", part(0)), f.done(http.StatusCreated))
			f.hear()
			if payment := f.now().Order.Payment; payment.RefundedAmount != price {
				f.Errorf("%d refunded", payment.RefundedAmount)
			}
		}},
		"the refund takes its time": {kind: refundsLag, end: allBack, lives: func(f *flow) {
			paid(f)
			f.want(f.ask(toRefund, "all", part(0)), http.StatusAccepted)
			f.want(f.ask(toRefund, "more", part(1)), "amount-too-large")
			f.bank("settle")
		}},
		"the refund is refused later": {kind: refundsLag, end: paidInFull, only: []string{stripeName, paypalName}, lives: func(f *flow) {
			paid(f)
			f.want(f.ask(toRefund, "all", part(0)), http.StatusAccepted)
			f.failRefunds()
		}},
		"the refund comes back weeks later": {
			kind: pays, end: ending{saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded, price, 500}, lives: func(f *flow) {
				paid(f)
				f.ask(toRefund, "part", part(1000))
				f.hearAll()
				f.pass(20 * 24 * time.Hour)
				f.failRefunds()
				f.hearAll()
				f.want(f.ask(toRefund, "again", part(500)), f.done(http.StatusCreated))
			},
		},
	}
}

// failRefunds lets the bank send every refund back.
func (f *flow) failRefunds() {
	f.Helper()
	for _, refund := range f.refundsOf(f.first.id) {
		for _, step := range refund.Steps {
			if !f.control("refunds/" + step.ProviderReference + "/fail") {
				f.Errorf("refund %s does not fail", step.ProviderReference)
			}
		}
	}
}
