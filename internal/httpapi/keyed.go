package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// intent is what a request under an idempotency key means, read from its body and held against the contract.
type intent struct {
	fingerprint idempotency.Fingerprint
	// begin carries it out. It is called for a new key, and for one whose window is over: the claim has its generation.
	begin func(ctx context.Context, claim saga.Claim) (saga.Answer, error)
}

// answerKeyed is the way of every POST that is idempotent by key: the key, the body, and then the one answer that there is.
func (s *server) answerKeyed(w http.ResponseWriter, r *http.Request, endpoint string, read func() (intent, error)) {
	key, err := idempotency.ParseKey(r.Header.Values("Idempotency-Key"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	meant, err := read()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	claim := saga.Claim{
		AccountID: accountOf(r.Context()), Endpoint: endpoint, Key: key, Fingerprint: meant.fingerprint, Retention: s.Retention,
	}
	answer, replayed, err := s.findAnswer(r.Context(), claim, meant)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	s.send(w, r, answer.Status, answer.Headers["Content-Type"], answer.Body)
}

// maxLookups bounds how often a request that lost a race looks again at who won it. Each loss means that somebody else
// made progress, so a second look nearly always has the answer.
const maxLookups = 4

// findAnswer finds the one answer for a key: the stored one, or that of a saga which it begins, asks or takes over. A request that
// its order refuses may be the second of two with the same key, of which the first has changed the order meanwhile: so the key is
// looked up once more before the refusal is told.
func (s *server) findAnswer(ctx context.Context, claim saga.Claim, meant intent) (saga.Answer, bool, error) {
	var refused error
	for range maxLookups {
		record, used, err := s.Store.LookupKey(ctx, claim.AccountID, claim.Endpoint, claim.Key)
		if err != nil {
			return saga.Answer{}, false, fmt.Errorf("look key up: %w", err)
		}
		if refused != nil && !used {
			return saga.Answer{}, false, refused
		}
		answer, replayed, err := s.decide(ctx, record, used, claim, meant)
		if _, refuses := errors.AsType[*saga.RefusedError](err); refuses {
			if refused != nil { // the key is that of an earlier window
				return saga.Answer{}, false, err
			}
			refused = err
			continue
		}
		if errors.Is(err, saga.ErrKeyTaken) || errors.Is(err, saga.ErrLeaseLost) || errors.Is(err, saga.ErrAnswered) {
			continue
		}
		return answer, replayed, err
	}
	return saga.Answer{}, false, waitProblem(0)
}

func (s *server) decide(
	ctx context.Context, record idempotency.Record, used bool, claim saga.Claim, meant intent,
) (answer saga.Answer, replayed bool, err error) {
	claim.Generation = 1
	if used {
		switch idempotency.Decide(record, claim.Fingerprint) {
		case idempotency.Replay:
			return record.Answer, true, nil
		case idempotency.Wait:
			return saga.Answer{}, false, waitProblem(record.LeaseLeft)
		case idempotency.Mismatch:
			return saga.Answer{}, false, newProblem(keyReused, "This key was used for another request. Use a new key for a new one.")
		case idempotency.TakeOver:
			answer, err = s.Runner.TakeOver(ctx, saga.Ref{AccountID: claim.AccountID, Key: record.SagaKey}, record.Fence)
			return answer, false, err
		case idempotency.Renew:
			claim.Generation = record.Generation + 1
		}
	}
	answer, err = meant.begin(ctx, claim)
	return answer, false, err
}

// waitProblem asks to come back when the lease ends at the latest; the answer is usually there much sooner, so never to
// wait longer than a few seconds.
func waitProblem(leaseLeft time.Duration) *problem {
	const longest = 5 * time.Second
	return &problem{
		kind: inProgress, detail: "An earlier request with this key is being worked on.",
		retryAfter: min(max(leaseLeft, time.Second), longest),
	}
}
