package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paysaga/api"
	"paysaga/internal/httpapi/pages"
	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// problemTypes is the table of all problems that the API answers with; each has a page at /problems/{slug}.
var problemTypes = map[string]pages.ProblemType{}

func problemType(status int, slug, title, meaning, mend string) pages.ProblemType {
	t := pages.ProblemType{Slug: slug, Title: title, Status: status, Meaning: meaning, Mend: mend}
	problemTypes[slug] = t
	return t
}

var (
	invalidRequest = problemType(http.StatusBadRequest, "invalid-request", "The request is not valid",
		"The body or a parameter is not what the contract describes. Nothing was done, and the key was not used.",
		"Mend each place named in `errors`. The mended request may use the same key.")
	keyInvalid = problemType(http.StatusBadRequest, "idempotency-key-invalid", "The Idempotency-Key is not valid",
		"The header has a key that is empty, too short, too long or has other characters than allowed, or there are several.",
		"Send one key of 16 to 255 characters of `A-Z a-z 0-9 . _ ~ : -`, best a UUID made once for each order.")
	keyMissing = problemType(http.StatusUnprocessableEntity, "idempotency-key-missing", "The Idempotency-Key is missing",
		"A request that changes something must say which intent it belongs to, or a repeat could charge twice.",
		"Make a UUID when the customer presses the button, keep it with the cart, and send it with every repeat.")
	keyReused = problemType(http.StatusUnprocessableEntity, "idempotency-key-reuse", "The Idempotency-Key belongs to another request",
		"The key was used for a request with another intent: another amount, other items, another payment.",
		"Use a new key for a new intent. To repeat the first request, send it unchanged.")
	inProgress = problemType(http.StatusConflict, "request-in-progress", "The request is still being worked on",
		"An earlier request with the same key has no answer yet.",
		"Send the same request with the same key again after the seconds in `Retry-After`.")
	unauthorized = problemType(http.StatusUnauthorized, "unauthorized", "The API key is missing or not valid",
		"The `Authorization` header has no API key, or one that is unknown or revoked.",
		"Send `Authorization: Bearer` and a key that `paysaga keys create` gave.")
	notFound = problemType(http.StatusNotFound, "not-found", "There is no such thing",
		"Your account has nothing at this address. Another account's things do not exist for you.",
		"Check the address and the API key's account.")
	methodNotAllowed = problemType(http.StatusMethodNotAllowed, "method-not-allowed", "The method does not fit the address",
		"The address exists, the method does not apply to it.", "See the reference at `/docs`.")
	bodyTooLarge = problemType(http.StatusRequestEntityTooLarge, "body-too-large", "The body is too large",
		"The request's body is over the limit.", "Send fewer lines or less metadata.")
	unsupportedMediaType = problemType(http.StatusUnsupportedMediaType, "unsupported-media-type", "The body is not JSON",
		"The `Content-Type` is not `application/json`.", "Send JSON and say so in `Content-Type`.")
	outOfStock = problemType(http.StatusUnprocessableEntity, "out-of-stock", "There is too little in stock",
		"A line asks for more than is available. Nothing was charged; the answer stays for this key.",
		"Offer the customer less, or raise the stock, and order under a new key.")
	unknownSKU = problemType(http.StatusUnprocessableEntity, "unknown-sku", "A SKU has no stock record",
		"A line names a SKU that was never put into stock. Nothing was done, and the key was not used.",
		"Put the SKU into stock with `PUT /v1/stock/{sku}`, then send the order again under the same key.")
	providerUnknown = problemType(http.StatusUnprocessableEntity, "provider-not-configured", "The payment provider is not set up",
		"This server has no settings for the provider that the order names. Nothing was done, and the key was not used.",
		"Name a provider that is set up, or set it up. See the settings in the manual.")
	paymentInvalid = problemType(http.StatusUnprocessableEntity, "payment-not-possible", "The payment cannot be expressed at the provider",
		"The provider does not take this amount, currency or method. Nothing was done, and the key was not used.",
		"Change what `errors` names. The mended request may use the same key.")
	paymentDeclined = problemType(http.StatusPaymentRequired, "payment-declined", "The payment was declined",
		"The bank or the provider refused the payment. Nothing was taken, the stock is free again; the answer stays for this key.",
		"Ask the customer for another payment method and order under a new key. The order's `payment.decline` says whether the same "+
			"method may be tried again.")
	paymentRejected = problemType(http.StatusUnprocessableEntity, "payment-rejected", "The provider refused the payment request",
		"The provider did not accept the request itself, for example a method that it does not know. Nothing was taken; the answer "+
			"stays for this key.",
		"Mend the payment and order under a new key.")
	orderUndone = problemType(http.StatusUnprocessableEntity, "order-undone", "The order was undone",
		"The order could not be completed, and everything was undone: nothing is kept of the payment, the stock is free again.",
		"Read the order to see why, and order under a new key.")
	stockReserved = problemType(http.StatusUnprocessableEntity, "stock-reserved", "More is reserved than would be on hand",
		"The count is lower than what running orders have reserved. Nothing was changed.",
		"Wait until those orders have ended, or set a higher count.")
	unavailable = problemType(http.StatusServiceUnavailable, "unavailable", "The service cannot take the request now",
		"The database or the provider does not answer, or the server is about to stop or has too much to do.",
		"Send the same request with the same key again after the seconds in `Retry-After`.")
	internalError = problemType(http.StatusInternalServerError, "internal-error", "Something went wrong here",
		"The server met an error of its own. The request may or may not have begun.",
		"Send the same request with the same key again: it gives one result. Tell the operator the request's id.")
)

// problem is an error that is shown to the client as it stands.
type problem struct {
	kind       pages.ProblemType
	detail     string
	errors     []api.FieldError
	retryAfter time.Duration
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
	var badKey *idempotency.KeyError
	var badPayment *providers.RequestError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &badKey):
		return &problem{kind: keyInvalid, detail: badKey.Detail, errors: []api.FieldError{{Header: "Idempotency-Key", Detail: badKey.Detail}}}
	case errors.Is(err, idempotency.ErrKeyMissing):
		const detail = "Send an Idempotency-Key header with a new UUID for each order, and the same one for its repeats."
		return &problem{kind: keyMissing, detail: detail, errors: []api.FieldError{{Header: "Idempotency-Key", Detail: detail}}}
	case errors.As(err, &badPayment):
		detail := "The " + strings.ReplaceAll(badPayment.Field, ".", " ") + " " + strings.TrimSuffix(badPayment.Detail, ".") + "."
		pointer := "/" + strings.ReplaceAll(badPayment.Field, ".", "/")
		return &problem{kind: paymentInvalid, detail: detail, errors: []api.FieldError{{Pointer: pointer, Detail: detail}}}
	case errors.Is(err, saga.ErrNotFound):
		return newProblem(notFound, "Your account has nothing at this address.")
	case errors.Is(err, saga.ErrStockReserved):
		return newProblem(stockReserved, "Running orders have reserved more than the new count.")
	case errors.Is(err, saga.ErrOverloaded), errors.Is(err, saga.ErrDraining):
		return &problem{kind: unavailable, detail: "The server takes no further orders at this moment.", retryAfter: defaultRetryAfter}
	}
	return nil
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
	if p.kind.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="paysaga"`)
	}
	s.send(w, r, p.kind.Status, problemContentType, body)
}

// send writes a whole answer. A client that has gone away is nobody's error.
func (s *server) send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
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
