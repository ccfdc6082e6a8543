package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"paysaga/api"
	"paysaga/internal/httpapi/pages"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// intent is what a request under an idempotency key means, read from its body and held against the contract.
type intent struct {
	fingerprint idempotency.Fingerprint
	// begin carries it out. It is called for a new key, and for one whose window is over: the claim has its generation.
	begin func(ctx context.Context, claim saga.Claim) (saga.Answer, error)
}

// answerKeyed is the way of every POST and PATCH that is idempotent by key: the key, the body, and then the one answer that there is.
func (s *server) answerKeyed(w http.ResponseWriter, r *http.Request, endpoint string, read func() (intent, error)) {
	key, err := s.Guard.ReadKey(r.Header.Values(keyHeader))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	meant, err := read()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	call := idempotency.Call{AccountID: accountOf(r.Context()), Endpoint: endpoint, Key: key, Fingerprint: meant.fingerprint}
	result, err := s.Guard.Do(r.Context(), call, idempotency.Work{Begin: meant.begin, Resume: s.resume})
	s.tell(w, r, result, err)
}

// heldIntent is what a request means that drives no saga, and whose key is held while it is carried out.
type heldIntent struct {
	fingerprint idempotency.Fingerprint
	// do carries it out and stores the answer in the same transaction.
	do func(ctx context.Context, held *idempotency.Held) (saga.Answer, error)
}

// answerHeld is the way of every POST that needs the database alone, and whose answer tells what was written.
func (s *server) answerHeld(
	w http.ResponseWriter, r *http.Request, endpoint string, read func(w http.ResponseWriter, r *http.Request) (heldIntent, error),
) {
	var meant heldIntent
	s.Guard.Handler(idempotency.Route{
		Endpoint: endpoint, Keep: idempotency.KeepSuccess, Tell: s.tell,
		Read: func(w http.ResponseWriter, r *http.Request) (account string, _ idempotency.Fingerprint, err error) {
			meant, err = read(w, r)
			return accountOf(r.Context()), meant.fingerprint, err
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := meant.do(r.Context(), idempotency.HeldBy(r.Context()))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.tell(w, r, idempotency.Result{Answer: answer}, nil)
	})).ServeHTTP(w, r)
}

// resume goes on with the saga that an earlier request with the key began, or asked something of.
func (s *server) resume(ctx context.Context, held idempotency.Held, record idempotency.Record) (saga.Answer, error) {
	return s.Runner.TakeOver(ctx, saga.Ref{AccountID: held.AccountID, Key: record.SagaKey}, record.Fence)
}

// tell writes what the guard found.
func (s *server) tell(w http.ResponseWriter, r *http.Request, result idempotency.Result, err error) {
	if result.Protection != "" {
		w.Header().Set("Idempotency-Protection", result.Protection)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for name, value := range result.Answer.Headers {
		w.Header().Set(name, value)
	}
	if result.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if digest := result.BodyDigest; digest != nil { // RFC 9530
		w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":")
	}
	contentType := result.Answer.Headers["Content-Type"]
	if result.BodyDigest != nil {
		contentType = "" // of a body that is not there
	}
	s.send(w, r, result.Answer.Status, contentType, result.Answer.Body)
}

// keyProblem puts what the guard refuses into words; nil for what it does not refuse.
func keyProblem(err error) *problem {
	var malformed *idempotency.KeyError
	var mismatch *idempotency.MismatchError
	var running *idempotency.InProgressError
	var limit *idempotency.LimitError
	switch {
	case errors.As(err, &malformed):
		return keyHeaderProblem(keyInvalid, malformed.Detail)
	case errors.Is(err, idempotency.ErrKeyMissing):
		return keyHeaderProblem(keyMissing, "Send an Idempotency-Key header with a new UUID for each request, and the same one for its repeats.")
	case errors.As(err, &running):
		return waitProblem(running.LeaseLeft)
	case errors.As(err, &mismatch):
		kind := keyReused
		kind.Status = mismatch.Status
		return newProblem(kind, "This key was used for another request. Use a new key for a new one.")
	case errors.Is(err, idempotency.ErrExpired):
		return newProblem(keyExpired, "This key was used longer ago than answers are kept. Use a new key for a new request.")
	case errors.As(err, &limit):
		return limitProblem(limit)
	}
	return nil
}

func keyHeaderProblem(kind pages.ProblemType, detail string) *problem {
	return &problem{kind: kind, detail: detail, errors: []api.FieldError{{Header: keyHeader, Detail: detail}}}
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
