package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// repair sums up what is to be done about all that is open, and does it if the run may, and if all of it is within the run's limit.
func (o *once) repair(ctx context.Context) error {
	if err := o.plan(ctx); err != nil {
		return err
	}
	if o.run.Mode != ModeApply {
		return o.next(ctx, StageEnd)
	}
	if o.run.Cursor == "" && len(o.result.Plan.Exceeds) > 0 { // else the limit was held when the run began to repair
		return &ExceedsError{o.result.Plan.Exceeds}
	}
	err := o.eachOpen(ctx, o.run.Cursor, func(open Open, verdict Verdict) error {
		if verdict.Repair != RepairNone {
			if err := o.mend(ctx, open); err != nil {
				return err
			}
		}
		o.run.Cursor = open.ID.String()
		return o.save(ctx)
	})
	if err != nil {
		return err
	}
	return o.next(ctx, StageEnd)
}

// plan sums up what is open.
func (o *once) plan(ctx context.Context) error {
	o.result.Plan, o.result.Open = Plan{}, nil
	err := o.eachOpen(ctx, "", func(open Open, verdict Verdict) error {
		o.result.Plan.Add(open.Finding, verdict)
		if len(o.result.Open) < mostShown {
			o.result.Open = append(o.result.Open, open)
		}
		return nil
	})
	o.result.Plan.Check(o.Rules.PerRun)
	return err
}

// eachOpen goes through the open findings, in the order of their ids.
func (o *once) eachOpen(ctx context.Context, cursor string, do func(Open, Verdict) error) error {
	after := uuid.Nil
	if cursor != "" {
		var err error
		if after, err = uuid.Parse(cursor); err != nil {
			return fmt.Errorf("cursor of the run: %w", err)
		}
	}
	for {
		batch, err := o.Store.NextRepairs(ctx, o.run, after, repairBatch)
		if err != nil {
			return err
		}
		for _, open := range batch {
			after = open.ID
			if err := do(open, o.Rules.Judge(open.Finding)); err != nil {
				return err
			}
		}
		if len(batch) < repairBatch {
			return nil
		}
	}
}

// mend looks at the payment anew, and repairs what is still to be repaired. What a repair comes to is noted; only what keeps the run from
// going on is an error.
func (o *once) mend(ctx context.Context, open Open) error {
	if open.OrderID == uuid.Nil {
		return nil
	}
	pair, err := o.Store.ReadPair(ctx, Place{AccountID: open.AccountID, OrderID: open.OrderID})
	if err != nil {
		return err
	}
	finding, found, err := o.again(ctx, pair, open.Finding)
	if err != nil || !found { // else it has moved on since
		return err
	}
	verdict := o.Rules.Judge(finding)
	if verdict.Repair == RepairNone {
		return o.Store.PutRepair(ctx, o.run, open.ID, false, verdict.Reason)
	}
	if over, isOver := o.over(verdict.Repair, finding.AtStake); isOver { // more has come to be in question since the plan was made
		o.run.Totals.Refused++
		return o.Store.PutRepair(ctx, o.run, open.ID, false, "With it, "+over.Sentence()+".")
	}
	o.count(verdict.Repair, finding.AtStake, 1) // before: a run that is killed in between must not move more than it may
	if err := o.save(ctx); err != nil {
		return err
	}
	err = o.carryOut(ctx, verdict.Repair, finding, pair.Payment.State)
	if ctx.Err() != nil || errors.Is(err, ErrLeaseLost) {
		return err
	}
	return o.cameTo(ctx, open, verdict.Repair, finding, err)
}

// carryOut does a repair. One that is to bring a saga on has done so only if the saga stands elsewhere then: else it is found again.
func (o *once) carryOut(ctx context.Context, repair Repair, f Finding, state saga.State) error {
	if !bringsOn(repair) {
		return o.do(ctx, repair, f, state)
	}
	ref := saga.Ref{AccountID: f.AccountID, Key: f.SagaKey}
	before, err := o.Repairs.Standing(ctx, ref)
	if err != nil {
		return err
	}
	if err := o.do(ctx, repair, f, state); err != nil {
		return err
	}
	after, err := o.Repairs.Standing(ctx, ref)
	if err != nil || after != before {
		return err
	}
	return o.stillThere(ctx, f)
}

