package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"paysaga/saga"
)

const firstFence = 1

func (m *memory) Begin(_ context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	now := m.open()
	after := change.After
	after.Steps = slices.Clone(after.Steps)
	ref := saga.Ref{AccountID: after.AccountID, Key: after.Key}
	if after.State.Ended() {
		lease = 0
	}
	after.Pending = claim.Endpoint
	if err := m.mayBegin(claim, after, change, now); err != nil {
		return saga.Saga{}, err
	}
	if claim.Endpoint != "" {
		m.claim(claim, after.Key, firstFence, now.Add(lease), now)
	}
	after.Lease = saga.Lease{Fence: firstFence, Until: now.Add(lease)}
	after.Drives, after.CreatedAt = 1, now
	if after.Kind == saga.KindRefund {
		after.Refund = new(*after.Refund)
		after.Refund.CreatedAt, after.Refund.UpdatedAt = now, now
		m.moveSums(&after, change.Refund, now)
	} else {
		after.Kind = saga.KindOrder
		payment := &after.Order.Payment
		payment.Capture = cmp.Or(payment.Capture, saga.CaptureAutomatic)
		payment.OnDecline = cmp.Or(payment.OnDecline, saga.DeclineRollsBack)
		after.Order.CreatedAt, after.Order.UpdatedAt = now, now
		m.orders[ref] = new(after.Order)
	}
	row := &sagaRow{order: saga.Ref{AccountID: after.AccountID, Key: after.Order.ID}}
	m.sagas[ref], m.inOrder = row, append(m.inOrder, row)
	row.saga = after
	row.saga.Steps, row.saga.NextAt, row.saga.Pending, row.saga.UpdatedAt = nil, time.Time{}, "", now
	if !after.State.Ended() {
		row.saga.NextAt = now.Add(lease)
	}
	m.rest(row, &after, change, now)
	m.moveStock(ref, after.Order.Items, change.Stock)
	after = stamp(after, change, now)
	after.Unrecorded, row.saga.Unrecorded = 1, 1
	m.tell(write{op: "begin", ref: ref, fence: firstFence, grants: true, from: saga.Started, after: after, change: &change, at: now})
	return after, nil
}

// mayBegin checks all that a transaction which begins a saga may break.
func (m *memory) mayBegin(claim saga.Claim, after saga.Saga, change saga.Change, now time.Time) error {
	if claim.Endpoint != "" {
		if err := m.mayClaim(claim, now); err != nil {
			return err
		}
	}
	order := m.orders[saga.Ref{AccountID: after.AccountID, Key: after.Order.ID}]
	if after.Kind == saga.KindRefund {
		if err := m.mayRefund(after, order, change.Refund); err != nil {
			return err
		}
	} else if order != nil {
		return saga.ErrGenerationUsed
	}
	if err := m.maySteps(nil, change.Steps); err != nil {
		return err
	}
	if err := m.mayMoveStock(saga.Ref{AccountID: after.AccountID, Key: after.Key}, after.Order.Items, change.Stock); err != nil {
		return err
	}
	return m.withinLimit(claim, now)
}

// mayRefund checks what a new refund may break: the order's sums, or, where it gives back another payment, that this is nobody's.
func (m *memory) mayRefund(after saga.Saga, order *saga.Order, effect saga.RefundEffect) error {
	counts := effect == saga.RefundHold || effect == saga.RefundFound
	switch {
	case after.Refund == nil || (after.Refund.Payment == "") != counts:
		return errors.New("a refund must begin by holding its sum, or by having been given, unless it is of another payment")
	case counts && !m.refundable(after, order):
		return saga.ErrExceedsCapture
	case !counts && slices.ContainsFunc(m.inOrder, func(row *sagaRow) bool { return isTakenBy(row, after) }):
		return saga.ErrPaymentOfAnother
	case m.sagas[saga.Ref{AccountID: after.AccountID, Key: after.Key}] != nil:
		return saga.ErrGenerationUsed
	}
	return nil
}

