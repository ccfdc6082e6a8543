package saga

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// What stands for the endpoint in the keys of refunds that no request asked for. Changing one would give the same refund a new key.
const (
	foundRefunds = "reconcile refund"
	repayments   = "reconcile repayment"
)

// RecordRefund writes down a refund of a completed order that its provider gave and nobody here asked for: a refund that is over as it
// begins. One that is known is not written down again, be it that the provider's answer to ours was lost.
func (r Repairs) RecordRefund(ctx context.Context, order Ref, found FoundRefund) error {
	return r.repair(ctx, func(ctx context.Context) error {
		s, err := r.orderToRepair(ctx, order)
		if err != nil {
			return err
		}
		if known, err := r.isKnown(ctx, s, found); known || err != nil {
			return err
		}
		if found.Amount <= 0 || found.Reference == "" {
			return refusedf(RefusedUnfit, "A refund has an amount, and an id at its provider.")
		}
		if _, err := refundable(s, found.Amount); err != nil {
			return err
		}
		refund := unasked(s, Key(order.AccountID, foundRefunds, s.Order.Payment.Provider+":"+found.Reference, 1), found.Amount)
		refund.Refund.Reason = "Given back at the provider."
		_, _, err = r.beginUnasked(ctx, refund, Event{Kind: Found, Refund: &found, Audit: &AuditEntry{
			Actor: Repairer, Action: "saga.record_refund", Reason: "The provider gave it, and nobody here had asked for it.",
		}})
		return err
	})
}

// orderToRepair reads an order that no person has to decide about.
func (r Repairs) orderToRepair(ctx context.Context, order Ref) (Saga, error) {
	s, err := r.loadOrder(ctx, order)
	if err == nil && s.State == NeedsReview {
		return Saga{}, ErrInReview
	}
	return s, err
}

// mostRefunds is how many refunds of an order are read. Of an order with more, nobody can say that a refund is none of them.
const mostRefunds = 1000

// isKnown tells that a refund which a provider gave is one of the order's. Whoever asked for one wrote that down before, so that what is
// not there now was not asked for here. Errors: *RefusedError, where it can be one of which nobody knows the end, or one that counts as not
// given.
func (r Repairs) isKnown(ctx context.Context, s Saga, found FoundRefund) (bool, error) {
	refunds, err := r.Store.Refunds(ctx, Ref{s.AccountID, s.Order.ID})
	switch {
	case err != nil:
		return false, fmt.Errorf("read refunds: %w", err)
	case len(refunds) >= mostRefunds:
		return false, refusedf(RefusedUnfit, "The order has too many refunds to tell whether this is one of them.")
	}
	unclear := false
	for _, refund := range append(refunds, s) {
		known, open, err := refund.knows(s.Order.Payment.Provider, found)
		if known || err != nil {
			return known, err
		}
		unclear = unclear || open
	}
	if unclear {
		return false, refusedf(RefusedBusy, "It can be a refund of ours of which nobody knows the end yet.")
	}
	return false, nil
}

// knows tells whether a refund that a provider gave is one of a saga's, or, as it is open and nothing names it, can be.
func (s *Saga) knows(provider string, found FoundRefund) (known, unclear bool, err error) {
	for _, step := range s.Steps {
		switch ours := step.isRefund(found); {
		case step.Name != StepRefund || step.Provider != provider:
		case ours && step.Status == StepFailed:
			return false, false, refusedf(RefusedContradicted, "The refund %s counts as not given here, and the provider has it as given.", s.Key)
		case ours:
			return true, false, nil
		case step.open() && step.ProviderReference == "" && found.Key == "" && s.moneyOf(step).Amount == found.Amount:
			unclear = true
		}
	}
	return false, unclear, nil
}

// isRefund tells that a step is the call that made a refund, or stands for it.
func (s Step) isRefund(found FoundRefund) bool {
	return s.ProviderReference != "" && s.ProviderReference == found.Reference || found.Key != "" && s.SubKey == found.Key
}

// unasked is a refund as it begins that no request asked for: no key of a client leads to it.
func unasked(order Saga, key uuid.UUID, amount int64) Saga {
	return Saga{
		Kind: KindRefund, AccountID: order.AccountID, Key: key, Generation: 1, State: Started, Order: order.Order,
		Refund: &Refund{ID: key, OrderID: order.Order.ID, Amount: amount, Status: RefundPending}, ReadAt: order.ReadAt,
	}
}

