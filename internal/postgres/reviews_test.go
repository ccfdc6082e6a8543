package postgres_test

import (
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// answer brings an outcome, after a wait.
func (b *bundle) answer(s saga.Saga, call saga.Call, outcome providers.Outcome, wait time.Duration) saga.Saga {
	b.t.Helper()
	s.ReadAt = s.ReadAt.Add(wait)
	return b.apply(b.outcome(s, call, outcome))
}

// event brings what is no outcome.
func (b *bundle) event(s saga.Saga, e saga.Event) saga.Saga {
	b.t.Helper()
	return b.apply(finish(b.advance(s, e), s))
}

// tired is a saga that has tried as often as it may.
func tired(s saga.Saga) saga.Saga {
	s.Failures = policy.MaxFailures
	return s
}

func (b *bundle) finding(s saga.Saga, kind string) saga.Saga {
	b.t.Helper()
	return b.event(s, saga.Event{Kind: saga.Contradicted, Code: kind, Detail: "It says so."})
}

func (b *bundle) awaiting() saga.Saga {
	b.t.Helper()
	return b.answer(b.begin("order"), saga.CallCharge, action, 0)
}

// voiding is an order that was given up at its deadline.
func (b *bundle) voiding() saga.Saga {
	b.t.Helper()
	return b.answer(b.awaiting(), saga.CallLookup, action, time.Hour)
}

// undoing is an order whose money was taken after all, and is given back.
func (b *bundle) undoing() saga.Saga {
	b.t.Helper()
	return b.answer(b.voiding(), saga.CallVoid, tooLate, 0)
}

func (b *bundle) rolledBack() saga.Saga {
	b.t.Helper()
	return b.answer(b.voiding(), saga.CallVoid, providers.Outcome{Kind: providers.Succeeded}, 0)
}

func (b *bundle) capturing(amount int64, final bool) saga.Saga {
	b.t.Helper()
	return b.captureMore(b.held("order"), amount, final)
}

func (b *bundle) captureMore(s saga.Saga, amount int64, final bool) saga.Saga {
	b.t.Helper()
	request := saga.Request{Kind: saga.RequestCapture, Key: uuid.New(), Amount: amount, Final: final}
	return b.event(s, saga.Event{Kind: saga.Asked, Request: &request})
}

// refundOf300 is a refund of 300 cents of an order that is paid.
func (b *bundle) refundOf300() saga.Saga {
	b.t.Helper()
	return b.refund(b.confirmed("order"), "refund", 300)
}

// late is a payment that came about after its order was given up.
func (b *bundle) late() saga.Saga {
	b.t.Helper()
	s := b.rolledBack()
	return b.event(s, saga.Event{Kind: saga.Late, SubKey: s.Newest(saga.StepCharge).SubKey, Payment: "pay_1", Outcome: succeeded})
}

const (
	again     = saga.ResolveRetry
	taken     = saga.ResolveTaken
	nothing   = saga.ResolveNothingKept
	leaveIt   = saga.ResolveAsItIs
	wasGiven  = saga.ResolveGiven
	notGiven  = saga.ResolveNotGiven
	allOfIt   = 1200
	longAfter = 3 * time.Hour // every limit of the policy but the windows is over
)

// reviews are the findings, each as the code comes to it, with all decisions that fit. Those of notices, which no outcome brings
// about, are made by what a notice leads to.
var reviews = map[string]review{
	"amount_mismatch": {
		func(b *bundle) saga.Saga {
			wrong := succeeded
			wrong.Money = providers.Money{Amount: 999, Currency: "EUR"}
			return b.answer(b.begin("order"), saga.CallCharge, wrong, 0)
		},
		map[saga.Resolution]end{again: neverPaid, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: {Kind: providers.Canceled, Code: providers.CodeRefunded}},
		0,
	},
	"amount_mismatch of captures": {
		func(b *bundle) saga.Saga {
			wrong := providers.Outcome{Kind: providers.Succeeded, Money: providers.Money{Amount: 700, Currency: "EUR"}}
			return b.answer(b.capturing(500, true), saga.CallCapture, wrong, 0)
		},
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 700,
	},
	"cannot_be_driven": {
		func(b *bundle) saga.Saga { return b.event(b.begin("order"), saga.Event{Kind: saga.Abandoned}) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"cannot_be_driven while it is held": {
		func(b *bundle) saga.Saga { return b.event(b.held("order"), saga.Event{Kind: saga.Abandoned}) },
		map[saga.Resolution]end{again: heldAgain, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: authorized},
		0,
	},
	"cannot_be_driven after its end": {
		func(b *bundle) saga.Saga { return b.event(b.confirmed("order"), saga.Event{Kind: saga.Abandoned}) },
		map[saga.Resolution]end{leaveIt: confirmed},
		nil, 0,
	},
	"capture_failed of what was shipped": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), providers.CodeCaptureFailed) },
		map[saga.Resolution]end{leaveIt: confirmed},
		nil, 0,
	},
	"capture_failed": {
		func(b *bundle) saga.Saga {
			back := providers.Outcome{Kind: providers.Declined, Code: providers.CodeCaptureFailed}
			return b.answer(b.capturing(500, true), saga.CallCapture, back, 0)
		},
		map[saga.Resolution]end{again: heldAgain, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: authorized},
		0,
	},
	"capture_overdue": {
		func(b *bundle) saga.Saga {
			return b.answer(b.capturing(500, true), saga.CallCapture, processing, longAfter)
		},
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 500,
	},
	"capture_unclear": {
		func(b *bundle) saga.Saga {
			s := b.answer(b.capturing(500, false), saga.CallCapture, succeeded, 0)
			return b.answer(b.captureMore(s, 200, false), saga.CallLookup, partly, 0)
		},
		map[saga.Resolution]end{again: {saga.Awaiting, "confirmed", 10, 2, saga.PaymentCaptured}, taken: confirmed, nothing: givenBack},
		nil, 700,
	},
	"captured_at_provider of what was shipped": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), "captured_at_provider") },
		map[saga.Resolution]end{leaveIt: confirmed},
		nil, 0,
	},
	"captured_at_provider after its end": {
		func(b *bundle) saga.Saga { return b.finding(b.rolledBack(), "captured_at_provider") },
		map[saga.Resolution]end{nothing: canceled, leaveIt: canceled},
		nil, 0,
	},
	"captured_at_provider": {
		func(b *bundle) saga.Saga { return b.finding(b.capturing(500, true), "captured_at_provider") },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"status_mismatch that reconciliation came upon": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), "status_mismatch") },
		map[saga.Resolution]end{leaveIt: confirmed},
		nil, 0,
	},
	"currency_mismatch that reconciliation came upon": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), "currency_mismatch") },
		map[saga.Resolution]end{leaveIt: confirmed},
		nil, 0,
	},
	"refund_missing that reconciliation came upon": {
		func(b *bundle) saga.Saga { return b.finding(b.rolledBack(), "refund_missing") },
		map[saga.Resolution]end{nothing: canceled, leaveIt: canceled},
		nil, 0,
	},
	"charged_after_refusal": {
		func(b *bundle) saga.Saga {
			return b.finding(b.answer(b.begin("order"), saga.CallCharge, declined, 0), "charged_after_refusal")
		},
		map[saga.Resolution]end{nothing: failed, leaveIt: failed},
		nil, 0,
	},
	"charged_after_refusal while another payment is awaited": {
		func(b *bundle) saga.Saga { return b.finding(declinedOrder(b), "charged_after_refusal") },
		map[saga.Resolution]end{taken: confirmed, nothing: failed},
		nil, 0,
	},
	"duplicate_charge": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, several, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"payment_missing": {
		func(b *bundle) saga.Saga { return b.answer(b.awaiting(), saga.CallLookup, notFound, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"refund_failed": {
		func(b *bundle) saga.Saga {
			return b.finding(b.answer(b.undoing(), saga.CallRefund, given, 0), "refund_failed")
		},
		map[saga.Resolution]end{nothing: givenBack, leaveIt: givenBack},
		nil, 0,
	},
	"refund_overdue of an order": {
		func(b *bundle) saga.Saga { return b.answer(b.undoing(), saga.CallRefund, accepted, longAfter) },
		map[saga.Resolution]end{again: givenBack, taken: confirmed, nothing: givenBack},
		nil, 0,
	},
	"refund_overdue": {
		func(b *bundle) saga.Saga {
			return b.answer(b.refundOf300(), saga.CallRefund, accepted, longAfter)
		},
		map[saga.Resolution]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, 0,
	},
	"refunded_at_provider": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, partRefunded, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: givenBack},
		nil, 0,
	},
	"refunded_at_provider of held money": {
		func(b *bundle) saga.Saga {
			return b.answer(b.held("order"), saga.CallLookup, providers.Outcome{Kind: providers.Canceled, Code: providers.CodeRefunded}, 0)
		},
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"refunded_at_provider of a refund": {
		func(b *bundle) saga.Saga {
			before := providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}
			return b.answer(b.refundOf300(), saga.CallRefund, before, 0)
		},
		map[saga.Resolution]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, 0,
	},
	"refused_after_send": {
		func(b *bundle) saga.Saga {
			s := b.begin("order")
			s = b.event(s, saga.Event{Kind: saga.Answered, Call: saga.CallCharge, Outcome: rejected, Sends: 2, Unsure: true})
			return b.answer(s, saga.CallLookup, notFound, 48*time.Hour)
		},
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"tries_exhausted": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.begin("order")), saga.CallCharge, unknown, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"tries_exhausted of a void": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.voiding()), saga.CallVoid, unknown, 0) },
		map[saga.Resolution]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"tries_exhausted of a late payment's void": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.late()), saga.CallVoid, unknown, 0) },
		map[saga.Resolution]end{again: canceled, nothing: canceled},
		nil, 0,
	},
	"tries_exhausted of an order's refund": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.undoing()), saga.CallRefund, unknown, 0) },
		map[saga.Resolution]end{again: givenBack, taken: confirmed, nothing: givenBack},
		nil, 0,
	},
	"tries_exhausted of a refund": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.refundOf300()), saga.CallRefund, unknown, 0) },
		map[saga.Resolution]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, 0,
	},
	"unexpected_outcome": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, authorized, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"unexpected_outcome of a capture": {
		func(b *bundle) saga.Saga { return b.answer(b.capturing(1200, true), saga.CallCapture, notFound, 0) },
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"unexpected_outcome of a continue": {
		func(b *bundle) saga.Saga {
			s := b.event(b.awaiting(), saga.Event{Kind: saga.Asked, Request: &saga.Request{Kind: saga.RequestContinue}})
			return b.answer(s, saga.CallContinue, notFound, 0)
		},
		map[saga.Resolution]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"unexpected_outcome of a void": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, declined, 0) },
		map[saga.Resolution]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"unexpected_outcome of an order's refund": {
		func(b *bundle) saga.Saga { return b.answer(b.undoing(), saga.CallRefund, returned, 0) },
		map[saga.Resolution]end{taken: confirmed, nothing: givenBack},
		nil, 0,
	},
	"unexpected_outcome of a refund": {
		func(b *bundle) saga.Saga { return b.answer(b.refundOf300(), saga.CallRefund, notFound, 0) },
		map[saga.Resolution]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, 0,
	},
	"unexpected_outcome of a refund that was given": {
		func(b *bundle) saga.Saga {
			return b.answer(b.answer(b.refundOf300(), saga.CallRefund, given, 0), saga.CallCheckRefund, notFound, 0)
		},
		map[saga.Resolution]end{wasGiven: refunded, notGiven: unpaid},
		nil, 0,
	},
	"step_overdue": {
		func(b *bundle) saga.Saga {
			s := b.begunBy(saga.Definition{saga.Reserve, {Name: "check", Do: goesWell}, saga.Charge, saga.Confirm})
			return b.answer(s, saga.CallStep, processing, longAfter)
		},
		map[saga.Resolution]end{again: confirmed, nothing: neverPaid},
		nil, 0,
	},
	"step_overdue after the charge": {
		func(b *bundle) saga.Saga {
			s := b.begunBy(saga.Definition{saga.Reserve, saga.Charge, {Name: "check", Do: goesWell}, saga.Confirm})
			return b.answer(b.answer(s, saga.CallCharge, succeeded, 0), saga.CallStep, processing, longAfter)
		},
		map[saga.Resolution]end{again: confirmed, nothing: givenBack},
		nil, 0,
	},
	"void_overdue": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, processing, longAfter) },
		map[saga.Resolution]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"void_refused": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, rejected, 0) },
		map[saga.Resolution]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, 0,
	},
	"void_refused of a late payment": {
		func(b *bundle) saga.Saga { return b.answer(b.late(), saga.CallVoid, rejected, 0) },
		map[saga.Resolution]end{nothing: canceled},
		nil, 0,
	},
}
