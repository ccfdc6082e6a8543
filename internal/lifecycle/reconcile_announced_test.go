package lifecycle_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
	"paysaga/saga"
)

// unheard is an order at a provider that tells once how a step ended, and whose telling was lost.
type unheard struct {
	kind   string
	manual bool
	lives  func(f *flow) // up to where it waits for what was lost
	files  int           // how many settlement files bring it to its end; 0 is one
	byHand bool          // nothing of it is announced at all
	end    ending
	refund saga.RefundStatus // of its one refund, if it has one
}

var undone = ending{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, stage.Price, stage.Price}

// unheards are all steps that can wait for a notice at Adyen, and all that a settlement file tells of their ends.
func unheards() map[string]unheard {
	partBack := ending{saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded, stage.Price, 1000}
	held := func(then func(f *flow)) func(f *flow) {
		return func(f *flow) {
			f.want(f.Place(), http.StatusCreated)
			f.hearAll()
			then(f)
		}
	}
	refunds := func(amount int64) func(f *flow) {
		return held(func(f *flow) { f.want(f.Ask(stage.ToRefund, "refund", stage.Part(amount)), http.StatusAccepted) })
	}
	captured := func(amount int64) func(f *flow) {
		return held(func(f *flow) {
			plant(f, f, map[string]any{"kind": "captured_in_dashboard", "provider": stage.Adyen, "amount": amount})
		})
	}
	return map[string]unheard{
		"charge, its answer lost": {kind: stage.Pays, end: paidInFull, lives: func(f *flow) {
			f.answersAreLost()
			f.want(f.Place(), http.StatusAccepted)
		}},
		"charge, the customer does not come back": {kind: stage.Asks, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("approve")
		}},
		"charge, the bank takes its time": {kind: stage.TakesTime, end: paidInFull, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Bank("settle")
		}},
		"capture": {kind: stage.Pays, manual: true, end: paidInFull, lives: held(func(f *flow) {
			f.want(f.Ask(stage.ToCapture, "capture", map[string]any{}), http.StatusAccepted)
		})},
		"capture of a part": {kind: stage.Pays, manual: true, end: paidInPart, lives: held(func(f *flow) {
			f.want(f.Ask(stage.ToCapture, "capture", stage.CapturePart(1000, true)), http.StatusAccepted)
		})},
		"the second of two captures": {kind: stage.Pays, manual: true, end: paidInFull, lives: held(func(f *flow) {
			f.want(f.Ask(stage.ToCapture, "part", stage.CapturePart(1000, false)), http.StatusAccepted)
			f.hearAll()
			f.want(f.Ask(stage.ToCapture, "rest", stage.CapturePart(stage.Price-1000, true)), http.StatusAccepted)
		})},
		"capture by somebody at the provider":           {kind: stage.Pays, manual: true, byHand: true, end: paidInFull, lives: captured(0)},
		"capture of a part by somebody at the provider": {kind: stage.Pays, manual: true, byHand: true, end: paidInPart, lives: captured(1000)},
		"refund":           {kind: stage.Pays, end: allBack, lives: refunds(0), refund: saga.RefundSucceeded},
		"refund of a part": {kind: stage.Pays, end: partBack, lives: refunds(1000), refund: saga.RefundSucceeded},
		"refund that came back at once": {kind: stage.Pays, end: paidInFull, refund: saga.RefundFailed, lives: func(f *flow) {
			refunds(1000)(f)
			f.sendBack()
		}},
		"refund that came back after it was given": {kind: stage.Pays, end: paidInFull, refund: saga.RefundFailed, lives: func(f *flow) {
			refunds(1000)(f)
			f.hearAll()
			f.Pass(time.Hour)
			f.sendBack()
		}},
		"refund of a capture": {kind: stage.Pays, manual: true, end: allBack, refund: saga.RefundSucceeded, lives: held(func(f *flow) {
			f.want(f.Ask(stage.ToCapture, "capture", map[string]any{}), http.StatusAccepted)
			f.hearAll()
			f.want(f.Ask(stage.ToRefund, "refund", map[string]any{}), http.StatusAccepted)
		})},
		"void that gave the money back": {kind: stage.Asks, end: undone, lives: func(f *flow) {
			f.want(f.Place(), http.StatusAccepted)
			f.Customer("approve")
			f.EndDeadline()
		}},
		"technical cancel that came too late": {kind: stage.Pays, end: undone, files: 2, lives: func(f *flow) {
			f.answersAreLost()
			f.want(f.Place(), http.StatusAccepted)
			f.Pass(7 * 24 * time.Hour) // it must not be sent again any more
			f.Poll()
		}},
		"cancel that came too late": {kind: stage.Pays, manual: true, end: undone, files: 2, lives: func(f *flow) {
			captured(0)(f)
			f.want(f.Ask(stage.ToCancel, "cancel", map[string]any{}), http.StatusAccepted)
		}},
	}
}

// answersAreLost: charges are carried out, and nobody hears of it.
func (f *flow) answersAreLost() {
	f.Helper()
	f.Must(f.Sandbox.AddFault(sandbox.Fault{Call: sandbox.CallCharge, Kind: sandbox.FaultResetAfter, Times: 1000}))
}

