package saga

import (
	"cmp"

	"paysaga/providers"
)

// show brings what the shop sees in line with the saga: the order's two statuses and its amounts, or the refund's status. They
// have no life of their own. What refunds of a completed order have made of its amounts stays as it is.
func show(s *Saga, before State) {
	if s.Kind == KindRefund {
		if status := refundStatus(s.State); status != s.Refund.Status {
			s.Refund.Status, s.Refund.UpdatedAt = status, s.ReadAt
		}
		return
	}
	s.Order.Status = orderStatus(s)
	if before == Completed {
		return
	}
	payment := &s.Order.Payment
	payment.ProviderReference = s.chargeReference()
	payment.CapturedAmount = max(payment.CapturedAmount, s.captured())
	if given := s.givenBack(); given > 0 {
		payment.CapturedAmount, payment.RefundedAmount = given, given
	}
	payment.Status = paymentStatus(s)
}

// givenBack is how much was given back to undo the order, in minor units: by a refund, or by a void that came too late to be one.
func (s *Saga) givenBack() int64 {
	if refund := s.step(StepRefund); refund != nil && refund.Status == StepDone {
		return s.moneyOf(*refund).Amount
	}
	if void := s.step(StepVoid); void != nil && void.Status == StepDone && void.Code == providers.CodeRefunded {
		return cmp.Or(s.captured(), s.Order.Amount)
	}
	return 0
}

func refundStatus(state State) RefundStatus {
	switch state {
	case Completed:
		return RefundSucceeded
	case RolledBack:
		return RefundFailed
	case NeedsReview:
		return RefundInReview
	case Started, Reserved, Charging, Awaiting, Charged, Compensating, Refunding:
	}
	return RefundPending
}

func orderStatus(s *Saga) OrderStatus {
	switch s.State {
	case Completed:
		return OrderConfirmed
	case Awaiting:
		if s.held() {
			return OrderConfirmed
		}
		return OrderAwaiting
	case NeedsReview:
		return OrderInReview
	case RolledBack:
		charge, void := s.step(StepCharge), s.step(StepVoid)
		if charge == nil || charge.Status == StepFailed && (void == nil || void.Code != codeCanceled) {
			return OrderFailed
		}
		return OrderCanceled
	case Started, Reserved, Charging, Charged, Compensating, Refunding:
	}
	return OrderProcessing
}

func paymentStatus(s *Saga) PaymentStatus {
	charge, payment := s.step(StepCharge), s.Order.Payment
	switch {
	case charge == nil:
		return PaymentNone
	case payment.RefundedAmount > 0 && payment.RefundedAmount == payment.CapturedAmount:
		return PaymentRefunded
	case payment.RefundedAmount > 0:
		return PaymentPartiallyRefunded
	case s.captured() > 0:
		return PaymentCaptured
	case charge.Status == StepDone:
		return PaymentAuthorized
	case charge.Status == StepFailed && charge.Outcome == providers.Declined:
		return PaymentDeclined
	case charge.Status == StepUndone:
		return PaymentVoided
	}
	return PaymentNone
}

// happened is what a change tells the shop; empty for nothing.
func happened(before, after *Saga) string {
	if after.Kind == KindRefund {
		if after.Refund.Status == before.Refund.Status || after.Refund.Status == RefundPending || after.Refund.ofAnother() {
			return ""
		}
		return "refund." + string(after.Refund.Status)
	}
	status := after.Order.Status
	switch {
	case status != before.Order.Status && status != OrderProcessing:
		return "order." + string(status)
	case before.held() && after.Order.Payment.CapturedAmount > before.Order.Payment.CapturedAmount:
		return "order.captured"
	}
	return ""
}