// beginUnasked writes the refund, and gives it as it is now. One that was begun before is left as it is: now is false then.
func (r Repairs) beginUnasked(ctx context.Context, refund Saga, event Event) (begun Saga, now bool, err error) {
	change, err := Advance(refund, event, r.policy(refund))
	if err != nil {
		return Saga{}, false, err
	}
	if err := r.finish(&change, refund); err != nil {
		return Saga{}, false, err
	}
	begun, err = r.Store.Begin(ctx, Claim{AccountID: refund.AccountID}, change, r.Lease)
	switch {
	case errors.Is(err, ErrGenerationUsed), errors.Is(err, ErrExceedsCapture):
		begun, err = r.begunBefore(ctx, refund)
		return begun, false, err
	case errors.Is(err, ErrPaymentOfAnother):
		return Saga{}, false, refusedf(RefusedUnfit, "This payment is another order's.")
	case err != nil:
		return Saga{}, false, fmt.Errorf("begin refund: %w", err)
	}
	return begun, true, nil
}

// begunBefore reads a refund that could not be begun, as it had been, or as the order's sums leave no room for it.
func (r Repairs) begunBefore(ctx context.Context, refund Saga) (Saga, error) {
	before, err := r.Store.Load(ctx, Ref{refund.AccountID, refund.Key})
	switch {
	case errors.Is(err, ErrNotFound):
		return Saga{}, refusedf(RefusedTooMuch, "With this refund, more would be given back than was captured.")
	case err != nil:
		return Saga{}, fmt.Errorf("load saga: %w", err)
	case before.Order.ID != refund.Order.ID || before.Refund.Amount != refund.Refund.Amount:
		return Saga{}, refusedf(RefusedUnfit, "It is written down already, of another order or over another amount.")
	}
	return before, nil
}

// refundFound writes down a refund that was given before anybody here heard of it.
func (f *fold) refundFound(found FoundRefund) {
	refund := f.saga.addStep(StepRefund, StepDone, f.saga.provider())
	refund.Amount, refund.ProviderReference, refund.Outcome = f.saga.Refund.Amount, found.Reference, providers.Succeeded
	refund.Code = FindingRefundedAtProvider
	if !found.At.IsZero() {
		refund.Detail = "Given at " + found.At.UTC().Format(time.RFC3339) + "."
	}
	f.refund = RefundFound
	f.fire(fireRefund)
	f.fire(fireConfirm)
}

// RefundOther gives back, once, what a provider took for an order beside the payment that the order knows. It is a refund with a saga of
// its own, whose key derives from the order's and from the payment, and none of the order's sums. It returns when the refund is given, or
// is on its way: recovery brings it to its end.
func (r Repairs) RefundOther(ctx context.Context, order Ref, other OtherPayment) error {
	return r.repair(ctx, func(ctx context.Context) error {
		s, err := r.orderToRepair(ctx, order)
		if err != nil {
			return err
		}
		return r.giveBack(ctx, s, other)
	})
}

// giveBack gives another payment back, or the one that it stands beside where it turns out to be the order's own.
func (r Repairs) giveBack(ctx context.Context, s Saga, other OtherPayment) error {
	if err := r.isOther(s, other); err != nil {
		return err
	}
	told, named, err := r.lookAtOther(ctx, s, other)
	if err != nil {
		return err
	}
	if s.isOwn(named) && other.Instead != nil {
		return r.giveBack(ctx, s, *other.Instead)
	}
	if err := r.isOther(s, named); err != nil {
		return err
	}
	refund := unasked(s, Key(s.AccountID, repayments, s.Key.String()+":"+named.Provider+":"+named.Reference, 1), named.Amount)
	refund.Refund.Provider, refund.Refund.Payment = named.Provider, named.Reference
	refund.Refund.Reason = "A payment beside the order's own."
	if before, err := r.Store.Load(ctx, Ref{refund.AccountID, refund.Key}); err == nil {
		return repaid(before)
	} else if !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("load saga: %w", err)
	}
	if told != nil && (told.Kind != providers.Succeeded || told.Code != "" || told.Money != refund.money(named.Amount)) {
		return refusedf(RefusedContradicted, "Asked for the payment, the provider tells otherwise (%s).", inWords(*told))
	}
	return r.repay(ctx, refund)
}

