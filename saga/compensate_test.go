package saga_test

import (
	"slices"
	"testing"

	"paysaga/providers"
	"paysaga/saga"
)

// stealGoods makes the store find the reservation gone when the charge that is out comes back.
func (b *bundle) stealGoods() {
	b.t.Helper()
	b.exec(`UPDATE reservations SET status = 'released', ended_at = now() WHERE status = 'held'`)
	b.exec(`UPDATE stock SET reserved = 0`)
}

// Goods that are gone after a charge give the money back.
func TestLostReservationRefundsTheCharge(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("lost")
	b.bank.hook(nil, func(call saga.Call) {
		if call == saga.CallCharge {
			b.stealGoods()
		}
	})
	answer := b.start(claim, cups())
	s := b.wantState(claim, saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded)
	if s.Order.Payment.CapturedAmount != 1200 || s.Order.Payment.RefundedAmount != 1200 {
		t.Errorf("captured %d, refunded %d; want 1200 each", s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount)
	}
	if stepOf(s, saga.StepCharge).Status != saga.StepUndone || stepOf(s, saga.StepConfirm).Code != "reservation_lost" {
		t.Errorf("steps: %+v", s.Steps)
	}
	if times, keys := b.bank.called(saga.CallRefund); times != 1 || keys != 1 {
		t.Errorf("%d refunds under %d keys", times, keys)
	}
	if record := b.record(claim); string(record.Answer.Body) != string(answer.Body) || answer.Status != 402 {
		t.Errorf("answered %d %s, stored %s", answer.Status, answer.Body, record.Answer.Body)
	}
	b.wantTaken(0, 1)
	b.wantStock("cup", 10)
}

// Goods that are gone when they are to be released must not keep an order from its end (I5).
func TestLostReservationOfADeclinedOrder(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("lost-declined")
	b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}))
	b.bank.hook(nil, func(saga.Call) { b.stealGoods() })
	b.start(claim, cups())
	b.wantState(claim, saga.RolledBack, saga.OrderFailed, saga.PaymentDeclined)
	b.wantStock("cup", 10)
}

// At the deadline the customer's payment went through after all, between the look and the void.
func TestVoidRefusedAsCapturedIsRefunded(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("captured")
	b.await(claim)
	b.bank.on(saga.CallLookup, refuses(providers.Outcome{Kind: providers.ActionRequired, Reference: "pay_1"}))
	b.bank.set(chargeKey(claim), paid)
	b.recover(b.runner)
	s := b.wantState(claim, saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded)
	if stepOf(s, saga.StepVoid).Status != saga.StepFailed || stepOf(s, saga.StepRefund).Status != saga.StepDone {
		t.Errorf("steps: %+v", s.Steps)
	}
	b.wantTaken(0, 1)
	b.wantStock("cup", 10)
}

// A compensation that is not known to have happened is repeated under its key, and nothing else is.
func TestCompensationsAreRepeatedUntilKnown(t *testing.T) {
	t.Parallel()
	busy := refuses(providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet})
	t.Run("void", func(t *testing.T) {
		t.Parallel()
		b, claim := newBundle(t), claimOf("void")
		b.await(claim)
		b.bank.on(saga.CallVoid, nothing(), busy, losesTheAnswer())
		b.recover(b.runner)
		s := b.wantState(claim, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
		if times, keys := b.bank.called(saga.CallVoid); times != 4 || keys != 1 {
			t.Errorf("%d voids under %d keys, want 4 under one", times, keys)
		}
		if void := stepOf(s, saga.StepVoid); void.Sends != 4 || void.Attempt != 1 {
			t.Errorf("the void's step: %+v", void)
		}
		b.wantStock("cup", 10)
	})
	t.Run("refund", func(t *testing.T) {
		t.Parallel()
		b, claim := newBundle(t), claimOf("refund")
		b.loseReservation(claim)
		b.bank.on(saga.CallRefund, nothing(), refuses(providers.Outcome{Kind: providers.Busy}), losesTheAnswer())
		b.recover(b.runner)
		b.wantState(claim, saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded)
		if times, keys := b.bank.called(saga.CallRefund); times != 4 || keys != 1 {
			t.Errorf("%d refunds under %d keys, want 4 under one", times, keys)
		}
		if b.bank.payments[0].refunds != 1 {
			t.Errorf("refunded %d times", b.bank.payments[0].refunds)
		}
	})
}

