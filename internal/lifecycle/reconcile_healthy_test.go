package lifecycle_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
	"paysaga/saga"
)

// TestHealthyLivesHaveNoFindings reconciles each way that a payment can take, by the providers' lists and by their settlement files.
func TestHealthyLivesHaveNoFindings(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			for name, one := range allLives() {
				if !one.isOf(provider) || one.review {
					continue
				}
				t.Run(name, func(t *testing.T) {
					f := one.live(t, h, provider)
					f.findsNothing(provider)
					if t.Failed() {
						t.Log(f.Report())
					}
				})
			}
		})
	}
}

// TestRandomHealthyLivesHaveNoFindings reconciles while a life goes on, and at its end.
func TestRandomHealthyLivesHaveNoFindings(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			rapid.Check(t, func(t *rapid.T) { runHealthy(t, h.fresh(t), provider) })
		})
	}
}

func runHealthy(t *rapid.T, h house, provider string) {
	kind := rapid.SampledFrom([]string{stage.Pays, stage.Pays, stage.Declines, stage.Asks, stage.Asks, stage.TakesTime}).Draw(t, "method")
	order := stage.TwoCups(provider, kind)
	if rapid.Bool().Draw(t, "manual capture") && kind != stage.TakesTime { // Stripe holds no bank debits
		order.Payment.Capture = saga.CaptureManual
	}
	if rapid.Bool().Draw(t, "await") {
		order.Payment.OnDecline = saga.DeclineAwaits
	}
	s := &schedule{flow: h.newFlow(order), t: t}
	s.Place()
	for range rapid.IntRange(0, mostEvents).Draw(t, "events") {
		s.event()
	}
	bank := s.bankDecision()
	s.Settle(func() { s.Bank(bank) })
	if len(s.Lines(`SELECT 1 FROM sagas WHERE state = 'needs_review'`)) == 0 {
		s.findsNothing(provider)
	}
	if t.Failed() {
		t.Fatalf("%s", s.Report())
	}
}

// findsNothing reconciles by lists and by a file, and by lists once more, as what is settled is known then.
func (f *flow) findsNothing(provider string) {
	f.Helper()
	f.Pass(4 * time.Hour)
	f.nothing("the lists", f.Server.Reconcile(reconcile.ModePlan, stage.Allowed()))
	f.nothing("the settlement file", f.Server.ReconcileStatement(reconcile.ModePlan, stage.Allowed(), provider))
	f.Pass(time.Hour)
	f.nothing("the lists again", f.Server.Reconcile(reconcile.ModePlan, stage.Allowed()))
}

func (f *flow) nothing(of string, result reconcile.Result) {
	f.Helper()
	for _, open := range result.Open {
		f.Errorf("%s: %s, %s: %s, here %+v, there %+v", of, open.Kind, open.AtStake, open.Detail, open.Here, open.There)
	}
}