// lookAtOther asks the provider how another payment stands, and names it as the provider does: a list may tell of an order's capture where
// all calls are about the order. told is nil where the provider cannot be asked. Errors: *RefusedError, busy where it does not answer.
func (r Repairs) lookAtOther(ctx context.Context, s Saga, other OtherPayment) (told *providers.Outcome, named OtherPayment, err error) {
	provider := r.Providers[other.Provider]
	if provider.Windows().NoLookup {
		return nil, other, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	outcome := provider.Lookup(ctx, providers.LookupRequest{Key: other.Key, SagaKey: s.Order.ID.String(), Reference: other.Reference})
	conclusive := outcome.Code == providers.CodeOtherPayment || outcome.Code == providers.CodeSeveralPayments
	switch outcome.Kind {
	case providers.Busy, providers.Unknown:
		if !conclusive {
			return nil, other, refusedf(RefusedBusy, "The provider does not tell at this moment how the payment stands (%s).", inWords(outcome))
		}
	default:
		other.Reference = cmp.Or(outcome.Reference, other.Reference)
	}
	return &outcome, other, nil
}

// inWords is what an outcome says, for people.
func inWords(outcome providers.Outcome) string {
	words := []string{string(outcome.Kind)}
	if outcome.Code != "" {
		words = append(words, outcome.Code)
	}
	if outcome.Money.Currency != "" {
		words = append(words, outcome.Money.String())
	}
	return strings.Join(words, ", ")
}

// repay begins the refund of another payment, and drives it.
func (r Repairs) repay(ctx context.Context, refund Saga) error {
	begun, now, err := r.beginUnasked(ctx, refund, Event{Kind: Resume, Audit: &AuditEntry{
		Actor: Repairer, Action: "saga.refund_duplicate", Reason: "The provider had taken it beside the order's own payment.",
	}})
	if err != nil {
		return err
	}
	if !now {
		return repaid(begun)
	}
	if _, err := r.drive(ctx, begun, inRecovery); err != nil {
		return err
	}
	after, err := r.Store.Load(ctx, Ref{refund.AccountID, refund.Key})
	if err != nil {
		return fmt.Errorf("load saga: %w", err)
	}
	return repaid(after)
}

// repaid tells how the refund of another payment stands: an error where it was not given, and will not be by itself.
func repaid(refund Saga) error {
	switch refund.State {
	case NeedsReview:
		return ErrInReview
	case RolledBack:
		return refusedf(RefusedContradicted, "The provider refused to give the payment back (%s).", refund.step(StepRefund).Code)
	default:
		return nil
	}
}

// isOther refuses a payment that is the order's own, or can be.
func (r Repairs) isOther(s Saga, other OtherPayment) error {
	own := s.step(StepCharge)
	switch _, known := r.Providers[other.Provider]; {
	case !known:
		return refusedf(RefusedUnfit, "The provider %q is not set up here.", other.Provider)
	case other.Amount <= 0 || other.Reference == "":
		return refusedf(RefusedUnfit, "A payment has an amount, and an id at its provider.")
	case own == nil || own.ProviderReference == "":
		return refusedf(RefusedUnfit, "Nobody knows which payment is the order's own.")
	case !strings.HasPrefix(string(other.Key), s.Key.String()):
		return refusedf(RefusedUnfit, "The payment does not bear the order's key.")
	}
	if s.isOwn(other) {
		return refusedf(RefusedUnfit, "This is the order's own payment, or what was undone of it.")
	}
	return nil
}

// isOwn tells that a payment is what the order's newest charge, or another step of it, brought about, or one that was undone. An earlier
// charge that had been refused, and was taken all the same, is none of it.
func (s *Saga) isOwn(other OtherPayment) bool {
	newest := s.step(StepCharge)
	for i := range s.Steps {
		step := &s.Steps[i]
		refused := step.Name == StepCharge && step != newest && !s.isUndone(step)
		if step.Provider == other.Provider && step.ProviderReference == other.Reference && !refused {
			return true
		}
	}
	return false
}
