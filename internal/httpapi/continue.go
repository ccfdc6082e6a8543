package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// ContinueOrder goes on with an order whose customer has acted, or who pays in another way after a decline.
func (s *server) ContinueOrder(w http.ResponseWriter, r *http.Request, id api.OrderID, _ api.ContinueOrderParams) {
	s.answerKeyed(w, r, continueOrderEndpoint, func() (intent, error) {
		var request api.ContinueRequest
		if err := s.decode(w, r, "ContinueRequest", &request); err != nil {
			return intent{}, err
		}
		return intent{continueFingerprint(id, request), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.beginContinue(ctx, claim, id, request)
		}}, nil
	})
}

// continueFingerprint is over all but the return URL, as for an order.
func continueFingerprint(id uuid.UUID, r api.ContinueRequest) idempotency.Fingerprint {
	meant := idempotency.NewIntent("continue order 1").String("order", id.String()).String("details", string(r.Details))
	if r.Payment != nil {
		meant.String("provider", r.Payment.Provider).String("method", r.Payment.Method).
			String("method_data", string(r.Payment.MethodData))
	}
	return meant.Fingerprint()
}

func (s *server) beginContinue(ctx context.Context, claim saga.Claim, id uuid.UUID, r api.ContinueRequest) (saga.Answer, error) {
	request := saga.Request{Kind: saga.RequestContinue, Details: r.Details}
	var found places
	found.checkDetails(r.Details)
	if r.Payment != nil {
		found.checkPayment(r.Payment.Method, r.Payment.MethodData, r.Payment.ReturnURL)
	}
	if err := found.problem(); err != nil {
		return saga.Answer{}, err
	}
	if r.Payment == nil {
		return s.ask(ctx, claim, id, request)
	}
	placed, err := s.Store.GetOrder(ctx, claim.AccountID, id)
	if err != nil {
		return saga.Answer{}, fmt.Errorf("read order: %w", err)
	}
	request.Payment = nextPayment(placed.Order.Payment, *r.Payment)
	answer, err := s.ask(ctx, claim, id, request)
	if errors.Is(err, saga.ErrUnknownProvider) {
		return saga.Answer{}, unknownProvider(request.Payment.Provider)
	}
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		if p := nextPaymentProblem(invalid); p != nil {
			return saga.Answer{}, p
		}
	}
	return answer, err
}

// nextPayment is the next attempt. What it does not say stays as in the one before.
func nextPayment(before saga.Payment, next api.ContinuePayment) *saga.NewPayment {
	return &saga.NewPayment{
		Provider: cmp.Or(next.Provider, before.Provider), Method: next.Method, MethodData: next.MethodData,
		ReturnURL: cmp.Or(next.ReturnURL, before.ReturnURL),
	}
}

// nextPaymentProblem names the place only where it is in this body: another provider may refuse the order's amount.
func nextPaymentProblem(invalid *providers.RequestError) *problem {
	p := paymentProblem(invalid)
	if p != nil && !strings.HasPrefix(p.errors[0].Pointer, "/payment/") {
		p.errors = nil
	}
	return p
}

// ask hands a request to its order.
func (s *server) ask(ctx context.Context, claim saga.Claim, id uuid.UUID, request saga.Request) (saga.Answer, error) {
	request.Key = saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)
	return s.Runner.Ask(ctx, claim, saga.Ref{AccountID: claim.AccountID, Key: id}, request)
}
