package client

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrTooManyAttempts is wrapped by the error of a call that gave up after Config.MaxAttempts.
	ErrTooManyAttempts = errors.New("no further attempt is allowed")
	// ErrLongWait is wrapped by the error of a call that gave up as the server asked to wait for more than ten minutes.
	ErrLongWait = errors.New("the server asks for a long wait")
)

// UnknownOutcomeError tells that a request may have been carried out, or not, or may be so yet. It is no failure of the payment. Send the
// same request with the same key again; a new key could charge the customer twice.
type UnknownOutcomeError struct {
	Operation  string        // such as "create order"
	Attempts   int           // how many this call made; 0: its context was over before, and only earlier calls can have done something
	RetryAfter time.Duration // what the server asked to wait at last; 0: nothing
	Cause      error         // how the last attempt failed, perhaps a *ProblemError; nil: there was none
	GaveUp     error         // why no other followed: the context's error, ErrTooManyAttempts, ErrLongWait; nil: it would not help
}

// Error is for people.
func (e *UnknownOutcomeError) Error() string {
	const text = "%s: the outcome is not known after %d attempts, send the same request with the same key again"
	return fmt.Sprintf(text, e.Operation, e.Attempts) + reasons(e.Unwrap())
}

// Unwrap gives Cause and GaveUp to errors.Is and errors.As.
func (e *UnknownOutcomeError) Unwrap() []error { return present(e.GaveUp, e.Cause) }

// UnansweredError tells that a call which changes nothing got no answer in the end.
type UnansweredError struct {
	Operation string // such as "get order"
	Attempts  int
	Cause     error // as in UnknownOutcomeError
	GaveUp    error // as in UnknownOutcomeError
}

// Error is for people.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("%s: no answer after %d attempts", e.Operation, e.Attempts) + reasons(e.Unwrap())
}

// Unwrap gives Cause and GaveUp to errors.Is and errors.As.
func (e *UnansweredError) Unwrap() []error { return present(e.GaveUp, e.Cause) }

// reasons does not repeat the operation, which stands before.
func reasons(errs []error) string {
	var text strings.Builder
	for _, err := range errs {
		text.WriteString(": ")
		if problem, ok := err.(*ProblemError); ok { //nolint:errorlint // the error itself, as its own text is replaced
			text.WriteString(problem.reason())
			continue
		}
		text.WriteString(err.Error())
	}
	return text.String()
}

// present leaves nil out, on which errors.As would stumble if Unwrap gave it.
func present(errs ...error) (found []error) {
	for _, err := range errs {
		if err != nil {
			found = append(found, err)
		}
	}
	return found
}
