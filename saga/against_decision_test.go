package saga_test

import (
	"slices"
	"testing"

	"paysaga/providers"
	"paysaga/saga"
)

func announced(about providers.About, key providers.SubKey, kind providers.OutcomeKind) providers.Notice {
	outcome := providers.Outcome{Kind: kind, Reference: "pay_1", Money: providers.Money{Amount: 1200, Currency: "EUR"}}
	return providers.Notice{About: about, Payment: "pay_1", Key: key, Outcome: &outcome}
}

func (b *bundle) hears(ref saga.Ref, notices ...providers.Notice) {
	b.t.Helper()
	for _, n := range notices {
		if err := b.runner.Notify(b.ctx, ref, n); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bundle) decides(name string, ref saga.Ref, decision saga.Decision) {
	b.t.Helper()
	if _, err := b.runner.Decide(b.ctx, claimOn("resolve", name), ref, decision); err != nil {
		b.t.Fatal(err)
	}
}

// A charge that succeeds after a person said that nothing is kept is undone, once, as one that succeeds after a rule rolled back.
func TestChargeAfterNothingKept(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.windows.NoLookup = true
	b.bank.on(saga.CallCharge, nothing(), nothing(), nothing())
	b.inReview(order, cups())
	b.decides("it", refOf(order), deciding(saga.ResolveNothingKept))
	b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
	b.bank.payments = append(b.bank.payments, &payment{id: "pay_1", key: chargeKey(order), money: providers.Money{Amount: 1200, Currency: "EUR"}, status: held})
	paid := announced(providers.AboutCharge, chargeKey(order), providers.Succeeded)
	b.hears(refOf(order), paid, paid)
	b.recover(b.runner)
	b.wantTaken(0, 1)
	b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
	if times, _ := b.bank.called(saga.CallVoid); times != 1 || b.bank.payments[0].status != canceled {
		t.Errorf("%d voids, the payment is %s", times, b.bank.payments[0].status)
	}
}

// While the provider's search can be behind, "not found" is no ground for a decision.
func TestNotFoundIsNoGroundYet(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.on(saga.CallCharge, nothing(), nothing(), nothing())
	b.inReview(order, cups())
	_, err := b.runner.Decide(b.ctx, claimOn("resolve", "early"), refOf(order), deciding(saga.ResolveNothingKept))
	wantRefused(t, err, saga.RefusedUnfit)
	b.exec(`UPDATE saga_steps SET started_at = now() - interval '3 days', sent_at = now() - interval '2 days'`)
	b.decides("late", refOf(order), deciding(saga.ResolveNothingKept))
	b.wantStock("cup", 10)
}

// A refund that was decided as not given, and was: its order does not give the same money twice unnoticed, and it can be counted.
func TestRefundThatWasGivenAfterAll(t *testing.T) {
	t.Parallel()
	b, order, refund := newBundle(t), claimOf("order"), claimOn("refunds", "it")
	b.start(order, cups())
	b.bank.windows.NoLookup = true
	b.bank.on(saga.CallRefund, nothing(), nothing(), nothing())
	if _, err := b.runner.Refund(b.ctx, refund, refOf(order), 500, ""); err != nil {
		t.Fatal(err)
	}
	b.find(refOf(refund))
	b.decides("not", refOf(refund), deciding(saga.ResolveNotGiven))
	key := saga.SubKey(refOf(refund).Key, saga.StepRefund, 1)
	b.hears(refOf(refund), announced(providers.AboutRefund, key, providers.Succeeded))
	s, err := b.store.Load(b.ctx, refOf(refund))
	if err != nil || s.State != saga.NeedsReview {
		t.Fatalf("%s, %v", s.State, err)
	}
	b.decides("given", refOf(refund), deciding(saga.ResolveGiven))
	if payment := b.get(order).Order.Payment; payment.RefundedAmount != 500 || payment.RefundingAmount != 0 {
		t.Errorf("%d refunded, %d being so", payment.RefundedAmount, payment.RefundingAmount)
	}
}

// More than was captured is never counted as given back, whoever says so (I7).
func TestRefundThatWasGivenAfterAllAndAgain(t *testing.T) {
	t.Parallel()
	b, order, refund := newBundle(t), claimOf("order"), claimOn("refunds", "it")
	b.start(order, cups())
	b.bank.windows.NoLookup = true
	b.bank.on(saga.CallRefund, nothing(), nothing(), nothing())
	if _, err := b.runner.Refund(b.ctx, refund, refOf(order), 500, ""); err != nil {
		t.Fatal(err)
	}
	b.find(refOf(refund))
	b.decides("not", refOf(refund), deciding(saga.ResolveNotGiven))
	if _, err := b.runner.Refund(b.ctx, claimOn("refunds", "all"), refOf(order), 1200, ""); err != nil {
		t.Fatal(err)
	}
	key := saga.SubKey(refOf(refund).Key, saga.StepRefund, 1)
	b.hears(refOf(refund), announced(providers.AboutRefund, key, providers.Succeeded))
	_, err := b.runner.Decide(b.ctx, claimOn("resolve", "given"), refOf(refund), deciding(saga.ResolveGiven))
	wantRefused(t, err, saga.RefusedTooMuch)
}

// A payment that was decided as taken, and comes to nothing, is told to whoever decided.
func TestTakenThatWasNot(t *testing.T) {
	t.Parallel()
	for name, kind := range map[providers.About]providers.OutcomeKind{
		providers.AboutVoid: providers.Succeeded, providers.AboutCharge: providers.Canceled,
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			b.bank.windows.NoLookup = true
			b.inReview(order, heldCups())
			b.decides("it", refOf(order), takenAs("pay_1", 1200))
			b.hears(refOf(order), announced(name, chargeKey(order), kind))
			if got := b.findings(order); !slices.Equal(got, []string{saga.FindingRefundedAtProvider}) {
				t.Errorf("found %v", got)
			}
		})
	}
}

// A decision about an order does not close what was found about an earlier payment of it while the provider keeps that (I1).
func TestDecisionLooksAtEarlierPayments(t *testing.T) {
	t.Parallel()
	for _, resolution := range []saga.Resolution{saga.ResolveCancel, saga.ResolveNothingKept, saga.ResolveRetry, saga.ResolveTaken} {
		t.Run(string(resolution), func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			declined := providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}
			b.bank.on(saga.CallCharge, reply{becomes: paid, outcome: declined}, asksTheCustomer())
			placed := cups()
			placed.Payment.OnDecline = saga.DeclineAwaits
			b.start(order, placed)
			proceed := claimOn("continue", "x")
			request := requestOf(saga.RequestContinue, proceed)
			request.Payment = &saga.NewPayment{Provider: "fake", Method: "pm_2"}
			if _, err := b.runner.Ask(b.ctx, proceed, refOf(order), request); err != nil {
				t.Fatal(err)
			}
			b.hears(refOf(order), announced(providers.AboutCharge, chargeKey(order), providers.Succeeded))
			decision := deciding(resolution)
			decision.Payment, decision.Amount = "pay_2", 1200
			_, err := b.runner.Decide(b.ctx, claimOn("resolve", "x"), refOf(order), decision)
			wantRefused(t, err, saga.RefusedContradicted)
			if got := b.findings(order); !slices.Equal(got, []string{saga.FindingChargedAfterRefusal}) {
				t.Errorf("found %v", got)
			}
		})
	}
}
