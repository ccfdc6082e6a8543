package stage

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"paysaga/saga"
)

// sums are what the provider has of an order's money.
type sums struct{ captured, refunded, held int64 }

// CheckEnd holds what is here against what is at the providers, when nothing is open any more: the ten invariants, as far as the end of
// one order can show them.
func (f *Flow) CheckEnd() {
	f.Helper()
	f.CheckReplays()
	f.checkIdentifiers()
	f.checkAudit()
	for _, broken := range f.witness.seen() {
		f.Error(broken)
	}
	if !f.Begun() {
		if len(f.Sandbox.Ledger()) > 0 {
			f.Error("charges without an order")
		}
		f.checkStock(nil)
		return
	}
	s, refunds := f.Saga(), f.RefundsOf(f.First.ID)
	reviewed := f.checkReviews(append(refunds, s))
	all := f.atProviders(reviewed)
	if !reviewed {
		f.checkOrder(s, all)
		f.checkOpen(s)
		f.checkRefunds(s, refunds, all)
		if open := f.Count(`SELECT count(*) FROM webhook_events WHERE status NOT IN ('applied', 'unmatched')`); open > 0 {
			f.Errorf("%d events were not applied", open)
		}
	}
	f.checkStock(&s)
}

// checkReviews makes sure that each saga that waits for a person has a finding that says why (I5). It tells whether there is one.
func (f *Flow) checkReviews(sagas []saga.Saga) (reviewed bool) {
	f.Helper()
	for _, s := range sagas {
		if s.State != saga.NeedsReview {
			continue
		}
		reviewed = true
		if f.Count(`SELECT count(*) FROM findings WHERE saga_key = $1`, s.Key) == 0 {
			f.Errorf("%s %s is in review, and no finding says why", s.Kind, s.Key)
		}
	}
	return reviewed
}

// atProviders adds up what the providers have, and makes sure that there is one payment for each identifier, and one live one at most.
// That there are more is what a person must be told of (I1).
func (f *Flow) atProviders(reviewed bool) (all sums) {
	f.Helper()
	identifiers := map[string]bool{}
	live := 0
	for _, charge := range f.Sandbox.Ledger() {
		all.captured, all.refunded, all.held = all.captured+charge.Captured, all.refunded+charge.Refunded, all.held+charge.Authorized
		if charge.Authorized > 0 || charge.Captured > charge.Refunded {
			live++
		}
		if charge.Refunded > charge.Captured {
			f.Errorf("more is refunded than captured: %+v", charge)
		}
		if identifiers[charge.Identifier] || charge.Identifier == "" && !reviewed {
			f.Errorf("two payments under one identifier, or none: %+v", charge)
		}
		identifiers[charge.Identifier] = true
	}
	if live > 1 && !reviewed {
		f.Errorf("%d live charges", live)
	}
	return all
}

func (f *Flow) checkOrder(s saga.Saga, all sums) {
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

func (f *Flow) checkRefunds(s saga.Saga, refunds []saga.Saga, all sums) {
	f.Helper()
	var given int64
	for _, refund := range refunds {
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

// checkStock makes sure that what was there is sold, reserved for an order in review, or there still (I6).
func (f *Flow) checkStock(s *saga.Saga) {
	f.Helper()
	sold, reserved := map[string]int64{}, map[string]int64{}
	if s != nil {
		confirm, reserve := s.Newest(saga.StepConfirm), s.Newest(saga.StepReserve)
		for _, item := range s.Order.Items {
			switch {
			case confirm != nil && confirm.Status == saga.StepDone:
				sold[item.SKU] += item.Quantity
			case s.State == saga.NeedsReview && reserve != nil && reserve.Status == saga.StepDone:
				reserved[item.SKU] += item.Quantity
			}
		}
	}
	for sku, put := range f.stock {
		stock, err := f.Store().GetStock(f.Context(), Account, sku)
		f.Must(err)
		if stock.OnHand != put-sold[sku] || stock.Reserved != reserved[sku] {
			f.Errorf("stock of %s: %d on hand, %d reserved; %d sold of %d, %d to be kept", sku, stock.OnHand, stock.Reserved,
				sold[sku], put, reserved[sku])
		}
	}
}

// CheckReplays repeats every request that was answered: the same bytes, and nothing is done (I8).
func (f *Flow) CheckReplays() {
	f.Helper()
	calls := len(f.Requests())
	for _, r := range f.Sent {
		if _, known := f.Got[r.Name()]; !known {
			continue
		}
		if got := f.Send(r); !got.Replayed {
			f.Errorf("%s is not replayed: %s", r.Name(), got)
		}
	}
	if more := len(f.Requests()) - calls; more != 0 {
		f.Errorf("replays made %d calls", more)
	}
}

// checkAudit makes sure that each decision that was taken is in the audit log once, with its reason, and no other is.
func (f *Flow) checkAudit() {
	f.Helper()
	var taken []string
	for _, r := range f.Sent {
		if got, answered := f.Got[r.Name()]; answered && r.Decides() && got.Status < http.StatusMultipleChoices {
			taken = append(taken, fmt.Sprintf("%s: %s", r.ID, r.Body["reason"]))
		}
	}
	noted := f.Lines(`SELECT subject || ': ' || reason FROM audit_log WHERE id > $1 AND action LIKE 'saga.%' ORDER BY id`, f.audited)
	if !slices.Equal(taken, noted) {
		f.Errorf("the audit log has the decisions %q, and %q were taken", noted, taken)
	}
}

// mostAttempts is more than any play makes.
const mostAttempts = 12

// SubKeys are all that calls of this flow may derive their identifiers from, by identifier.
func (f *Flow) SubKeys() map[string]string {
	pure := map[string]string{}
	add := func(key uuid.UUID, name string, step saga.StepName) {
		for attempt := range mostAttempts {
			sub, readable := saga.SubKey(key, step, attempt+1), string(saga.SubKey(uuid.Nil, step, attempt+1))
			readable = "<" + name + ">" + readable[len(uuid.Nil.String()):]
			for _, provider := range Providers() {
				pure[Identifier(provider, sub)] = readable
				pure[Identifier(provider, sub+"_capture")] = readable + "_capture" // PayPal's second call of a charge
			}
		}
	}
	for _, step := range []saga.StepName{saga.StepCharge, saga.StepContinue, saga.StepVoid, saga.StepRefund} {
		add(f.First.ID, "saga", step)
	}
	for _, r := range f.Sent {
		switch r.Endpoint {
		case ToCapture:
			add(r.SagaKey(), r.Key, saga.StepCapture)
		case ToRefund:
			add(r.SagaKey(), r.Key, saga.StepRefund)
		}
	}
	return pure
}

// checkIdentifiers compares what every call bore with what follows from the shop's keys alone (I3).
func (f *Flow) checkIdentifiers() {
	f.Helper()
	pure := f.SubKeys()
	for _, call := range f.Requests() {
		if _, known := pure[call.Identifier]; call.Method == http.MethodPost && call.Identifier != "" && !known {
			f.Errorf("%s %s bore %q", call.Call, call.Path, call.Identifier)
		}
	}
}
