package lifecycle_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/saga"
	"paysaga/saga/fixture"
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
	paidInFull = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, stage.Price, 0}
	paidInPart = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, 1000, 0}
	refused    = ending{saga.RolledBack, saga.OrderFailed, saga.PaymentDeclined, 0, 0}
	calledOff  = ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided, 0, 0}
	allBack    = ending{saga.Completed, saga.OrderConfirmed, saga.PaymentRefunded, stage.Price, stage.Price}
)

// TestLives tries the ways that a payment can take, one by one, at each provider that has them.
func TestLives(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
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
	once.only = []string{stage.Adyen}
	once.run(t, newHouse(t, sandbox.Options{}), stage.Adyen)
}

func (l life) run(t *testing.T, h house, provider string) {
	t.Helper()
	if !l.isOf(provider) {
		return
	}
	f := l.live(t, h, provider)
	if s := f.Saga(); (ending{s.State, s.Order.Status, s.Order.Payment.Status, s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount}) != l.end {
		t.Errorf("ended otherwise than %+v", l.end)
	}
	if l.review {
		f.CheckEnd()
	} else {
		f.checkEnd()
	}
	if t.Failed() {
		t.Log(f.Report())
	}
}

// live lives it to its end.
func (l life) live(t *testing.T, h house, provider string) *flow {
	t.Helper()
	order := stage.TwoCups(provider, l.kind)
	if l.manual {
		order.Payment.Capture = saga.CaptureManual
	}
	if l.await {
		order.Payment.OnDecline = saga.DeclineAwaits
	}
	f := h.fresh(t).newFlow(order)
	l.lives(f)
	f.Settle(func() {})
	return f
}

// TestLivesAreExported writes each life down as a fixture, which must replay as it was lived.
func TestLivesAreExported(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			world := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true}).NewWorld()
			for name, one := range allLives() {
				if one.isOf(provider) {
					t.Run(name, func(t *testing.T) { export(t, one.live(t, h, provider), world) })
				}
			}
		})
	}
}

func export(t *testing.T, f *flow, world *stage.World) {
	t.Helper()
	life, err := f.Store().ReadLife(t.Context(), stage.Account, f.First.ID)
	f.Must(err)
	exported, _, err := fixture.Export(life)
	f.Must(err)
	text, err := fixture.ToYAML(exported)
	f.Must(err)
	read, err := fixture.Read("exported.yaml", strings.NewReader(text))
	f.Must(err)
	world.ReportTo(t)
	result, err := fixture.Play(read, world)
	f.Must(err)
	if !result.Passed() {
		t.Errorf("%s\n%s\n%s", result.Failure(), text, f.Report())
	}
}

func (l life) isOf(provider string) bool {
	return l.only == nil || slices.Contains(l.only, provider)
}

// deferred are answers of a provider that tells the end of captures, voids and refunds by webhook only.
func (f *flow) done(status int) any {
	if f.provider() == stage.Adyen {
		return http.StatusAccepted
	}
	return status
}

func (f *flow) provider() string { f.Helper(); return f.Saga().Order.Payment.Provider }

