package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"paysaga/api"
	"paysaga/internal/httpapi/pages"
	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/saga"
)

// problem is an error that is shown to the client as it stands.
type problem struct {
	kind       pages.ProblemType
	detail     string
	errors     []api.FieldError
	retryAfter time.Duration
	headers    map[string]string // besides
}

func (p *problem) Error() string { return p.kind.Slug + ": " + p.detail }

func newProblem(kind pages.ProblemType, format string, args ...any) *problem {
	return &problem{kind: kind, detail: fmt.Sprintf(format, args...)}
}

// body is the problem as application/problem+json.
func (p *problem) body(instance string) ([]byte, error) {
	document, err := json.Marshal(api.Problem{
		Type: "/problems/" + p.kind.Slug, Title: p.kind.Title, Status: p.kind.Status, Detail: p.detail, Instance: instance, Errors: p.errors,
	})
	if err != nil {
		return nil, fmt.Errorf("encode problem: %w", err)
	}
	return append(document, '\n'), nil
}

const problemContentType = "application/problem+json"

// What a client is told to wait where nothing better is known: long enough for a restart or a failover to begin.
const defaultRetryAfter = 2 * time.Second

// problemOf is the one mapping from errors to problems. What it does not know is internal, and its text stays here.
func problemOf(err error) *problem {
	var known *problem
	var badPayment *providers.RequestError
	var refused *saga.RefusedError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &badPayment):
		return paymentProblem(badPayment)
	case errors.As(err, &refused):
		return refusedProblem(refused)
	case errors.Is(err, saga.ErrNotFound):
		return newProblem(notFound, "Your account has nothing at this address.")
	case errors.Is(err, saga.ErrStockReserved):
		return newProblem(stockReserved, "Running orders have reserved more than the new count.")
	case errors.Is(err, reconcile.ErrFindingInReview):
		return newProblem(findingInReview, "Decide the saga; that closes what was found about it.")
	case errors.Is(err, reconcile.ErrFindingResolved):
		return newProblem(findingResolved, "Somebody, or a run, was first.")
	case errors.Is(err, reconcile.ErrBusy):
		return newProblem(reconciliationWaiting, "The runs that were requested before have not begun yet.")
	case errors.Is(err, saga.ErrOverloaded), errors.Is(err, saga.ErrDraining):
		return &problem{kind: unavailable, detail: "The server takes no further orders at this moment.", retryAfter: defaultRetryAfter}
	}
	return keyProblem(err)
}

// mendable are the fields of a request that a provider may object to. Whatever else it names was made here.
var mendable = []string{"amount", "currency", "payment.method", "payment.method_data", "payment.return_url", "customer.reference"}

// paymentProblem names the place of a field in the body of an order. It is nil where the client has none to mend.
func paymentProblem(invalid *providers.RequestError) *problem {
	if !slices.Contains(mendable, invalid.Field) {
		return nil
	}
	detail := "The " + strings.ReplaceAll(invalid.Field, ".", " ") + " " + strings.TrimSuffix(invalid.Detail, ".") + "."
	pointer := "/" + strings.ReplaceAll(invalid.Field, ".", "/")
	return &problem{kind: paymentInvalid, detail: detail, errors: []api.FieldError{{Pointer: pointer, Detail: detail}}}
}

// refusedProblem is nil for a reason that nobody here knows.
func refusedProblem(refused *saga.RefusedError) *problem {
	refusal, known := refusals[refused.Reason]
	if !known {
		return nil
	}
	p := &problem{kind: refusal.kind, detail: cmp.Or(refused.Detail, refusal.kind.Title+".")}
	if refusal.pointer != "" {
		p.errors = []api.FieldError{{Pointer: refusal.pointer, Detail: p.detail}}
	}
	if refusal.kind.Passes {
		p.retryAfter = time.Second // a call to a provider mostly takes less
	}
	return p
}

// fail answers with the problem that an error is, and logs what is not the client's doing.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p == nil {
		s.Logger.ErrorContext(r.Context(), "request failed", "method", r.Method, "route", route(r), "error", err)
		p = &problem{
			kind: unavailable, retryAfter: defaultRetryAfter,
			detail: "The request could not be finished here. Send it again with the same key: it gives one result.",
		}
	}
	body, err := p.body("")
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "problem not encoded", "error", err)
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	for name, value := range p.headers {
		w.Header().Set(name, value)
	}
	if p.kind.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="paysaga"`)
	}
	s.send(w, r, p.kind.Status, problemContentType, body)
}

// send writes a whole answer. A client that has gone away is nobody's error.
func (s *server) send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if contentType == "" {
		w.Header().Del("Content-Type")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil { //nolint:gosec // G705: JSON, with its content type and nosniff
		s.Logger.DebugContext(r.Context(), "client went away", "error", err)
	}
}

func (s *server) sendJSON(w http.ResponseWriter, r *http.Request, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		s.fail(w, r, fmt.Errorf("encode answer: %w", err))
		return
	}
	s.send(w, r, http.StatusOK, jsonContentType, append(body, '\n'))
}

const jsonContentType = "application/json"
