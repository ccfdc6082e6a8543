package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// CreateRefund gives money back, all that is left or a part.
func (s *server) CreateRefund(w http.ResponseWriter, r *http.Request, id api.OrderID, _ api.CreateRefundParams) {
	s.answerKeyed(w, r, createRefundEndpoint, func() (intent, error) {
		var request api.RefundRequest
		if err := s.decode(w, r, "RefundRequest", &request); err != nil {
			return intent{}, err
		}
		var found places
		found.checkReason(request.Reason)
		if err := found.problem(); err != nil {
			return intent{}, err
		}
		return intent{refundFingerprint(id, request), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.Runner.Refund(ctx, claim, saga.Ref{AccountID: claim.AccountID, Key: id}, request.Amount, request.Reason)
		}}, nil
	})
}

func refundFingerprint(id uuid.UUID, r api.RefundRequest) idempotency.Fingerprint {
	return idempotency.NewIntent("refund order 1").String("order", id.String()).Int("amount", r.Amount).String("reason", r.Reason).
		Fingerprint()
}

// ListRefunds shows the refunds of an order, oldest first. The store bounds their number to the contract's.
func (s *server) ListRefunds(w http.ResponseWriter, r *http.Request, id api.OrderID) {
	refunds, err := s.Store.ListRefunds(r.Context(), accountOf(r.Context()), id)
	if err == nil && len(refunds) == 0 { // of no refunds, or of no such order?
		_, err = s.Store.GetOrder(r.Context(), accountOf(r.Context()), id)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	list := api.RefundList{Data: []api.Refund{}}
	for _, refund := range refunds {
		list.Data = append(list.Data, showRefund(refund))
	}
	s.sendJSON(w, r, list)
}

// GetRefund shows one refund.
func (s *server) GetRefund(w http.ResponseWriter, r *http.Request, id api.OrderID, refundID api.RefundID) {
	refund, err := s.Store.GetRefund(r.Context(), accountOf(r.Context()), id, refundID)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showRefund(refund))
}

// showRefund is a refund as the API shows it.
func showRefund(s saga.Saga) api.Refund {
	step := saga.Step{SubKey: saga.SubKey(s.Key, saga.StepRefund, 1)}
	if newest := s.Newest(saga.StepRefund); newest != nil {
		step = *newest
	}
	shown := api.Refund{
		ID: s.Refund.ID, OrderID: s.Refund.OrderID, Amount: s.Refund.Amount, Currency: s.Order.Currency,
		Status: api.RefundStatus(s.Refund.Status), Reason: s.Refund.Reason, Provider: cmp.Or(step.Provider, s.Order.Payment.Provider),
		ProviderReference: step.ProviderReference, Identifier: string(step.SubKey),
		CreatedAt: s.Refund.CreatedAt.UTC(), UpdatedAt: s.Refund.UpdatedAt.UTC(),
	}
	if s.Refund.Status == saga.RefundFailed {
		shown.Code = step.Code
	}
	return shown
}