// hearAll brings every webhook that was sent so far, once.
func (f *flow) hearAll() {
	f.Helper()
	for _, one := range f.Letters() {
		if one.Copies == 0 {
			f.Stage.Bring(one)
		}
	}
	f.Hear()
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
		"paid": {kind: stage.Pays, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusCreated)
		}},
		"paid, and the webhook overtakes the answer": {kind: stage.Pays, end: paidInFull, lives: func(f *flow) {
			f.Overtake()
			f.want(f.Place(), http.StatusCreated)
			f.bringAll(f.Letters(), 1)
		}},
		"declined": {kind: stage.Declines, end: refused, lives: func(f *flow) {
			f.want(f.Place(), "payment-declined")
		}},
		"declined, then paid by another method": {kind: stage.Declines, await: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.want(f.Proceed("nothing"), "payment-required")
			f.want(f.Ask(stage.ToContinue, "again", stage.OtherPayment(f.provider(), stage.Declines)), http.StatusAccepted)
			f.want(f.Ask(stage.ToContinue, "other", stage.OtherPayment(f.provider(), stage.Pays)), http.StatusOK)
		}},
		"declined, then paid at another provider": {kind: stage.Declines, await: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			other := map[string]string{stage.Stripe: stage.Adyen, stage.Adyen: stage.PayPal, stage.PayPal: stage.Stripe}[f.provider()]
			f.want(f.Ask(stage.ToContinue, "other", stage.OtherPayment(other, stage.Pays)), http.StatusOK)
			if got := f.provider(); got != other {
				f.Errorf("paid at %s", got)
			}
		}},
		"declined, then the customer does nothing": {kind: stage.Declines, await: true, end: refused, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
		}},
		"declined, then called off": {
			kind: stage.Declines, await: true, end: ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentDeclined, 0, 0}, lives: func(f *flow) {
				f.want(f.Place(), http.StatusAccepted)
				f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), http.StatusOK)
			},
		},
		"the bank takes its time and pays": {kind: stage.TakesTime, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Bank("settle")
		}},
		"the bank takes its time and refuses": {kind: stage.TakesTime, end: refused, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Bank("fail")
		}},
	}
}

func customerLives() map[string]life {
	return map[string]life{
		"approved, the webhook comes first": {kind: stage.Asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("approve")
			f.hearAll()
			f.hearAll() // PayPal's approval leads to a capture, which is told once more
			f.want(f.Proceed("back"), http.StatusOK)
		}},
		"approved, the customer comes back first": {kind: stage.Asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.want(f.Proceed("early"), map[string]any{stage.Stripe: 202, stage.PayPal: 202, stage.Adyen: "continue-refused"}[f.provider()])
			f.Customer("approve")
			f.want(f.Proceed("back"), http.StatusOK)
		}},
		"approved, a poll comes first": {kind: stage.Asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("approve")
			f.Poll()
			f.want(f.Proceed("back"), http.StatusOK)
		}},
		"approved and held": {kind: stage.Asks, manual: true, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("approve")
			f.want(f.Proceed("back"), http.StatusOK)
			f.want(f.Ask(stage.ToCapture, "capture", stage.Part(0)), f.done(http.StatusOK))
		}},
		"the customer refuses": {kind: stage.Asks, end: refused, only: []string{stage.Stripe, stage.Adyen}, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("refuse")
			f.want(f.Proceed("back"), "payment-declined")
		}},
		"the customer refuses, then pays by another method": {
			kind: stage.Asks, await: true, end: paidInFull, only: []string{stage.Stripe, stage.Adyen}, lives: func(f *flow) {
				f.want(f.Place(), http.StatusAccepted)
				f.Customer("refuse")
				f.want(f.Proceed("back"), http.StatusAccepted)
				f.want(f.Ask(stage.ToContinue, "other", stage.OtherPayment(f.provider(), stage.Pays)), http.StatusOK)
			},
		},
		"the customer does nothing": {kind: stage.Asks, end: calledOff, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
		}},
		"the customer approves after the deadline": {kind: stage.Asks, end: calledOff, only: []string{stage.Stripe, stage.PayPal}, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			next := f.Saga().Order.Payment
			f.EndDeadline()
			f.Decide(next.Provider, next.ProviderReference, next.NextAction, "approve")
		}},
		"the customer approves after the deadline, and it is given back": {
			kind: stage.Asks, end: ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, stage.Price, stage.Price}, only: []string{stage.Adyen},
			lives: func(f *flow) {
				f.want(f.Place(), http.StatusAccepted)
				next := f.Saga().Order.Payment
				f.EndDeadline()
				f.hearAll()
				f.Decide(next.Provider, next.ProviderReference, next.NextAction, "approve")
			},
		},
		"called off while the customer must act": {kind: stage.Asks, end: calledOff, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
		}},
	}
}

