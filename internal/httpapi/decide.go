package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// RetrySaga lets a saga go on now.
func (s *server) RetrySaga(w http.ResponseWriter, r *http.Request, key api.SagaKey, _ api.RetrySagaParams) {
	s.decideByReason(w, r, retrySagaEndpoint, key, saga.ResolveRetry)
}

// CancelSaga gives an order up.
func (s *server) CancelSaga(w http.ResponseWriter, r *http.Request, key api.SagaKey, _ api.CancelSagaParams) {
	s.decideByReason(w, r, cancelSagaEndpoint, key, saga.ResolveCancel)
}

// decideByReason is for the decisions that need no more than their reason.
func (s *server) decideByReason(w http.ResponseWriter, r *http.Request, endpoint string, key uuid.UUID, resolution saga.Resolution) {
	s.answerKeyed(w, r, endpoint, func() (intent, error) {
		var request api.DecisionRequest
		if err := s.decode(w, r, "DecisionRequest", &request); err != nil {
			return intent{}, err
		}
		var found places
		found.checkReason(request.Reason)
		if err := found.problem(); err != nil {
			return intent{}, err
		}
		return s.deciding(decisionFingerprint(key, resolution, request.Reason), key, saga.Decision{
			Resolution: resolution, Reason: request.Reason, Actor: actorOf(r.Context()),
		}), nil
	})
}

// ResolveSaga takes a person's decision about a saga in review.
func (s *server) ResolveSaga(w http.ResponseWriter, r *http.Request, key api.SagaKey, _ api.ResolveSagaParams) {
	s.answerKeyed(w, r, resolveSagaEndpoint, func() (intent, error) {
		var request api.ResolveRequest
		if err := s.decode(w, r, "ResolveRequest", &request); err != nil {
			return intent{}, err
		}
		if err := checkResolve(request); err != nil {
			return intent{}, err
		}
		return s.deciding(resolveFingerprint(key, request), key, saga.Decision{
			Resolution: saga.Resolution(request.Resolution), Reason: request.Reason, Actor: actorOf(r.Context()),
			Payment: request.Payment, Amount: request.Amount, OutsideProvider: request.OutsideProvider,
		}), nil
	})
}

func (s *server) deciding(meant idempotency.Fingerprint, key uuid.UUID, decision saga.Decision) intent {
	return intent{meant, func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
		return s.Runner.Decide(ctx, claim, saga.Ref{AccountID: claim.AccountID, Key: key}, decision)
	}}
}

// decisionFingerprint is over the reason as well: it is kept as it was given.
func decisionFingerprint(key uuid.UUID, resolution saga.Resolution, reason string) idempotency.Fingerprint {
	return idempotency.NewIntent("decide saga 1").String("saga", key.String()).String("resolution", string(resolution)).
		String("reason", reason).Fingerprint()
}

func resolveFingerprint(key uuid.UUID, r api.ResolveRequest) idempotency.Fingerprint {
	meant := idempotency.NewIntent("resolve saga 1").String("saga", key.String()).String("resolution", string(r.Resolution)).
		String("reason", r.Reason).String("payment", r.Payment).Int("amount", r.Amount)
	if r.OutsideProvider {
		meant.String("outside_provider", "true")
	}
	return meant.Fingerprint()
}

// actorOf is who decides, as the audit log tells it: the API key, by the name that people know and the id that never changes.
func actorOf(ctx context.Context) string {
	key, _ := keyOf(ctx)
	return fmt.Sprintf("key %s (%s)", key.Name, key.ID)
}

// checkResolve checks what the contract's schema cannot say: which fields go together.
func checkResolve(r api.ResolveRequest) error {
	var found places
	found.checkReason(r.Reason)
	taken, nothingKept := r.Resolution == api.ResolutionTaken, r.Resolution == api.ResolutionNothingKept
	switch {
	case taken && r.Payment == "":
		found.addf("/payment", "Say by its id at the provider which payment is taken.")
	case !taken && r.Payment != "":
		found.addf("/payment", "Only what is taken has a payment.")
	case cardNumberIn(r.Payment):
		found.addf("/payment", cardNumber)
	}
	switch {
	case taken && r.Amount == 0:
		found.addf("/amount", "Say how much is taken in all, in minor units.")
	case !taken && r.Amount != 0:
		found.addf("/amount", "Only what is taken has an amount.")
	}
	if r.OutsideProvider && !nothingKept {
		found.addf("/outside_provider", "Only of money that went back can it be told that this was outside the provider.")
	}
	return found.problem()
}

// answerDecision is 200 where the saga has come to rest, with its end, with a person, or with money held; else it goes on by itself.
func answerDecision(s saga.Saga) (saga.Answer, error) {
	shown := showSaga(s)
	shown.Steps = showSteps(s)
	shown.LockedUntil, shown.NextAttemptAt = time.Time{}, time.Time{} // of the moment in which it was decided; an answer stays
	if s.State.Ended() || paid(s) {
		return jsonAnswer(http.StatusOK, "", shown)
	}
	return jsonAnswer(http.StatusAccepted, "/v1/sagas/"+s.Key.String(), shown)
}

// isDecision tells the endpoints of decisions.
func isDecision(endpoint string) bool { return strings.HasPrefix(endpoint, "POST /v1/sagas/") }

// keyOf is the API key that the request carries.
func keyOf(ctx context.Context) (account.Key, bool) {
	key, ok := ctx.Value(principalKey{}).(account.Key)
	return key, ok
}
