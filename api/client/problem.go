package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"paysaga/api"
)

// ProblemType is the last part of a problem's type, which never changes. Each has a page at /problems/{type} on the server.
type ProblemType string

// These refusals are kept under the key (ProblemError.Final).
const (
	PaymentDeclined    ProblemType = "payment-declined"
	OutOfStock         ProblemType = "out-of-stock"
	PaymentRejected    ProblemType = "payment-rejected"
	OrderUndone        ProblemType = "order-undone"
	ContinueRefused    ProblemType = "continue-refused"
	CaptureRefused     ProblemType = "capture-refused"
	RefundRefused      ProblemType = "refund-refused"
	AuthorizationEnded ProblemType = "authorization-ended"
	StepRefused        ProblemType = "step-refused"
)

// These say that the order does not stand as the request supposes. Read it.
const (
	RefundInstead    ProblemType = "refund-instead"
	CancelInstead    ProblemType = "cancel-instead"
	NothingToCapture ProblemType = "nothing-to-capture"
	PaymentOpen      ProblemType = "payment-open"
	PaymentRequired  ProblemType = "payment-required"
	AmountTooLarge   ProblemType = "amount-too-large"
	OneCapture       ProblemType = "one-capture"
	OrderOver        ProblemType = "order-over"
	OrderInReview    ProblemType = "order-in-review"

	NotInReview          ProblemType = "not-in-review"         // of decisions, as the next two
	DecisionUnfit        ProblemType = "decision-unfit"        // the saga stands otherwise
	DecisionContradicted ProblemType = "decision-contradicted" // the provider tells otherwise

	FindingInReview       ProblemType = "finding-in-review"      // decide its saga
	FindingResolved       ProblemType = "finding-resolved"       // somebody was first
	ReconciliationWaiting ProblemType = "reconciliation-waiting" // there are enough runs to be made
)

// These say that the request has to be mended. There are more of them, on the server's page /problems.
const (
	InvalidRequest        ProblemType = "invalid-request"
	UnknownSKU            ProblemType = "unknown-sku"
	IdempotencyKeyReuse   ProblemType = "idempotency-key-reuse"
	IdempotencyKeyExpired ProblemType = "idempotency-key-expired"
	NotFound              ProblemType = "not-found"
	Unauthorized          ProblemType = "unauthorized"
	OperatorRequired      ProblemType = "operator-required"
)

// These pass, and the client itself repeats after them. They are seen in attempts, and within an UnknownOutcomeError.
const (
	RequestInProgress ProblemType = "request-in-progress"
	OrderBusy         ProblemType = "order-busy"
	TooManyNewKeys    ProblemType = "too-many-new-keys"
	Unavailable       ProblemType = "unavailable"
)

// final are the refusals that a key keeps. The reuse of a key and an expired one are none: there may be an order under it.
var final = []ProblemType{
	PaymentDeclined, OutOfStock, PaymentRejected, OrderUndone, ContinueRefused, CaptureRefused, RefundRefused, AuthorizationEnded,
	StepRefused,
}

// passing are the conflicts that end by themselves.
var passing = []ProblemType{RequestInProgress, OrderBusy}

// ProblemError is an answer other than 2xx: a problem by RFC 9457, or an answer of something between here and the server.
type ProblemError struct {
	Operation  string           // such as "create order"
	Type       ProblemType      // "" for an answer that is none of paysaga's problems
	Status     int              // HTTP
	Title      string           // what the type means, for people
	Detail     string           // what is wrong with this request, for people
	Instance   string           // the order or refund that the problem left behind, such as /v1/orders/{id}
	Fields     []api.FieldError // the places in the request that must be mended
	RetryAfter time.Duration    // what the server asks to wait; 0: nothing
	Replayed   bool             // the refusal was kept under the key before
}

// Error is for people.
func (e *ProblemError) Error() string { return e.Operation + ": " + e.reason() }

func (e *ProblemError) reason() string {
	if e.Type == "" {
		return fmt.Sprintf("HTTP status %d", e.Status)
	}
	return fmt.Sprintf("%s (%d): %s", e.Type, e.Status, e.Detail)
}

// Final tells that the refusal is kept under the key: every repeat gets it again. Nothing is taken or given back, and another try, such
// as one with another card, is a new intent with a new key. After any other refusal the key stays good for its intent.
func (e *ProblemError) Final() bool { return slices.Contains(final, e.Type) }

// Is lets errors.Is look for a type: errors.Is(err, &client.ProblemError{Type: client.OutOfStock}).
func (e *ProblemError) Is(target error) bool {
	wanted, ok := target.(*ProblemError)
	return ok && wanted.Type != "" && wanted.Type == e.Type
}

// passes tells whether the same request may be sent again.
func (e *ProblemError) passes() bool {
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusConflict && slices.Contains(passing, e.Type)
}

// leavesOpen tells that the request, or an earlier one with its key, may have been carried out or be so yet. What is none of paysaga's
// problems comes from something in between, which may as well have swallowed the server's answer.
func (e *ProblemError) leavesOpen() bool {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Type == OrderBusy:
		return false
	}
	return e.Type == "" || e.Type == RequestInProgress || e.Status >= http.StatusInternalServerError
}

// speaksOfKey tells a refusal that the server gives only once it has looked the key up. The others are given before, and say nothing
// about an earlier attempt.
func (e *ProblemError) speaksOfKey() bool {
	keyed := []int{http.StatusPaymentRequired, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity}
	return e.Type != "" && slices.Contains(keyed, e.Status)
}

// maxDetail bounds what an error says, in bytes; the server's own details are below it.
const maxDetail = 1 << 10

// readProblem makes an error of an answer. It fails when the answer calls itself a problem and is none.
func (c *Client) readProblem(r request, a answer) (*ProblemError, error) {
	problem := &ProblemError{
		Operation: r.operation, Status: a.status, RetryAfter: retryAfter(a.header, time.Now()), Replayed: a.replayed(),
	}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if media != "application/problem+json" {
		return problem, nil
	}
	var document api.Problem
	text := c.conceal(r, string(a.body)) // something in between may repeat what it was sent
	if json.Unmarshal([]byte(text), &document) != nil {
		return nil, errUnreadable
	}
	if place, slug := path.Split(document.Type); strings.HasSuffix(place, "/problems/") {
		problem.Type = ProblemType(slug)
	}
	problem.Title, problem.Detail = shorten(document.Title), shorten(document.Detail)
	problem.Instance, problem.Fields = document.Instance, document.Errors
	return problem, nil
}

func shorten(text string) string {
	if len(text) <= maxDetail {
		return text
	}
	end := maxDetail
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