// sendBack has the bank send back what the order's one refund gave.
func (f *flow) sendBack() {
	f.Helper()
	for _, s := range f.RefundsOf(f.First.ID) {
		if !f.Control("refunds/" + s.Newest(saga.StepRefund).ProviderReference + "/fail") {
			f.Must(errors.New("the refund cannot fail"))
		}
	}
}

// TestLostNoticesAreInTheFile: where a webhook of Adyen's was lost, its settlement file brings the order to its end. What comes after all
// changes nothing.
func TestLostNoticesAreInTheFile(t *testing.T) {
	t.Parallel()
	for _, capture := range []saga.CaptureMode{saga.CaptureAutomatic, saga.CaptureManual} {
		t.Run(string(capture), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			for name, one := range unheards() {
				if one.manual == (capture == saga.CaptureManual) {
					t.Run(name, func(t *testing.T) { one.run(t, h, capture) })
				}
			}
		})
	}
}

func (u unheard) run(t *testing.T, h house, capture saga.CaptureMode) {
	t.Helper()
	for heard, brings := range map[string]func(*testing.T, *flow){"lost": u.isBroughtToItsEnd, "late": u.isHeardLate} {
		t.Run(heard, func(t *testing.T) {
			order := stage.TwoCups(stage.Adyen, u.kind)
			order.Payment.Capture = capture
			f := h.fresh(t).newFlow(order)
			u.lives(f)
			f.Pass(lately)
			if state := f.Saga().State; state == u.end.State && u.refund == "" {
				t.Fatalf("nothing was lost: the order is %s", state)
			}
			brings(t, f)
			if t.Failed() {
				t.Log(f.Report())
			}
		})
	}
}

// isHeardLate: what a file showed is found no more once it was announced after all.
func (u unheard) isHeardLate(t *testing.T, f *flow) {
	t.Helper()
	if result := f.Server.ReconcileStatement(reconcile.ModePlan, stage.Allowed(), stage.Adyen); len(result.Open) != 1 {
		t.Errorf("found %+v", result.Open)
	}
	if u.byHand {
		return
	}
	f.Settle(func() {})
	f.Pass(lately)
	f.nothing("what was announced", f.Server.Reconcile(reconcile.ModeApply, stage.Allowed()))
	if open := f.Findings(); len(open) > 0 {
		t.Errorf("open is %+v", open)
	}
}

// lately is longer than what was just booked may wait for its notice, and shorter than a charge waits whose end nobody knows.
const lately = 3 * time.Minute

func (u unheard) isBroughtToItsEnd(t *testing.T, f *flow) {
	t.Helper()
	for range max(u.files, 1) {
		result := f.Server.ReconcileStatement(reconcile.ModeApply, stage.Allowed(), stage.Adyen)
		if result.Run.Totals.Repaired != 1 || result.Run.Totals.Refused != 0 {
			t.Errorf("repaired %+v: %+v", result.Run.Totals, result.Open)
		}
		f.Pass(lately)
	}
	s := f.Saga()
	payment := s.Order.Payment
	if got := (ending{s.State, s.Order.Status, payment.Status, payment.CapturedAmount, payment.RefundedAmount}); got != u.end {
		t.Errorf("ended as %+v, want %+v", got, u.end)
	}
	for _, refund := range f.RefundsOf(f.First.ID) {
		if refund.Refund.Status != u.refund {
			t.Errorf("the refund is %s, want %s", refund.Refund.Status, u.refund)
		}
	}
	if open := f.Findings(); len(open) > 0 {
		t.Errorf("open is %+v", open)
	}
	f.changesNothing(func() { f.bringAll(f.Letters(), 1) })
	f.nothing("the file again", f.Server.ReconcileStatement(reconcile.ModeApply, stage.Allowed(), stage.Adyen))
	f.nothing("what was announced", f.Server.Reconcile(reconcile.ModeApply, stage.Allowed()))
	f.Settle(func() {})
	f.checkEnd()
}

// A capture that the card scheme sends back, of which nobody heard, is a person's, as it is where it is announced.
func TestLostFailureOfACapture(t *testing.T) {
	t.Parallel()
	f := newHouse(t, sandbox.Options{}).newFlow(func() saga.Order {
		order := stage.TwoCups(stage.Adyen, stage.Pays)
		order.Payment.Capture = saga.CaptureManual
		return order
	}())
	f.want(f.Place(), http.StatusCreated)
	f.hearAll()
	f.want(f.Ask(stage.ToCapture, "capture", map[string]any{}), http.StatusAccepted)
	f.Pass(2 * 24 * time.Hour) // it is settled by then
	if !f.Control("payments/" + f.Saga().Order.Payment.ProviderReference + "/fail") {
		t.Fatal("the capture cannot fail")
	}
	f.Pass(lately)
	f.Server.ReconcileStatement(reconcile.ModeApply, stage.Allowed(), stage.Adyen)
	s := f.Saga()
	if capture := s.Newest(saga.StepCapture); s.State != saga.NeedsReview || capture.Status != saga.StepFailed {
		t.Errorf("the order is %s, its capture %s", s.State, capture.Status)
	}
	if told := f.Count(`SELECT count(*) FROM findings WHERE kind = $1 AND source = 'saga' AND resolved_at IS NULL`, saga.FindingCaptureFailed); told != 1 {
		t.Errorf("%d findings tell that it failed", told)
	}
}
