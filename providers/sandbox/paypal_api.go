package sandbox

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	paypalName = "paypal"
	paypalRoot = "/paypal"
	// PayPal keeps the ids of Orders calls for 6 hours, unless asked for more, and those of Payments calls for 45 days.
	paypalOrdersRetention   = 6 * time.Hour
	paypalPaymentsRetention = 45 * 24 * time.Hour
	maxPayPalRequestID      = 108
	maxPayPalBody           = 1 << 20
)

// paypalAPI simulates one PayPal business account.
type paypalAPI struct {
	server           *Server
	clientID, secret string
	reusedInvoices   bool
	mint             *tokenMint
	ordersMemory     *requestMemory
	paymentsMemory   *requestMemory

	mu    sync.Mutex
	store paypalStore
}

func newPayPalAPI(server *Server, options Options) *paypalAPI {
	return &paypalAPI{
		server: server, clientID: options.PayPalClientID, secret: options.PayPalSecret, reusedInvoices: options.PayPalReusedInvoices,
		mint: newTokenMint(), ordersMemory: newRequestMemory(paypalOrdersRetention),
		paymentsMemory: newRequestMemory(paypalPaymentsRetention), store: newPayPalStore(),
	}
}

// paypalCall is one authenticated request.
type paypalCall struct {
	id    string // in the path
	body  []byte
	key   string // PayPal-Request-Id
	now   time.Time
	view  paypalView
	query map[string][]string
}

// paypalResult is what a call brought: how to show it, now and to whoever asks again.
type paypalResult struct {
	status int
	show   func(paypalView) any // nil: an empty body
}

// paypalOperation is one endpoint.
type paypalOperation struct {
	pattern  string // of net/http, below paypalRoot
	call     CallType
	kind     string // ids are remembered per kind of call
	payments bool   // it belongs to the Payments API, whose memory is longer
	noKey    bool   // it takes no PayPal-Request-Id
	run      func(*paypalAPI, paypalCall) (paypalResult, *paypalError)
}

func paypalOperations() []paypalOperation {
	const order, authorization = "/v2/checkout/orders/{id}", "/v2/payments/authorizations/{id}"
	const capture, refund = "/v2/payments/captures/{id}", "/v2/payments/refunds/{id}"
	return []paypalOperation{
		{pattern: "POST /v2/checkout/orders", call: CallCharge, kind: "order.create", run: (*paypalAPI).createOrder},
		{pattern: "POST " + order + "/capture", call: CallCharge, kind: "order.capture", run: (*paypalAPI).captureOrder},
		{pattern: "POST " + order + "/authorize", call: CallCharge, kind: "order.authorize", run: (*paypalAPI).authorizeOrder},
		{
			pattern: "POST " + authorization + "/capture", call: CallCapture, kind: "authorization.capture", payments: true,
			run: (*paypalAPI).captureAuthorization,
		},
		{pattern: "POST " + authorization + "/void", call: CallVoid, noKey: true, run: (*paypalAPI).voidAuthorization},
		{pattern: "POST " + capture + "/refund", call: CallRefund, kind: "capture.refund", payments: true, run: (*paypalAPI).refundCapture},
		{pattern: "GET " + order, call: CallLookup, run: (*paypalAPI).getOrder},
		{pattern: "GET " + authorization, call: CallLookup, run: (*paypalAPI).getAuthorization},
		{pattern: "GET " + capture, call: CallLookup, run: (*paypalAPI).getCapture},
		{pattern: "GET " + refund, call: CallLookup, run: (*paypalAPI).getRefund},
		{pattern: "GET /v1/reporting/transactions", call: CallList, run: (*paypalAPI).searchTransactions},
		{pattern: "POST /v1/notifications/verify-webhook-signature", call: CallLookup, noKey: true, run: (*paypalAPI).verifySignature},
	}
}

func (*paypalAPI) provider() string { return paypalName }

func (a *paypalAPI) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = newPayPalStore()
	a.ordersMemory.reset()
	a.paymentsMemory.reset()
}

func (a *paypalAPI) routes(mux *http.ServeMux) {
	for _, operation := range paypalOperations() {
		method, path, _ := strings.Cut(operation.pattern, " ")
		mux.HandleFunc(method+" "+paypalRoot+path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, operation) })
	}
	mux.HandleFunc("POST "+paypalRoot+"/v1/oauth2/token", a.serveToken)
	mux.HandleFunc(paypalRoot+"/", func(w http.ResponseWriter, r *http.Request) {
		a.server.journal.add(newRequestRecord(r, a.server.clock.now(), nil))
		if err := paypalRefusal(http.StatusNotFound).answer().writeTo(w); err != nil {
			a.server.log.Debug("answer not delivered", "provider", paypalName, "error", err)
		}
	})
	a.pageRoutes(mux)
}

