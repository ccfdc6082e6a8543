package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// CaptureOrder takes held money, all or a part.
func (s *server) CaptureOrder(w http.ResponseWriter, r *http.Request, id api.OrderID, _ api.CaptureOrderParams) {
	s.answerKeyed(w, r, captureOrderEndpoint, func() (intent, error) {
		var request api.CaptureRequest
		if err := s.decode(w, r, "CaptureRequest", &request); err != nil {
			return intent{}, err
		}
		final := request.Final == nil || *request.Final
		return intent{captureFingerprint(id, request.Amount, final), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.ask(ctx, claim, id, saga.Request{Kind: saga.RequestCapture, Amount: request.Amount, Final: final})
		}}, nil
	})
}

func captureFingerprint(id uuid.UUID, amount int64, final bool) idempotency.Fingerprint {
	meant := idempotency.NewIntent("capture order 1").String("order", id.String()).Int("amount", amount)
	if !final {
		meant.String("final", "false")
	}
	return meant.Fingerprint()
}

// CancelOrder gives an order up before its money is taken.
func (s *server) CancelOrder(w http.ResponseWriter, r *http.Request, id api.OrderID, _ api.CancelOrderParams) {
	s.answerKeyed(w, r, cancelOrderEndpoint, func() (intent, error) {
		var request api.CancelRequest
		if err := s.decodeIfAny(w, r, "CancelRequest", &request); err != nil {
			return intent{}, err
		}
		return intent{cancelFingerprint(id), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.ask(ctx, claim, id, saga.Request{Kind: saga.RequestCancel})
		}}, nil
	})
}

func cancelFingerprint(id uuid.UUID) idempotency.Fingerprint {
	return idempotency.NewIntent("cancel order 1").String("order", id.String()).Fingerprint()
}
