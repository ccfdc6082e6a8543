package lifecycle_test

import (
	"net/http"
	"slices"

	"paysaga/saga"
)

// sums are what the provider has of an order's money.
type sums struct{ captured, refunded, held int64 }

// atProviders adds up what the providers have, and makes sure that there is one payment for each identifier, and one live one at most.
func (f *flow) atProviders() (all sums) {
	f.Helper()
	identifiers := map[string]bool{}
	live := 0
	for _, charge := range f.sandbox.Ledger() {
		all.captured, all.refunded, all.held = all.captured+charge.Captured, all.refunded+charge.Refunded, all.held+charge.Authorized
		if charge.Authorized > 0 || charge.Captured > charge.Refunded {
			live++
		}
		if identifiers[charge.Identifier] || charge.Identifier == "" {
			f.Errorf("two payments under one identifier, or none: %+v", charge)
		}
		identifiers[charge.Identifier] = true
	}
	if live > 1 {
		f.Errorf("%d live charges", live)
	}
	return all
}

// checkEnd holds what is here against what is at the providers.
func (f *flow) checkEnd() {
	f.Helper()
	f.checkReplays()
	f.checkIdentifiers()
	all, sold := f.atProviders(), int64(0)
	if f.begun() {
		s := f.now()
		f.checkOrder(s, all)
		f.checkRefunds(s, all)
		if s.State == saga.Completed {
			sold = 2
		}
	} else if len(f.sandbox.Ledger()) > 0 {
		f.Error("charges without an order")
	}
	stock, err := f.store().GetStock(f.Context(), shop, cup)
	f.must(err)
	if stock.OnHand != cupsOnHand-sold || stock.Reserved != 0 {
		f.Errorf("stock: %d on hand, %d reserved; %d sold", stock.OnHand, stock.Reserved, sold)
	}
	if open := f.count(`SELECT count(*) FROM webhook_events WHERE status NOT IN ('applied', 'unmatched')`); open > 0 {
		f.Errorf("%d events were not applied", open)
	}
}

func (f *flow) checkOrder(s saga.Saga, all sums) {
	f.Helper()
	payment := s.Order.Payment
	here := sums{captured: payment.CapturedAmount, refunded: payment.RefundedAmount} // and nothing is held in the end
	if here != all || payment.RefundingAmount != 0 {
		f.Errorf("here %+v and %d being refunded, at the provider %+v", here, payment.RefundingAmount, all)
	}
	if want := paymentStatuses(all); !slices.Contains(want, payment.Status) {
		f.Errorf("payment is %s, want one of %v", payment.Status, want)
	}
	switch s.State {
	case saga.Completed:
		if all.captured == 0 {
			f.Error("completed, and nothing is captured")
		}
	case saga.RolledBack:
		if all.captured != all.refunded {
			f.Errorf("rolled back with %+v", all)
		}
	default:
		f.Errorf("ended in %s", s.State)
	}
}

func (f *flow) checkRefunds(s saga.Saga, all sums) {
	f.Helper()
	var given int64
	for _, refund := range f.refundsOf(f.first.id) {
		switch refund.State {
		case saga.Completed:
			given += refund.Refund.Amount
		case saga.RolledBack:
		default:
			f.Errorf("a refund ended in %s", refund.State)
		}
	}
	if s.State == saga.Completed && given != all.refunded {
		f.Errorf("the refunds add up to %d, at the provider %d is refunded", given, all.refunded)
	}
}

func paymentStatuses(all sums) []saga.PaymentStatus {
	switch {
	case all.captured == 0:
		return []saga.PaymentStatus{saga.PaymentNone, saga.PaymentDeclined, saga.PaymentVoided}
	case all.refunded == all.captured:
		return []saga.PaymentStatus{saga.PaymentRefunded}
	case all.refunded > 0:
		return []saga.PaymentStatus{saga.PaymentPartiallyRefunded}
	}
	return []saga.PaymentStatus{saga.PaymentCaptured}
}

// checkReplays repeats every request that was answered: the same bytes, and nothing is done.
func (f *flow) checkReplays() {
	f.Helper()
	calls := len(f.requests())
	for _, r := range f.sent {
		if _, known := f.got[r.name()]; !known {
			continue
		}
		if got := f.send(r); !got.Replayed {
			f.Errorf("%s is not replayed: %s", r.name(), got)
		}
	}
	if more := len(f.requests()) - calls; more != 0 {
		f.Errorf("replays made %d calls", more)
	}
}

// checkIdentifiers compares what every call bore with what follows from the shop's keys alone.
func (f *flow) checkIdentifiers() {
	f.Helper()
	const mostAttempts = 12 // more than any flow makes
	pure := map[string]bool{}
	add := func(key orderID, step saga.StepName) {
		for attempt := range mostAttempts {
			for _, provider := range allProviders {
				sub := saga.SubKey(key, step, attempt+1)
				pure[identifier(provider, sub)] = true
				pure[identifier(provider, sub+"_capture")] = true // PayPal's second call of a charge
			}
		}
	}
	for _, step := range []saga.StepName{saga.StepCharge, saga.StepContinue, saga.StepVoid, saga.StepRefund} {
		add(f.first.id, step)
	}
	for _, r := range f.sent {
		switch r.endpoint {
		case toCapture:
			add(r.sagaKey(), saga.StepCapture)
		case toRefund:
			add(r.sagaKey(), saga.StepRefund)
		}
	}
	for _, call := range f.requests() {
		if call.Method == http.MethodPost && call.Identifier != "" && !pure[call.Identifier] {
			f.Errorf("%s %s bore %q", call.Call, call.Path, call.Identifier)
		}
	}
}