func holdLives() map[string]life {
	held := func(f *flow) { f.want(f.Place(), http.StatusCreated) }
	return map[string]life{
		"held, then all is captured": {kind: stage.Pays, manual: true, end: paidInFull, lives: func(f *flow) {
			held(f)
			f.want(f.Ask(stage.ToCapture, "too much", stage.CapturePart(stage.Price+1, true)), "amount-too-large")
			f.want(f.Ask(stage.ToRefund, "refund", stage.Part(0)), "cancel-instead")
			f.want(f.Ask(stage.ToCapture, "capture", stage.Part(0)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.Ask(stage.ToCapture, "once more", stage.Part(0)), "nothing-to-capture")
			f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), "refund-instead")
		}},
		"held, then a part is captured for good": {kind: stage.Pays, manual: true, end: paidInPart, lives: func(f *flow) {
			held(f)
			f.want(f.Ask(stage.ToCapture, "capture", stage.CapturePart(1000, true)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.Ask(stage.ToCapture, "once more", stage.Part(1)), "nothing-to-capture")
		}},
		"held, then captured in parts": {kind: stage.Pays, manual: true, end: paidInFull, only: []string{stage.Adyen, stage.PayPal}, lives: func(f *flow) {
			held(f)
			f.want(f.Ask(stage.ToCapture, "one", stage.CapturePart(1000, false)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.Ask(stage.ToRefund, "refund", stage.Part(0)), "cancel-instead")
			f.want(f.Ask(stage.ToCapture, "too much", stage.CapturePart(stage.Price-999, false)), "amount-too-large")
			f.want(f.Ask(stage.ToCapture, "two", stage.CapturePart(998, false)), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.Ask(stage.ToCapture, "rest", stage.Part(0)), f.done(http.StatusOK))
		}},
		"held, a part is captured, and the rest called off": {
			kind: stage.Pays, manual: true, end: paidInPart, only: []string{stage.Adyen, stage.PayPal}, lives: func(f *flow) {
				held(f)
				f.want(f.Ask(stage.ToCapture, "one", stage.CapturePart(1000, false)), f.done(http.StatusOK))
				f.hearAll()
				f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), http.StatusOK)
				f.want(f.Ask(stage.ToCapture, "rest", stage.Part(0)), "nothing-to-capture")
			},
		},
		"held, and parts cannot be captured": {kind: stage.Pays, manual: true, end: paidInFull, only: []string{stage.Stripe}, lives: func(f *flow) {
			held(f)
			f.want(f.Ask(stage.ToCapture, "one", stage.CapturePart(1000, false)), "one-capture")
			f.want(f.Ask(stage.ToCapture, "all", stage.Part(0)), f.done(http.StatusOK))
		}},
		"held, then called off": {kind: stage.Pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
			f.hearAll()
			f.want(f.Ask(stage.ToCapture, "capture", stage.Part(0)), "order-over")
		}},
		"held until the hold ends": {kind: stage.Pays, manual: true, end: calledOff, lives: held},
		"held until the hold ends, which is told at once": {kind: stage.Pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.Pass(f.Adapters[f.provider()].Windows().Hold + time.Second)
			f.hearAll()
		}},
		"the hold ends as it is let go, which is told first": {kind: stage.Pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.hearAll()
			f.endHoldInVoid()
			f.hearAll()
		}},
		"the hold ends as it is let go, which is told last": {kind: stage.Pays, manual: true, end: calledOff, lives: func(f *flow) {
			held(f)
			f.hearAll()
			f.endHoldInVoid()
			for _, one := range slices.Backward(f.Letters()) {
				f.Bring(one, 1)
			}
		}},
		"held, a part is captured, and the hold ends": {
			kind: stage.Pays, manual: true, end: paidInPart, only: []string{stage.Adyen, stage.PayPal}, lives: func(f *flow) {
				held(f)
				f.want(f.Ask(stage.ToCapture, "one", stage.CapturePart(1000, false)), f.done(http.StatusOK))
			},
		},
		"the capture comes back": {
			kind: stage.Pays, manual: true, only: []string{stage.Adyen}, review: true,
			end: ending{saga.NeedsReview, saga.OrderInReview, saga.PaymentCaptured, stage.Price, 0}, lives: func(f *flow) {
				held(f)
				f.Ask(stage.ToCapture, "capture", stage.Part(0))
				f.hearAll()
				f.bankOn("fail")
			},
		},
	}
}