// A refund that is on its way is asked for, not sent again.
func TestRefundOnItsWayIsAwaited(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("on-its-way")
	b.loseReservation(claim)
	b.bank.on(saga.CallRefund, reply{works: true, outcome: providers.Outcome{Kind: providers.Processing, Reference: "refund_9"}})
	b.bank.on(saga.CallCheckRefund, refuses(providers.Outcome{Kind: providers.Processing}), nothing(),
		refuses(providers.Outcome{Kind: providers.Succeeded, Reference: "refund_9"}))
	b.recover(b.runner)
	s := b.wantState(claim, saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded)
	if refund := stepOf(s, saga.StepRefund); refund.ProviderReference != "refund_9" || refund.Status != saga.StepDone {
		t.Errorf("the refund's step: %+v", refund)
	}
	if times, _ := b.bank.called(saga.CallRefund); times != 1 {
		t.Errorf("sent %d refunds", times)
	}
}

func TestWhatNoRuleDecidesWaitsForAPerson(t *testing.T) {
	t.Parallel()
	start := func(b *bundle, claim saga.Claim) { b.start(claim, cups()) }
	for name, test := range map[string]struct {
		arrange func(b *bundle, claim saga.Claim)
		finding string
		held    int // payments that hold money, which a person must see
	}{
		"amount mismatch": {func(b *bundle, claim saga.Claim) {
			b.bank.on(saga.CallCharge, reply{works: true, outcome: providers.Outcome{
				Kind: providers.Succeeded, Money: providers.Money{Amount: 1, Currency: "EUR"},
			}})
			start(b, claim)
		}, "amount_mismatch", 1},
		"several payments": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, reply{works: true})
			b.age(b.bank.windows.Repost)
			b.bank.on(saga.CallLookup, refuses(providers.Outcome{Kind: providers.Unknown, Code: providers.CodeSeveralPayments}))
		}, "duplicate_charge", 1},
		"authorized only": {func(b *bundle, claim saga.Claim) {
			b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Authorized, Reference: "pay_1"}))
			start(b, claim)
		}, "unexpected_outcome", 0},
		"a payment that had an id is gone": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.on(saga.CallLookup, refuses(providers.Outcome{Kind: providers.NotFound}))
		}, "payment_missing", 0},
		"tries exhausted": {func(b *bundle, claim saga.Claim) {
			for range 3 + 3 {
				b.bank.on(saga.CallCharge, losesTheAnswer())
			}
			start(b, claim)
		}, "tries_exhausted", 1},
		"refund declined": {func(b *bundle, claim saga.Claim) {
			b.loseReservation(claim)
			b.bank.on(saga.CallRefund, refuses(providers.Outcome{Kind: providers.Declined, Code: "expired_card"}))
		}, "unexpected_outcome", 1},
		"void refused": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.on(saga.CallVoid, refuses(providers.Outcome{Kind: providers.Rejected, Code: "no_such_payment"}))
		}, "void_refused", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, claim := newBundle(t), claimOf("review")
			test.arrange(b, claim)
			b.recover(b.runner)
			s := b.get(claim)
			if s.State != saga.NeedsReview || s.Order.Status != saga.OrderInReview || !s.NextAt.IsZero() {
				t.Fatalf("saga %s, order %s, next at %s", s.State, s.Order.Status, s.NextAt)
			}
			if got := b.findings(claim); !slices.Equal(got, []string{test.finding}) {
				t.Errorf("findings %v, want %s", got, test.finding)
			}
			if held, _ := b.bank.taken(); held != test.held {
				t.Errorf("the bank holds %d payments, want %d", held, test.held)
			}
			if record := b.record(claim); record.Answer.Status != 202 {
				t.Errorf("answered %d, want 202: it is not decided", record.Answer.Status)
			}
		})
	}
}