// bringsOn tells the repairs that hand a saga something, and leave it to that what comes of it.
func bringsOn(repair Repair) bool {
	return slices.Contains([]Repair{RepairComplete, RepairUndo, RepairLetGo, RepairResume}, repair)
}

// stillThere is an error unless a saga that stands where it stood is in order: one that nobody had taken up is so once somebody looked.
func (o *once) stillThere(ctx context.Context, f Finding) error {
	if f.Kind != SagaWithoutEnd {
		return errUnmoved
	}
	pair, err := o.Store.ReadPair(ctx, Place{AccountID: f.AccountID, OrderID: f.OrderID})
	if err != nil {
		return err
	}
	if _, found, err := o.again(ctx, pair, f); err != nil || !found {
		return err
	}
	return errUnmoved
}

// errUnmoved: a repair was carried out, and nothing came of it.
var errUnmoved = errors.New("the saga stands where it stood")

// cameTo writes down what a repair came to.
func (o *once) cameTo(ctx context.Context, open Open, repair Repair, finding Finding, err error) error {
	o.Meter.RepairEnded(repair, err == nil)
	o.note(ctx, repair, finding, err)
	if err == nil {
		o.run.Totals.Repaired++
		return o.Store.PutRepair(ctx, o.run, open.ID, repair != RepairReview, string(repair))
	}
	o.run.Totals.Refused++
	if isRefused(err) {
		o.count(repair, finding.AtStake, -1)
	}
	return o.Store.PutRepair(ctx, o.run, open.ID, false, sentence(err))
}

// again finds a finding once more, as things stand now.
func (o *once) again(ctx context.Context, pair Pair, wanted Finding) (finding Finding, found bool, err error) {
	now, err := o.Store.Now(ctx)
	if err != nil {
		return Finding{}, false, err
	}
	view, err := o.view(ctx, now)
	if err != nil {
		return Finding{}, false, err
	}
	for _, finding := range Match(pair, view).Found {
		if finding.Kind == wanted.Kind && finding.SagaKey == wanted.SagaKey {
			return finding, true, nil
		}
	}
	return Finding{}, false, nil
}

// over tells whether a repair more would take the run above its limit.
func (o *once) over(repair Repair, money providers.Money) (Exceeded, bool) {
	moved, limit := plus(o.run.Totals.Moved[money.Currency], money.Amount), o.Rules.PerRun.In(money.Currency)
	return Exceeded{Currency: money.Currency, Planned: moved, Limit: limit}, movesMoney(repair) && moved > limit
}

// count counts money as moved, or not moved after all.
func (o *once) count(repair Repair, money providers.Money, times int64) {
	if !movesMoney(repair) || money.Currency == "" {
		return
	}
	if o.run.Totals.Moved == nil {
		o.run.Totals.Moved = make(map[string]int64)
	}
	o.run.Totals.Moved[money.Currency] = plus(o.run.Totals.Moved[money.Currency], times*money.Amount)
}

// isRefused tells that a repair was not begun.
func isRefused(err error) bool {
	_, refused := errors.AsType[*saga.RefusedError](err)
	_, contradicted := errors.AsType[*contradictedError](err)
	return refused || contradicted || errors.Is(err, errUnmoved) || errors.Is(err, saga.ErrInReview) || errors.Is(err, saga.ErrLeaseLost)
}

func (o *once) note(ctx context.Context, repair Repair, finding Finding, err error) {
	if err != nil {
		o.Logger.WarnContext(ctx, "a repair was not carried out", "repair", repair, "kind", finding.Kind, "order_id", finding.OrderID,
			"error", err)
		return
	}
	o.Logger.InfoContext(ctx, "repaired", "repair", repair, "kind", finding.Kind, "order_id", finding.OrderID)
}

// sentence is why a repair was refused, for people.
func sentence(err error) string {
	var contradicted *contradictedError
	refused, ok := errors.AsType[*saga.RefusedError](err)
	switch {
	case ok:
		return refused.Detail
	case errors.As(err, &contradicted):
		return contradicted.Error()
	case errors.Is(err, saga.ErrLeaseLost):
		return "Somebody drives the saga at this moment; the next run tries again."
	case errors.Is(err, saga.ErrInReview):
		return "The saga waits for a person."
	case errors.Is(err, errUnmoved):
		return "The saga was told, and stands where it stood; the next run tries again."
	}
	return "It is not known whether it was carried out; the next run looks."
}

