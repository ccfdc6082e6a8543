package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options set a Server up. The zero value works.
type Options struct {
	Logger *slog.Logger // nil: nothing is logged
	// Seed decides which calls a fault with a probability hits; a fault may bring its own.
	Seed int64
	// StripeKey is the only secret key accepted under /stripe; empty accepts every non-empty sk_… and rk_….
	StripeKey string
	// AdyenKey is the only X-API-Key accepted under /adyen, AdyenMerchant the only merchant account; empty accepts any.
	AdyenKey, AdyenMerchant string
	// AdyenSeveralCaptures is a merchant account for which Adyen has allowed several partial captures. Without it the first
	// capture releases what it leaves over, as is Adyen's default.
	AdyenSeveralCaptures bool
	// PayPalClientID and PayPalSecret are the only credentials that get a token under /paypal; empty accepts any.
	PayPalClientID, PayPalSecret string
	// PayPalReusedInvoices is an account that takes several payments with one invoice_id; PayPal's default is to block them.
	PayPalReusedInvoices bool
	// Webhooks are the targets by provider: "stripe", "adyen", "paypal". Validate says whether they can be used; New leaves
	// out those that cannot, and logs it.
	Webhooks map[string]WebhookTarget
	// WebhooksAnywhere allows webhooks to other machines than this one.
	WebhooksAnywhere bool
	// Now is the sandbox's clock, to which POST /_sandbox/clock adds; nil is time.Now.
	Now func() time.Time
	// SearchDelay is how far the search index lags behind; Stripe's own is normally below a minute.
	SearchDelay time.Duration
	// SettleAfter ends payments in processing by themselves; 0 leaves them until a control call settles them. Adyen's
	// captures, cancels and refunds come into effect SettleAfter after their answer, with 0 right away.
	SettleAfter time.Duration
	// PublicURL is where a browser reaches the sandbox, for redirects; empty uses the Host of the request.
	PublicURL string
}

// Server is the sandbox. It is an http.Handler and safe for concurrent use.
type Server struct {
	log         *slog.Logger
	clock       *clock
	settings    *settings
	faults      *faultBoard
	calls       *callCounter
	journal     *journal
	simulations []simulation
	outboxes    map[string]*outbox // by provider
	anywhere    bool               // webhooks may go to other machines
	authority   *authority
	publicURL   string
	origin      atomic.Pointer[string] // where the last request came in
	closing     context.Context        //nolint:containedctx // the server's own life, not a request's
	close       context.CancelFunc
	mux         *http.ServeMux
}

// simulation is what the control API needs of each simulated provider.
type simulation interface {
	provider() string
	routes(mux *http.ServeMux)
	charges() []Charge
	// actOnPayment and actOnRefund play the customer's or the bank's part. found is false for an id of another provider.
	actOnPayment(id string, action action) (found bool, err error)
	actOnRefund(id string, action action) (found bool, err error)
	// settleDue lets happen what time brings and announces it.
	settleDue()
	plant(divergence divergence) (Charge, error)
	settlement(order settlementOrder) settlementFile
	reset()
}

// New makes a sandbox with an empty ledger.
func New(options Options) *Server {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	now := options.Now
	if now == nil {
		now = time.Now
	}
	closing, closeServer := context.WithCancel(context.Background())
	server := &Server{
		log:       logger,
		clock:     &clock{base: now},
		settings:  newSettings(options.SearchDelay, options.SettleAfter),
		faults:    newFaultBoard(options.Seed),
		calls:     newCallCounter(),
		journal:   newJournal(),
		anywhere:  options.WebhooksAnywhere,
		authority: &authority{},
		publicURL: options.PublicURL,
		closing:   closing,
		close:     closeServer,
		mux:       http.NewServeMux(),
	}
	server.openOutboxes(options)
	server.simulations = []simulation{
		newStripeAPI(server, options.StripeKey), newAdyenAPI(server, options), newPayPalAPI(server, options),
	}
	for _, each := range server.simulations {
		each.routes(server.mux)
	}
	server.controlRoutes(server.mux)
	return server
}

// Validate says why the options cannot be used as they are.
func (o Options) Validate() error {
	var all error
	for provider, target := range o.Webhooks {
		all = errors.Join(all, target.validate(provider, o.WebhooksAnywhere))
	}
	return all
}

