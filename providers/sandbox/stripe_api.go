package sandbox

import (
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	stripeName        = "stripe"
	stripeVersion     = "2023-10-16" // the API version of stripe-go v76
	shouldRetryHeader = "Stripe-Should-Retry"
	// stripeKeyRetention: Stripe remembers a key for at least 24 hours; the sandbox takes it at its word and forgets then.
	stripeKeyRetention = 24 * time.Hour
	maxStripeKey       = 255
	// maxStripeBody is far above any form that passes the other limits.
	maxStripeBody = 1 << 20
)

// stripeAPI simulates one Stripe account.
type stripeAPI struct {
	server    *Server
	secretKey string
	keys      *keyMemory

	mu     sync.Mutex
	store  stripeStore
	acting stripeCall // the call that runs, for the events that it causes
}

func newStripeAPI(server *Server, secretKey string) *stripeAPI {
	return &stripeAPI{server: server, secretKey: secretKey, keys: newKeyMemory(stripeKeyRetention), store: newStripeStore()}
}

// stripeCall is one authenticated, readable request.
type stripeCall struct {
	id        string // of the object in the path
	params    params
	expand    expansion
	key       string
	requestID string
	now       time.Time
	baseURL   string
}

// stripeOperation is one endpoint.
type stripeOperation struct {
	pattern string // of net/http, below /stripe
	call    CallType
	schema  schema
	expands string // the kind of object answered, for expand; lists answer pages of it
	list    bool
	// check refuses parameters that are wrong whatever the account holds; such a refusal is not saved under the key.
	check func(stripeCall) *stripeError
	// run executes under stripeAPI.mu; what it answers or refuses is saved.
	run func(*stripeAPI, stripeCall) (any, *stripeError)
}

func (a *stripeAPI) provider() string { return stripeName }

func (a *stripeAPI) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = newStripeStore()
	a.keys.reset()
}

func (a *stripeAPI) routes(mux *http.ServeMux) {
	for _, operation := range stripeOperations() {
		method, path, _ := strings.Cut(operation.pattern, " ")
		mux.HandleFunc(method+" /stripe"+path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, operation) })
	}
	mux.HandleFunc("/stripe/v1/", a.serveUnknown)
	a.pageRoutes(mux)
}

func (a *stripeAPI) serveUnknown(w http.ResponseWriter, r *http.Request) {
	requestID := a.openAnswer(w, r)
	refusal := &stripeError{
		status: http.StatusNotFound, Type: typeInvalidRequest,
		Message: "Unrecognized request URL (" + r.Method + ": " + strings.TrimPrefix(r.URL.Path, "/stripe") + "). The sandbox knows " +
			"PaymentIntents, refunds and charges.",
	}
	a.server.journal.add(newRequestRecord(r, a.server.clock.now(), nil))
	if err := refusal.answer(requestID).writeTo(w); err != nil {
		a.server.log.Debug("answer not delivered", "provider", stripeName, "error", err)
	}
}

// openAnswer sets the headers of every answer of Stripe.
func (a *stripeAPI) openAnswer(w http.ResponseWriter, r *http.Request) (requestID string) {
	requestID = "req_" + randomText(14)
	w.Header().Set("Request-Id", requestID)
	w.Header().Set("Stripe-Version", stripeVersion)
	if key := r.Header.Get("Idempotency-Key"); key != "" && r.Method == http.MethodPost {
		w.Header().Set("Idempotency-Key", key)
		w.Header().Set("Original-Request", requestID)
	}
	return requestID
}

func (a *stripeAPI) serve(w http.ResponseWriter, r *http.Request, operation stripeOperation) {
	requestID := a.openAnswer(w, r)
	body, readError := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStripeBody))
	record := newRequestRecord(r, a.server.clock.now(), body)
	record.Provider, record.Call = stripeName, operation.call
	if r.Method == http.MethodPost {
		record.Identifier = r.Header.Get("Idempotency-Key")
	}
	x := exchange{server: a.server, writer: w, request: r, sequence: a.server.journal.add(record)}
	x.call.provider, x.call.kind = stripeName, operation.call
	if refusal := a.admit(r); refusal != nil {
		x.send(refusal.answer(requestID))
		return
	}
	if readError != nil {
		x.send(unreadable(readError).answer(requestID))
		return
	}
	values, refusal := formValues(r, body)
	if refusal != nil {
		x.send(refusal.answer(requestID))
		return
	}
	request := stripeCall{
		id: r.PathValue("id"), requestID: requestID, now: a.server.clock.now(), baseURL: a.server.baseURL(r),
	}
	if r.Method == http.MethodPost {
		request.key = r.Header.Get("Idempotency-Key")
		if len(request.key) > maxStripeKey {
			x.send(invalid("", "", "Idempotency keys can be at most %d characters.", maxStripeKey).answer(requestID))
			return
		}
		x.call.identifier, x.call.keyed = request.key, request.key != ""
	} else {
		x.call.identifier = a.lookupIdentifier(request.id, values)
	}
	lookup := r.Method != http.MethodPost
	x.call.count = a.server.calls.increment(callKey{provider: stripeName, lookup: lookup, identifier: x.call.identifier})
	a.server.journal.amend(x.sequence, func(record *RequestRecord) { record.Identifier = x.call.identifier })
	path := strings.TrimPrefix(r.URL.Path, "/stripe")
	x.conduct(stripeDialect(request.key, requestID), func(disturb interference) answer {
		return a.perform(operation, request, path, values, disturb)
	})
}