// contradictedError tells that the provider, asked right before the repair, tells otherwise than its list.
type contradictedError struct{ outcome providers.Outcome }

func (e *contradictedError) Error() string {
	words := fmt.Sprintf("Asked once more, the provider tells that the payment is %q", e.outcome.Kind)
	if e.outcome.Money.Currency != "" {
		words += ", about " + e.outcome.Money.String()
	}
	return words + "."
}

// do hands a repair to the saga.
func (o *once) do(ctx context.Context, repair Repair, f Finding, state saga.State) error {
	ref := saga.Ref{AccountID: f.AccountID, Key: f.SagaKey}
	reason := f.Detail
	switch repair {
	case RepairComplete, RepairUndo, RepairLetGo:
		if state == saga.NeedsReview {
			return o.Repairs.Retry(ctx, ref, reason)
		}
		return o.announce(ctx, repair, ref, f)
	case RepairResume:
		if f.Notice != nil && slices.Contains(o.Announcing, f.Provider) { // nobody else can tell it
			return o.Repairs.Notify(ctx, ref, *f.Notice)
		}
		return o.Repairs.Retry(ctx, ref, reason)
	case RepairReview:
		return o.Repairs.Contradict(ctx, ref, string(f.Kind), f.Detail)
	case RepairRelease:
		return o.Repairs.ReleaseOrphan(ctx, ref)
	case RepairRecordRefund:
		return each(f.Refunds, func(found saga.FoundRefund) error { return o.Repairs.RecordRefund(ctx, ref, found) })
	case RepairRefundDuplicate:
		return o.refundDuplicates(ctx, ref, f)
	case RepairApplyWebhook:
		return each(f.Events, func(event Event) error { return o.Repairs.ApplyWebhook(ctx, event.Provider, event.ID) })
	case RepairNone:
	}
	return nil
}

// refundDuplicates gives back what was taken twice. What cannot be given back by rule is a person's; what nobody can tell at this moment
// is the next run's.
func (o *once) refundDuplicates(ctx context.Context, ref saga.Ref, f Finding) error {
	err := each(f.Others, func(other saga.OtherPayment) error { return o.Repairs.RefundOther(ctx, ref, other) })
	if refused, ok := errors.AsType[*saga.RefusedError](err); ok && refused.Reason != saga.RefusedBusy {
		if err := o.Repairs.Contradict(ctx, ref, string(f.Kind), f.Detail+" "+refused.Detail); err != nil {
			return err
		}
		return saga.ErrInReview
	}
	return err
}

func each[T any](list []T, do func(T) error) error {
	for _, one := range list {
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}

// announce brings how the payment stands now to the saga, as the provider would have announced it. A provider that can be asked is asked:
// its list may be older.
func (o *once) announce(ctx context.Context, repair Repair, ref saga.Ref, f Finding) error {
	notice := *f.Notice
	outcome, ok, err := o.Repairs.Look(ctx, ref)
	if err != nil {
		return err
	}
	if ok {
		if !agrees(repair, outcome.Kind) || repair == RepairUndo && isOverOther(outcome, notice.Outcome.Money) {
			return &contradictedError{outcome}
		}
		notice.Outcome, notice.Payment = &outcome, cmp.Or(outcome.Reference, notice.Payment)
	}
	return o.Repairs.Notify(ctx, ref, notice)
}

// isOverOther tells that a payment of which nothing was given back or captured by itself is about other money than was told before.
func isOverOther(outcome providers.Outcome, told providers.Money) bool {
	return outcome.Code == "" && outcome.Money != (providers.Money{}) && outcome.Money != told
}

// agrees tells that what a provider answers is what the repair is about.
func agrees(repair Repair, kind providers.OutcomeKind) bool {
	money := kind == providers.Succeeded || kind == providers.Authorized
	if repair == RepairLetGo {
		return kind == providers.Canceled
	}
	return money
}