// isTakenBy tells that another payment than its order's own, which a refund is to give back, is that of a saga all the same, or is given
// back by another refund.
func isTakenBy(row *sagaRow, refund saga.Saga) bool {
	other, ofOrder := row.saga.Refund, row.order.Key == refund.Order.ID
	if other != nil {
		return ofOrder && row.saga.Key != refund.Key && other.Status != saga.RefundFailed &&
			other.Provider == refund.Refund.Provider && other.Payment == refund.Refund.Payment
	}
	return slices.ContainsFunc(row.saga.Steps, func(step saga.Step) bool {
		named := step.Name == saga.StepCharge && step.Provider == refund.Refund.Provider && step.ProviderReference == refund.Refund.Payment
		return named && (!ofOrder || step.Status == saga.StepDone)
	})
}

// Refunds reads the sagas of all refunds of an order.
func (m *memory) Refunds(_ context.Context, order saga.Ref) (refunds []saga.Saga, err error) {
	now := m.open()
	for _, row := range m.inOrder {
		if row.order == order && row.saga.Kind == saga.KindRefund {
			refunds = append(refunds, m.read(row, now))
		}
	}
	return refunds, nil
}

// refundable tells that an order is completed and that a sum fits into what is left of its capture.
func (m *memory) refundable(after saga.Saga, order *saga.Order) bool {
	if order == nil {
		return false
	}
	row, paid := m.sagas[saga.Ref{AccountID: after.AccountID, Key: order.ID}], order.Payment
	return row != nil && row.saga.State == saga.Completed && after.Refund.Amount <= paid.CapturedAmount &&
		paid.RefundedAmount+paid.RefundingAmount+after.Refund.Amount <= paid.CapturedAmount
}

func (m *memory) Ask(_ context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	now := m.open()
	after := change.After
	after.Steps = slices.Clone(after.Steps)
	ref := saga.Ref{AccountID: after.AccountID, Key: after.Key}
	row := m.sagas[ref]
	if change.Release {
		lease = 0
	}
	if err := m.mayClaim(claim, now); err != nil {
		return saga.Saga{}, err
	}
	if row == nil || row.saga.Lease.Fence != after.Lease.Fence || row.saga.State != change.From || row.saga.Lease.Until.After(now) ||
		!row.saga.UpdatedAt.Equal(change.After.UpdatedAt) || m.waiting(ref) != nil {
		return saga.Saga{}, saga.ErrLeaseLost
	}
	if err := m.mayChange(row, after, change); err != nil {
		return saga.Saga{}, err
	}
	if err := m.withinLimit(claim, now); err != nil {
		return saga.Saga{}, err
	}
	after.Lease = saga.Lease{Fence: after.Lease.Fence + 1, Until: now.Add(lease)}
	after.Pending, after.Drives = claim.Endpoint, row.saga.Drives+1
	m.claim(claim, after.Key, after.Lease.Fence, now.Add(lease), now)
	row.saga.Lease, row.saga.Drives = after.Lease, after.Drives
	next := now.Add(lease)
	if change.Release {
		next = now.Add(change.Pause)
	}
	m.change(row, &after, change, next, now)
	after = stamp(after, change, now)
	m.tell(write{op: "ask", ref: ref, fence: after.Lease.Fence, grants: true, from: change.From, after: after, change: &change, at: now})
	return after, nil
}

func (m *memory) Apply(_ context.Context, change saga.Change) (saga.Saga, error) {
	now := m.open()
	after := change.After
	after.Steps = slices.Clone(after.Steps)
	ref := saga.Ref{AccountID: after.AccountID, Key: after.Key}
	row := m.sagas[ref]
	if row == nil || row.saga.Lease.Fence != after.Lease.Fence || row.saga.State != change.From {
		return saga.Saga{}, saga.ErrLeaseLost
	}
	if err := m.mayChange(row, after, change); err != nil {
		return saga.Saga{}, err
	}
	lease := &row.saga.Lease
	next := now.Add(change.Pause)
	if change.Release {
		lease.Until = now
	} else {
		lease.Until = latest(lease.Until, now.Add(change.Lease))
		next = lease.Until
		m.mirror(ref, *lease)
	}
	m.change(row, &after, change, next, now)
	after = stamp(after, change, now)
	m.tell(write{op: "apply", ref: ref, fence: after.Lease.Fence, from: change.From, after: after, change: &change, at: now})
	return after, nil
}