// perform executes the operation under the rules of its key.
func (a *stripeAPI) perform(operation stripeOperation, request stripeCall, path string, values url.Values, disturb interference) answer {
	if request.key == "" {
		a.server.pause(disturb.delay)
		given, _ := a.execute(operation, request, values)
		return given
	}
	fingerprint := sha256.Sum256([]byte(values.Encode()))
	record, state := a.keys.claim(request.key, path, fingerprint, request.requestID, request.now)
	switch state {
	case claimSaved:
		return replay(record)
	case claimInFlight:
		return keyInUse(request.key).answer(request.requestID).with(shouldRetryHeader, "true")
	case claimOtherEndpoint, claimOtherRequest:
		return keyReused(record, state).answer(request.requestID)
	case claimFull:
		return storeFull().answer(request.requestID)
	case claimNew:
	}
	a.server.pause(disturb.delay)
	given, executed := a.execute(operation, request, values)
	if !executed {
		a.keys.release(record)
		return given
	}
	if disturb.replace != nil {
		given = *disturb.replace
	}
	a.keys.save(record, given)
	return given
}

// replay is the saved answer with the marks of a repeat. Declines say that repeating them changes nothing.
func replay(record *keyRecord) answer {
	again := record.saved.with("Idempotent-Replayed", "true").with("Original-Request", record.requestID)
	if again.status == http.StatusPaymentRequired {
		again = again.with(shouldRetryHeader, "false")
	}
	return again
}

// execute reports executed = false when the request was refused before the account was looked at.
func (a *stripeAPI) execute(operation stripeOperation, request stripeCall, values url.Values) (given answer, executed bool) {
	form, refusal := parseForm(values)
	if refusal == nil {
		request.params, refusal = operation.schema.read(form, "")
	}
	if refusal == nil {
		request.expand, refusal = readExpansion(request.params.texts("expand"), operation.expands, operation.list)
	}
	if refusal == nil && operation.check != nil {
		refusal = operation.check(request)
	}
	if refusal != nil {
		return refusal.answer(request.requestID), false
	}
	object, refusal := a.run(operation, request)
	switch {
	case refusal != nil && refusal.status == http.StatusServiceUnavailable:
		return refusal.answer(request.requestID), false
	case refusal != nil:
		return refusal.answer(request.requestID), true
	}
	return jsonAnswer(http.StatusOK, object), true
}

func (a *stripeAPI) run(operation stripeOperation, request stripeCall) (any, *stripeError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acting = request
	defer func() { a.acting = stripeCall{} }()
	return operation.run(a, request)
}

// admit checks the credentials and the API version.
func (a *stripeAPI) admit(r *http.Request) *stripeError {
	secret, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		secret, _, _ = r.BasicAuth()
	}
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return unauthorized("You did not provide an API key. You need to provide your API key in the Authorization header, using " +
			"Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').")
	}
	secretKind := strings.HasPrefix(secret, "sk_") || strings.HasPrefix(secret, "rk_")
	if a.secretKey != "" && secret != a.secretKey || !secretKind {
		return unauthorized("Invalid API Key provided: %s", "****")
	}
	if version := r.Header.Get("Stripe-Version"); version != "" && version != stripeVersion {
		return invalid("", "", "Invalid Stripe API version: the sandbox speaks %s only.", stripeVersion)
	}
	return nil
}

func unreadable(err error) *stripeError {
	refusal := invalid("", "", "The request body could not be read.")
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		refusal.status = http.StatusRequestEntityTooLarge
	}
	return refusal
}

// formValues are the parameters: of the query for GET, of the form for POST.
func formValues(r *http.Request, body []byte) (url.Values, *stripeError) {
	raw := r.URL.RawQuery
	if r.Method == http.MethodPost {
		if raw != "" {
			return nil, invalid("", "", "Invalid request: send parameters in the body, not in the query.")
		}
		raw = string(body)
		mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if len(body) > 0 && (err != nil || mediaType != "application/x-www-form-urlencoded") {
			return nil, invalid("", "", "Invalid request (check that your POST content type is application/x-www-form-urlencoded). If you "+
				"have any questions, we can help at https://support.stripe.com/.")
		}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("", "", "Invalid request: the parameters are not form-encoded.")
	}
	return values, nil
}

// lookupIdentifier is what faults match a GET by: the identifier of the payment it asks for, or the value searched for.
func (a *stripeAPI) lookupIdentifier(id string, values url.Values) string {
	if query := values.Get("query"); query != "" {
		return firstQuoted(query)
	}
	if payment := values.Get(objectPaymentIntent); payment != "" {
		id = payment
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if payment, known := a.store.paymentByID[id]; known {
		return payment.identifier
	}
	if charge, known := a.store.chargeByID[id]; known {
		return charge.payment.identifier
	}
	if refund, known := a.store.refundByID[id]; known {
		return refund.charge.payment.identifier
	}
	return ""
}