// endHoldInVoid lets the provider end a hold just before a cancel of it comes in, a minute before the end that is known here.
func (f *flow) endHoldInVoid() {
	f.Helper()
	f.Pass(f.Adapters[f.provider()].Windows().Hold - time.Minute)
	f.PassAtProviders(2 * time.Minute)
	f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), f.done(http.StatusOK))
}

// bankOn lets the bank decide about payments that are taken.
func (f *flow) bankOn(decision string) {
	f.Helper()
	for _, charge := range f.Sandbox.Ledger() {
		f.Control("payments/" + charge.ID + "/" + decision)
	}
}

func refundLives() map[string]life {
	paid := func(f *flow) { f.want(f.Place(), http.StatusCreated) }
	return map[string]life{
		"refunded in parts": {kind: stage.Pays, end: allBack, lives: func(f *flow) {
			paid(f)
			f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), "refund-instead")
			f.want(f.Ask(stage.ToRefund, "part", stage.Part(1000)), f.done(http.StatusCreated))
			f.want(f.Ask(stage.ToRefund, "too much", stage.Part(stage.Price-999)), "amount-too-large")
			f.want(f.Ask(stage.ToRefund, "rest", stage.Part(0)), f.done(http.StatusCreated))
			f.want(f.Ask(stage.ToRefund, "more", stage.Part(1)), "amount-too-large")
		}},
		"a part of a part is refunded": {
			kind: stage.Pays, manual: true, end: ending{saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded, 1000, 400},
			lives: func(f *flow) {
				paid(f)
				f.want(f.Ask(stage.ToCapture, "capture", stage.CapturePart(1000, true)), f.done(http.StatusOK))
				f.hearAll()
				f.want(f.Ask(stage.ToRefund, "too much", stage.Part(1001)), "amount-too-large")
				f.want(f.Ask(stage.ToRefund, "part", stage.Part(400)), f.done(http.StatusCreated))
			},
		},
		"refunded, and the webhook overtakes the answer": {kind: stage.Pays, end: allBack, lives: func(f *flow) {
			paid(f)
			f.Overtake()
			f.want(f.Ask(stage.ToRefund, "all", stage.Part(0)), f.done(http.StatusCreated))
			f.Hear()
			if payment := f.Saga().Order.Payment; payment.RefundedAmount != stage.Price {
				f.Errorf("%d refunded", payment.RefundedAmount)
			}
		}},
		"the refund takes its time": {kind: stage.RefundsLag, end: allBack, lives: func(f *flow) {
			paid(f)
			f.want(f.Ask(stage.ToRefund, "all", stage.Part(0)), http.StatusAccepted)
			f.want(f.Ask(stage.ToRefund, "more", stage.Part(1)), "amount-too-large")
			f.Bank("settle")
		}},
		"the refund is refused later": {kind: stage.RefundsLag, end: paidInFull, only: []string{stage.Stripe, stage.PayPal}, lives: func(f *flow) {
			paid(f)
			f.want(f.Ask(stage.ToRefund, "all", stage.Part(0)), http.StatusAccepted)
			f.failRefunds()
		}},
		"the refund comes back weeks later": {
			kind: stage.Pays, end: ending{saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded, stage.Price, 500}, lives: func(f *flow) {
				paid(f)
				f.Ask(stage.ToRefund, "part", stage.Part(1000))
				f.hearAll()
				f.Pass(20 * 24 * time.Hour)
				f.failRefunds()
				f.hearAll()
				f.want(f.Ask(stage.ToRefund, "again", stage.Part(500)), f.done(http.StatusCreated))
			},
		},
	}
}

// failRefunds lets the bank send every refund back.
func (f *flow) failRefunds() {
	f.Helper()
	for _, refund := range f.RefundsOf(f.First.ID) {
		for _, step := range refund.Steps {
			if !f.Control("refunds/" + step.ProviderReference + "/fail") {
				f.Errorf("refund %s does not fail", step.ProviderReference)
			}
		}
	}
}