func (s *Server) openOutboxes(options Options) {
	client := newWebhookClient(options.WebhooksAnywhere)
	s.outboxes = make(map[string]*outbox, len(knownProviders))
	for _, provider := range knownProviders {
		s.outboxes[provider] = newOutbox(s, provider, options.Seed, client)
	}
	for provider, target := range options.Webhooks {
		if err := s.SetWebhookTarget(provider, target); err != nil {
			s.log.Error("webhook target not used", "provider", provider, "error", err)
		}
	}
}

// Handler is the server itself.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP answers providers' API calls and control calls.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	here := s.baseURL(r)
	if last := s.origin.Load(); last == nil || *last != here {
		s.origin.Store(&here)
	}
	s.mux.ServeHTTP(w, r)
}

// home is where this server was last found, for what is sent without a request.
func (s *Server) home() string {
	if last := s.origin.Load(); last != nil {
		return strings.TrimSuffix(*last, "/")
	}
	return strings.TrimSuffix(s.publicURL, "/")
}

// settleDue lets happen at every provider what time brings.
func (s *Server) settleDue() {
	for _, each := range s.simulations {
		each.settleDue()
	}
}

// settleLater calls settleDue when payments that are slow now will be due.
func (s *Server) settleLater(settle func()) {
	_, settleAfter := s.settings.delays()
	if settleAfter <= 0 {
		return
	}
	time.AfterFunc(settleAfter, func() {
		if s.closing.Err() == nil {
			settle()
		}
	})
}

// Close lets go of every request that a fault keeps waiting, so that an http.Server around it can shut down.
func (s *Server) Close() { s.close() }

// Ledger is every payment that was ever attempted, oldest first.
func (s *Server) Ledger() []Charge {
	charges := []Charge{}
	for _, each := range s.simulations {
		charges = append(charges, each.charges()...)
	}
	return charges
}

// AddFault activates a fault after those already active; the first that fits a call is the one that happens.
func (s *Server) AddFault(fault Fault) error {
	_, err := s.faults.add(fault)
	return err
}

// ClearFaults ends all faults.
func (s *Server) ClearFaults() { s.faults.clear() }

// Faults is what is active and how often each has fired.
func (s *Server) Faults() []ActiveFault { return s.faults.list() }

// AdvanceClock moves the sandbox's clock forward.
func (s *Server) AdvanceClock(by time.Duration) {
	s.clock.advance(by)
	s.settleDue()
}

// Reset empties the ledger, the key memory, the request log and the counters, and ends all faults.
func (s *Server) Reset() {
	s.faults.clear()
	s.calls.reset()
	s.journal.reset()
	for _, each := range s.outboxes {
		each.reset()
	}
	for _, each := range s.simulations {
		each.reset()
	}
}

// baseURL is where a browser finds this server.
func (s *Server) baseURL(r *http.Request) string {
	if s.publicURL != "" {
		return s.publicURL
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// clock is a clock that can be moved forward.
type clock struct {
	base   func() time.Time
	offset atomic.Int64 // nanoseconds
}

func (c *clock) now() time.Time { return c.base().Add(time.Duration(c.offset.Load())) }

func (c *clock) advance(by time.Duration) { c.offset.Add(int64(by)) }

// settings are the delays that can be changed while the server runs.
type settings struct {
	mu          sync.Mutex
	searchDelay time.Duration
	settleAfter time.Duration
}

func newSettings(searchDelay, settleAfter time.Duration) *settings {
	return &settings{searchDelay: searchDelay, settleAfter: settleAfter}
}

func (s *settings) delays() (search, settle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.searchDelay, s.settleAfter
}

func (s *settings) set(search, settle *time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if search != nil {
		s.searchDelay = *search
	}
	if settle != nil {
		s.settleAfter = *settle
	}
}

// answer is one complete HTTP answer, kept apart from the wire so that it can be saved under a key, replayed or lost.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

func (a answer) with(name, value string) answer {
	header := make(map[string]string, len(a.header)+1)
	maps.Copy(header, a.header)
	header[name] = value
	a.header = header
	return a
}

func jsonAnswer(status int, value any) answer {
	body, err := json.Marshal(value)
	if err != nil { // only our own plain types come here; an error is a defect of the sandbox and must be loud
		return answer{status: http.StatusInternalServerError, body: []byte(`{"error":{"type":"api_error","message":"encode answer"}}`)}
	}
	return answer{status: status, body: body}
}

func (a answer) writeTo(w http.ResponseWriter) error {
	header := w.Header()
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	for name, value := range a.header {
		header.Set(name, value)
	}
	w.WriteHeader(a.status)
	_, err := w.Write(a.body)
	return err //nolint:wrapcheck // the caller only logs it
}
