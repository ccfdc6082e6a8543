package saga

import "paysaga/providers"

// showOrder brings the order's two statuses and its amounts in line with the saga. They are the shop's view of it and
// have no life of their own.
func showOrder(s *Saga) {
	s.Order.Status = orderStatus(s)
	payment := &s.Order.Payment
	payment.Status = paymentStatus(s)
	payment.ProviderReference = s.chargeReference()
	switch payment.Status {
	case PaymentCaptured:
		payment.CapturedAmount = s.Order.Amount
	case PaymentRefunded:
		payment.CapturedAmount, payment.RefundedAmount = s.Order.Amount, s.Order.Amount
	case PaymentNone, PaymentAuthorized, PaymentPartiallyRefunded, PaymentVoided, PaymentDeclined:
	}
}

func orderStatus(s *Saga) OrderStatus {
	switch s.State {
	case Completed:
		return OrderConfirmed
	case Awaiting:
		return OrderAwaiting
	case NeedsReview:
		return OrderInReview
	case RolledBack:
		if charge := s.step(StepCharge); charge == nil || charge.Status == StepFailed {
			return OrderFailed
		}
		return OrderCanceled
	case Started, Reserved, Charging, Charged, Compensating:
	}
	return OrderProcessing
}

func paymentStatus(s *Saga) PaymentStatus {
	charge := s.step(StepCharge)
	switch {
	case charge == nil:
		return PaymentNone
	case stepDone(s, StepRefund):
		return PaymentRefunded
	case charge.Status == StepDone:
		return PaymentCaptured
	case charge.Status == StepFailed && charge.Outcome == providers.Declined:
		return PaymentDeclined
	case stepDone(s, StepVoid):
		return PaymentVoided
	}
	return PaymentNone
}

func stepDone(s *Saga, name StepName) bool {
	step := s.step(name)
	return step != nil && step.Status == StepDone
}