// mayChange checks all that a change of a saga that stands may break.
func (m *memory) mayChange(row *sagaRow, after saga.Saga, change saga.Change) error {
	if after.Kind == saga.KindRefund {
		if change.Refund == saga.RefundHold {
			return errors.New("a refund holds its sum as it begins, not later")
		}
		if paid := m.orders[row.order].Payment; !sumsHold(paid, change.Refund, after.Refund.Amount) {
			return errors.New("refunds are not within the capture")
		}
		return m.maySteps(row, change.Steps)
	}
	paid := after.Order.Payment
	if change.From != saga.Completed && (paid.CapturedAmount < 0 || paid.CapturedAmount > after.Order.Amount ||
		paid.RefundedAmount < 0 || paid.RefundedAmount+m.orders[row.order].Payment.RefundingAmount > paid.CapturedAmount) {
		return errors.New("the order's sums break their rules")
	}
	if err := m.maySteps(row, change.Steps); err != nil {
		return err
	}
	return m.mayMoveStock(saga.Ref{AccountID: after.AccountID, Key: after.Key}, after.Order.Items, change.Stock)
}

// change writes what a change of a saga that stands brings.
func (m *memory) change(row *sagaRow, after *saga.Saga, change saga.Change, next, now time.Time) {
	kept := &row.saga
	kept.State, kept.Failures, kept.DeadlineAt, kept.UpdatedAt = after.State, after.Failures, after.DeadlineAt, now
	kept.Unrecorded, kept.NextAt = 1, next
	if change.Release {
		kept.Unrecorded = 0
	}
	if after.State.Ended() {
		kept.NextAt = time.Time{}
	}
	if after.Kind == saga.KindRefund {
		if kept.Refund.Status != after.Refund.Status {
			kept.Refund.Status, kept.Refund.UpdatedAt = after.Refund.Status, after.Refund.UpdatedAt
		}
		m.rest(row, after, change, now)
		m.moveSums(after, change.Refund, now)
		return
	}
	m.updateOrder(m.orders[row.order], after, change)
	m.rest(row, after, change, now)
	m.moveStock(saga.Ref{AccountID: after.AccountID, Key: after.Key}, after.Order.Items, change.Stock)
}

// updateOrder writes what a saga may change about its order.
func (m *memory) updateOrder(kept *saga.Order, after *saga.Saga, change saga.Change) {
	kept.Status, kept.UpdatedAt = after.Order.Status, latest(kept.UpdatedAt, after.Order.UpdatedAt)
	if change.From == saga.Completed {
		return
	}
	paid, told := &kept.Payment, after.Order.Payment
	paid.Status, paid.ProviderReference, paid.CapturedAmount, paid.RefundedAmount = told.Status, told.ProviderReference, told.CapturedAmount, told.RefundedAmount
	paid.Decline, paid.NextAction = told.Decline, told.NextAction
	anew := slices.ContainsFunc(change.Steps, func(step saga.Step) bool {
		return step.Name == saga.StepCharge && step.Attempt > 1 && step.StartedAt.IsZero()
	})
	if anew {
		paid.Provider, paid.Method, paid.ReturnURL, paid.MethodData = told.Provider, told.Method, told.ReturnURL, told.MethodData
	} else if told.MethodData == nil {
		paid.MethodData = nil
	}
}

// maySteps checks that no two calls share an identifier, and that an order has one live charge at most.
func (m *memory) maySteps(row *sagaRow, steps []saga.Step) error {
	var kept []saga.Step
	if row != nil {
		kept = slices.Clone(row.saga.Steps)
	}
	for _, step := range steps {
		i := slices.IndexFunc(kept, func(k saga.Step) bool { return k.Name == step.Name && k.Attempt == step.Attempt })
		switch {
		case i >= 0:
			kept[i].Status = step.Status
		case step.Provider != "" && m.subKeys[step.SubKey]:
			return saga.ErrGenerationUsed
		default:
			kept = append(kept, step)
		}
	}
	if liveCharges(kept) > 1 {
		return errors.New("an order has one live charge at most")
	}
	return nil
}

func liveCharges(steps []saga.Step) (live int) {
	for _, step := range steps {
		if step.Name == saga.StepCharge && step.Status != saga.StepFailed && step.Status != saga.StepUndone {
			live++
		}
	}
	return live
}

