package sandbox

import (
	"crypto/sha256"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	adyenName = "adyen"
	adyenRoot = "/adyen/v71"
	// adyenKeyRetention: Adyen remembers a key for at least 7 days; the sandbox takes it at its word and forgets then.
	adyenKeyRetention = 7 * 24 * time.Hour
	maxAdyenKey       = 64
	maxAdyenReference = 80
	// maxAdyenBody is far above any request of the calls that are simulated.
	maxAdyenBody = 1 << 20
)

// adyenAPI simulates one Adyen company account.
type adyenAPI struct {
	server   *Server
	apiKey   string
	merchant string
	several  bool // several partial captures are allowed
	keys     *keyMemory

	mu    sync.Mutex
	store adyenStore
}

func newAdyenAPI(server *Server, options Options) *adyenAPI {
	return &adyenAPI{
		server: server, apiKey: options.AdyenKey, merchant: options.AdyenMerchant, several: options.AdyenSeveralCaptures,
		keys: newKeyMemory(adyenKeyRetention), store: newAdyenStore(),
	}
}

// adyenCall is one authenticated request.
type adyenCall struct {
	id      string // pspReference in the path
	body    []byte
	key     string
	now     time.Time
	baseURL string
}

// adyenOperation is one endpoint.
type adyenOperation struct {
	path string // below adyenRoot
	call CallType
	// run executes under adyenAPI.mu; what it answers is saved under the key, and so are its refusals, but for those that
	// say otherwise.
	run func(*adyenAPI, adyenCall) (status int, object any, refusal *adyenError)
}

func adyenOperations() []adyenOperation {
	const payment = "/payments/{id}"
	return []adyenOperation{
		{path: "/payments", call: CallCharge, run: (*adyenAPI).pay},
		{path: "/payments/details", call: CallCharge, run: (*adyenAPI).details},
		{path: payment + "/captures", call: CallCapture, run: (*adyenAPI).capture},
		{path: payment + "/cancels", call: CallVoid, run: (*adyenAPI).cancel},
		{path: payment + "/reversals", call: CallVoid, run: (*adyenAPI).reverse},
		{path: payment + "/refunds", call: CallRefund, run: (*adyenAPI).refund},
		{path: "/cancels", call: CallVoid, run: (*adyenAPI).cancelByReference},
	}
}

func (*adyenAPI) provider() string { return adyenName }

func (a *adyenAPI) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = newAdyenStore()
	a.keys.reset()
}

func (a *adyenAPI) routes(mux *http.ServeMux) {
	for _, operation := range adyenOperations() {
		mux.HandleFunc("POST "+adyenRoot+operation.path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, operation) })
	}
	mux.HandleFunc("/adyen/", a.serveUnknown)
	a.pageRoutes(mux)
}

func (a *adyenAPI) serveUnknown(w http.ResponseWriter, r *http.Request) {
	a.server.journal.add(newRequestRecord(r, a.server.clock.now(), nil))
	refusal := &adyenError{
		Status: http.StatusNotFound, ErrorCode: "000", ErrorType: adyenValidation,
		Message: "The sandbox knows payments, their details and modifications, and cancels, under " + adyenRoot,
	}
	if err := refusal.answer().writeTo(w); err != nil {
		a.server.log.Debug("answer not delivered", "provider", adyenName, "error", err)
	}
}

func (a *adyenAPI) serve(w http.ResponseWriter, r *http.Request, operation adyenOperation) {
	key := r.Header.Get("Idempotency-Key")
	w.Header().Set("Pspreference", adyenReference())
	if key != "" {
		w.Header().Set("Idempotency-Key", key)
	}
	body, readError := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdyenBody))
	now := a.server.clock.now()
	record := newRequestRecord(r, now, body)
	record.Provider, record.Call, record.Identifier = adyenName, operation.call, key
	x := exchange{server: a.server, writer: w, request: r, sequence: a.server.journal.add(record)}
	x.call.provider, x.call.kind = adyenName, operation.call
	refusal := a.admit(r)
	switch {
	case refusal != nil:
	case readError != nil:
		refusal = adyenMalformed("The request body could not be read.")
	case len(key) > maxAdyenKey:
		refusal = adyenInvalid("702", "Idempotency-Key is longer than %d characters", maxAdyenKey)
	}
	if refusal != nil {
		x.send(refusal.answer())
		return
	}
	x.call.identifier, x.call.keyed = key, key != ""
	x.call.count = a.server.calls.increment(callKey{provider: adyenName, identifier: key})
	request := adyenCall{id: r.PathValue("id"), body: body, key: key, now: now, baseURL: a.server.baseURL(r)}
	x.conduct(adyenDialect(), func(disturb interference) answer { return a.perform(operation, request, r.URL.Path, disturb) })
}

func (a *adyenAPI) admit(r *http.Request) *adyenError {
	key := r.Header.Get("X-Api-Key")
	if key == "" || a.apiKey != "" && key != a.apiKey {
		return adyenForbidden(http.StatusUnauthorized, "000", "HTTP Status Response - Unauthorized")
	}
	return nil
}

// perform executes the operation under the rules of its key. The key alone decides: with other parameters too it brings the
// saved answer. What Adyen does then is not documented; another endpoint is refused here, as its answer would make no sense.
func (a *adyenAPI) perform(operation adyenOperation, request adyenCall, path string, disturb interference) answer {
	if request.key == "" {
		a.server.pause(disturb.delay)
		given, _ := a.execute(operation, request)
		return given
	}
	record, state := a.keys.claim(request.key, path, [sha256.Size]byte{}, "", request.now)
	switch state {
	case claimSaved:
		return *record.saved
	case claimInFlight, claimOtherEndpoint, claimOtherRequest:
		return adyenKeyBusy().answer()
	case claimFull:
		return adyenFull().answer()
	case claimNew:
	}
	a.server.pause(disturb.delay)
	given, keep := a.execute(operation, request)
	if !keep {
		a.keys.release(record)
		return given
	}
	if disturb.replace != nil {
		given = *disturb.replace
	}
	a.keys.save(record, given)
	return given
}

// execute reports whether the answer is to be kept under the key.
func (a *adyenAPI) execute(operation adyenOperation, request adyenCall) (given answer, keep bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status, object, refusal := operation.run(a, request)
	if refusal != nil {
		return refusal.answer(), !refusal.transient && !refusal.unsaved
	}
	return jsonAnswer(status, object), true
}

// permit refuses other merchant accounts than the sandbox's, when it has one.
func (a *adyenAPI) permit(merchant string) *adyenError {
	if a.merchant != "" && merchant != a.merchant {
		return adyenForbidden(http.StatusForbidden, "901", "Invalid Merchant Account")
	}
	return nil
}
