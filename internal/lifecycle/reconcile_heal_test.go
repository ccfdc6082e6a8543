package lifecycle_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
	"paysaga/saga"
)

// What a run cannot judge stays open as it is: it has its id, and its age. It closes itself when it is put right.
func TestFindingsStayWhileTheirDamageLasts(t *testing.T) {
	t.Parallel()
	look := func(f *flow) { f.Server.Reconcile(reconcile.ModePlan, stage.Allowed()) }
	for name, test := range map[string]struct {
		damage  map[string]any
		kind    reconcile.Kind
		happens func(f *flow)
	}{
		"another time is looked at": {
			map[string]any{"kind": "payment_lost"}, reconcile.PaymentMissing, func(f *flow) {
				f.Server.ReconcileTime(reconcile.ModePlan, stage.Allowed(), f.Now().Add(-60*24*time.Hour), f.Now().Add(-30*24*time.Hour))
			},
		},
		"somebody drives the saga": {
			map[string]any{"kind": "amount_changed", "amount": 2000}, reconcile.AmountMismatch, func(f *flow) {
				f.Exec(`UPDATE sagas SET locked_until = now() + interval '1 minute'`)
				look(f)
				f.Exec(`UPDATE sagas SET locked_until = now()`)
			},
		},
		"its metadata change": {
			map[string]any{"kind": "amount_changed", "amount": 2000}, reconcile.AmountMismatch, func(f *flow) {
				f.Exec(`UPDATE orders SET metadata = '{"shelf": "7"}', updated_at = now()`)
				look(f)
			},
		},
		"the shop gives a part back": {
			map[string]any{"kind": "amount_changed", "amount": 2000}, reconcile.AmountMismatch, func(f *flow) {
				f.want(f.Ask(stage.ToRefund, "part", stage.Part(500)), http.StatusCreated)
				look(f)
				f.Pass(time.Hour)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newHouse(t, sandbox.Options{}).newFlow(stage.TwoCups(stage.Stripe, stage.Pays))
			f.want(f.Place(), http.StatusCreated)
			f.Pass(time.Hour)
			plant(t, f, test.damage)
			look(f)
			before := f.findings()
			test.happens(f)
			look(f)
			if after := f.findings(); len(before) != 1 || fmt.Sprint(after) != fmt.Sprint(before) || f.Findings()[0].Kind != test.kind {
				t.Errorf("%s, and then %s", before, after)
			}
		})
	}
}

// findings are what was ever found, with when it was found first.
func (f *flow) findings() []string {
	f.Helper()
	return f.Lines(`SELECT concat_ws(' ', id, kind, created_at, resolution) FROM findings ORDER BY id`)
}

// A time that is looked at by hand leaves what was listed before as it was, and is judged itself.
func TestOldTimesAreJudged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, sandbox.Options{})
	f := h.newFlow(stage.TwoCups(stage.Stripe, stage.Pays))
	long := 90 * 24 * time.Hour
	f.want(f.Place(), http.StatusCreated)
	plant(t, f, map[string]any{"kind": "payment_lost"})
	began := f.Now()
	f.Pass(long)
	f.Server.ReconcileTime(reconcile.ModePlan, stage.Allowed(), f.Now().Add(-time.Hour), f.Now())
	if found := f.Findings(); len(found) > 0 {
		t.Fatalf("of a time that nobody looked at, there is %+v", found)
	}
	f.Server.ReconcileTime(reconcile.ModePlan, stage.Allowed(), began.Add(-time.Hour), began.Add(time.Hour))
	if found := f.Findings(); len(found) != 1 || found[0].Kind != reconcile.PaymentMissing {
		t.Errorf("found %+v", found)
	}
	listed, err := f.Store().Coverage(t.Context(), stage.Stripe)
	if err != nil || len(listed) != 2 || reconcile.Newest(listed).Until.Before(began.Add(long-time.Hour)) {
		t.Errorf("listed are %+v, %v", listed, err)
	}
}

// Other money than the order was about is never given back by rule, nor forgotten: a person decides.
func TestOtherMoneyIsAPersons(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{stage.Stripe, stage.PayPal} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{})
			for name, test := range map[string]struct {
				damage map[string]any
				found  string
			}{
				"more":             {map[string]any{"kind": "amount_changed", "amount": 99800}, "[amount_mismatch]"},
				"less":             {map[string]any{"kind": "amount_changed", "amount": 2998}, "[amount_mismatch]"},
				"another currency": {map[string]any{"kind": "currency_changed", "currency": "EUR"}, "[currency_mismatch]"},
				"a part of it":     {map[string]any{"kind": "refund_in_dashboard", "amount": 1000}, "[amount_mismatch refunded_at_provider]"},
			} {
				t.Run(name, func(t *testing.T) {
					f := h.fresh(t).newFlow(stage.TwoCups(provider, stage.Pays))
					f.want(f.Place(), http.StatusCreated)
					f.give(t)
					test.damage["provider"] = provider
					plant(t, f, test.damage)
					f.Pass(4 * time.Hour)
					before := f.Sandbox.Ledger()
					result := f.Server.Reconcile(reconcile.ModeApply, stage.Allowed())
					if len(result.Run.Totals.Moved) > 0 || fmt.Sprint(f.Sandbox.Ledger()) != fmt.Sprint(before) {
						t.Errorf("moved %v: %+v", result.Run.Totals.Moved, f.Sandbox.Ledger())
					}
					found := fmt.Sprint(f.Lines(`SELECT kind FROM findings WHERE resolved_at IS NULL ORDER BY kind`))
					if found != test.found || f.Saga().State != saga.NeedsReview {
						t.Errorf("the order is %s; found %s", f.Saga().State, found)
					}
				})
			}
		})
	}
}

// give has the order stand as one that was declined.
func (f *flow) give(t *testing.T) {
	t.Helper()
	for _, one := range f.Letters() {
		one.Lost = true
	}
	f.Must(f.Mischief().GiveUp(t.Context(), f.First.ID))
}