func (a *paypalAPI) serve(w http.ResponseWriter, r *http.Request, operation paypalOperation) {
	body, readError := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayPalBody))
	now := a.server.clock.now()
	record := newRequestRecord(r, now, body)
	record.Provider, record.Call = paypalName, operation.call
	x := exchange{server: a.server, writer: w, request: r, sequence: a.server.journal.add(record)}
	x.call.provider, x.call.kind = paypalName, operation.call
	key := r.Header.Get("Paypal-Request-Id")
	refusal := a.admit(r, body, now)
	switch {
	case refusal != nil:
	case readError != nil:
		refusal = paypalBadRequest("MALFORMED_REQUEST_JSON", "")
	case len(key) > maxPayPalRequestID:
		refusal = paypalBadRequest("INVALID_STRING_LENGTH", "PayPal-Request-Id")
	}
	if refusal != nil {
		x.send(refusal.answer())
		return
	}
	request := paypalCall{
		id: r.PathValue("id"), body: body, now: now, query: r.URL.Query(),
		view: paypalView{
			base: strings.TrimSuffix(a.server.baseURL(r), "/") + paypalRoot,
			full: r.Method == http.MethodGet || r.Header.Get("Prefer") == "return=representation",
		},
	}
	keyed := r.Method == http.MethodPost && !operation.noKey
	if keyed {
		request.key, x.call.identifier, x.call.keyed = key, key, key != ""
	} else {
		x.call.identifier = a.identifierOf(request.id)
	}
	x.call.count = a.server.calls.increment(callKey{provider: paypalName, lookup: !keyed, identifier: x.call.identifier})
	a.server.journal.amend(x.sequence, func(record *RequestRecord) { record.Identifier = x.call.identifier })
	mock := mockedError(r.Header.Get("Paypal-Mock-Response"))
	x.conduct(paypalDialect(), func(disturb interference) answer {
		if mock != nil {
			return mock.answer()
		}
		return a.perform(operation, request, disturb)
	})
}

// admit checks the token and the media type. PayPal wants one on a POST without a body, too.
func (a *paypalAPI) admit(r *http.Request, body []byte, now time.Time) *paypalError {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || !a.mint.valid(token, now) {
		return paypalRefusal(http.StatusUnauthorized)
	}
	if r.Method != http.MethodPost || strings.HasSuffix(r.URL.Path, "/void") && len(body) == 0 {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return paypalRefusal(http.StatusUnsupportedMediaType)
	}
	return nil
}

// mockedError is what PayPal-Mock-Response asks for in place of the true answer.
func mockedError(header string) *paypalError {
	var wanted struct {
		Codes string `json:"mock_application_codes"`
	}
	if header == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(header), &wanted); err != nil || wanted.Codes == "" {
		return paypalBadRequest("INVALID_PARAMETER_SYNTAX", "PayPal-Mock-Response")
	}
	return paypalIssue(mockStatus(wanted.Codes), wanted.Codes, "")
}

// perform executes the operation under the rules of its id. The id alone decides, per kind of call: with other parameters, too,
// it brings the object that the first call made. What PayPal does then is not documented.
func (a *paypalAPI) perform(operation paypalOperation, request paypalCall, disturb interference) answer {
	if request.key == "" {
		a.server.pause(disturb.delay)
		given, _ := a.execute(operation, request)
		return given
	}
	memory := a.ordersMemory
	if operation.payments {
		memory = a.paymentsMemory
	}
	record, state := memory.claim(operation.kind+"\x00"+request.key, request.now)
	switch state {
	case claimSaved:
		return a.again(record, request)
	case claimInFlight, claimOtherEndpoint, claimOtherRequest:
		return paypalBusy().answer()
	case claimFull:
		return paypalFull().answer()
	case claimNew:
	}
	a.server.pause(disturb.delay)
	given, show := a.execute(operation, request)
	if show == nil {
		memory.release(record)
		return given
	}
	memory.save(record, show)
	if disturb.replace != nil { // only the answer: PayPal remembers no answers, but what was made
		return *disturb.replace
	}
	return given
}

// again shows what was made under an id, as it is now.
func (a *paypalAPI) again(record *requestRecord, request paypalCall) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(request.now)
	return jsonAnswer(http.StatusOK, record.show(request.view))
}

// execute gives the answer, and how to show later what was made; nil when nothing was.
func (a *paypalAPI) execute(operation paypalOperation, request paypalCall) (given answer, show func(paypalView) any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(request.now)
	result, refusal := operation.run(a, request)
	switch {
	case refusal != nil:
		return refusal.answer(), nil
	case result.show == nil:
		return answer{status: result.status}, nil
	}
	return jsonAnswer(result.status, result.show(request.view)), result.show
}