// rest writes what a change may carry beside the saga itself.
func (m *memory) rest(row *sagaRow, after *saga.Saga, change saga.Change, now time.Time) {
	ref := saga.Ref{AccountID: after.AccountID, Key: after.Key}
	for _, step := range change.Steps {
		m.writeStep(row, step, now)
	}
	if change.Answer != nil {
		if waiting := m.waiting(ref); waiting != nil {
			waiting.answer(*change.Answer, now)
		}
	}
	if change.Finding != nil {
		m.findings = append(m.findings, findingRow{ref, change.Finding.Kind})
	}
	if change.Event != "" {
		m.outbox = append(m.outbox, change.Event)
	}
}

// writeStep writes a new step, or what became of an earlier one. A step's intent stays as it was written first.
func (m *memory) writeStep(row *sagaRow, step saga.Step, now time.Time) {
	finished := step.Status != saga.StepPending && step.Status != saga.StepUnknown
	steps := &row.saga.Steps
	i := slices.IndexFunc(*steps, func(k saga.Step) bool { return k.Name == step.Name && k.Attempt == step.Attempt })
	if i < 0 {
		step.StartedAt, step.FinishedAt = now, time.Time{}
		if step.Provider != "" {
			m.subKeys[step.SubKey] = true
		}
		*steps, i = append(*steps, step), len(*steps)
	}
	kept := &(*steps)[i]
	kept.Status, kept.ProviderReference, kept.Outcome, kept.Code, kept.Detail = step.Status, step.ProviderReference, step.Outcome, step.Code, step.Detail
	kept.Sends, kept.SentAt, kept.Details = step.Sends, step.SentAt, step.Details
	if finished && kept.FinishedAt.IsZero() {
		kept.FinishedAt = now
	}
}

// stamp gives the saga the times that the database gave its rows.
func stamp(after saga.Saga, change saga.Change, now time.Time) saga.Saga {
	after.ReadAt, after.UpdatedAt, after.Unrecorded = now, now, 1
	if change.Release {
		after.Unrecorded = 0
	}
	if change.Answer != nil {
		after.Pending = ""
	}
	for i := range after.Steps {
		step := &after.Steps[i]
		if step.StartedAt.IsZero() {
			step.StartedAt = now
		}
		if step.Status != saga.StepPending && step.Status != saga.StepUnknown && step.FinishedAt.IsZero() {
			step.FinishedAt = now
		}
	}
	return after
}

// sumsHold checks 0 <= refunded, 0 <= refunding and refunded + refunding <= captured after an effect.
func sumsHold(paid saga.Payment, effect saga.RefundEffect, amount int64) bool {
	refunding, refunded := refundSums(paid, effect, amount)
	return refunding >= 0 && refunded >= 0 && refunding+refunded <= paid.CapturedAmount
}

func refundSums(paid saga.Payment, effect saga.RefundEffect, amount int64) (refunding, refunded int64) {
	refunding, refunded = paid.RefundingAmount, paid.RefundedAmount
	switch effect {
	case saga.RefundNone:
	case saga.RefundHold:
		refunding += amount
	case saga.RefundFound:
		refunded += amount
	case saga.RefundGive:
		refunding, refunded = refunding-amount, refunded+amount
	case saga.RefundFree:
		refunding -= amount
	case saga.RefundReturn:
		refunded -= amount
	}
	return refunding, refunded
}

// moveSums moves the order's sums by what became of a refund, and tells the saga of them.
func (m *memory) moveSums(after *saga.Saga, effect saga.RefundEffect, now time.Time) {
	if effect == saga.RefundNone {
		return
	}
	order := m.orders[saga.Ref{AccountID: after.AccountID, Key: after.Order.ID}]
	paid := &order.Payment
	paid.RefundingAmount, paid.RefundedAmount = refundSums(*paid, effect, after.Refund.Amount)
	switch paid.RefundedAmount {
	case 0:
		paid.Status = saga.PaymentCaptured
	case paid.CapturedAmount:
		paid.Status = saga.PaymentRefunded
	default:
		paid.Status = saga.PaymentPartiallyRefunded
	}
	order.UpdatedAt = latest(order.UpdatedAt, now)
	told := &after.Order.Payment
	told.RefundingAmount, told.RefundedAmount, told.Status = paid.RefundingAmount, paid.RefundedAmount, paid.Status
	after.Order.UpdatedAt = now
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
