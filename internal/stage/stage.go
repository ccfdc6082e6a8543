package stage

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"paysaga/internal/httpapi"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/telemetry"
	"paysaga/internal/webhook"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// Account is the shop whose payments are played.
const Account = "stage"

const (
	// callTimeout is for calls that hang; none does here.
	callTimeout = 20 * time.Second
	lease       = 30 * time.Second
)

// Options set a stage up.
type Options struct {
	// DatabaseURL names a migrated database, which is the stage's alone: what is in it is deleted.
	DatabaseURL string
	// Sandbox sets the providers up; clock, logger, addresses, merchant and webhooks are the stage's.
	Sandbox sandbox.Options
	Logger  *slog.Logger         // of the servers; nil: they log nothing
	Tracers trace.TracerProvider // of the servers; nil: none
	Book    Book                 // nil: none
}

// Stage is the world outside the servers: the database, the providers' sandbox, and the mail that the sandbox sends.
type Stage struct {
	Reporter

	Pool    *pgxpool.Pool
	Sandbox *sandbox.Server
	// Adapters are the providers, by name; Endpoints what reads their webhooks.
	Adapters  map[string]saga.Provider
	Endpoints map[string]webhook.Endpoint
	URL       string // of the sandbox
	Watch     *telemetry.Telemetry

	ring    *seal.Ring
	client  *http.Client
	mail    *mail
	front   *front
	book    Book
	logger  *slog.Logger
	clock   *clock
	tamper  *tamper
	history *history
	witness *witness
	steady  *atomic.Bool     // pauses are not drawn, but as long as they may be; those for which a request waits are none
	stock   map[string]int64 // what was put there, by SKU
	audited int64            // the last line of the audit log, which nobody empties, of before this play
}

// clock is how far the time of the stage is ahead of the machine's.
type clock struct{ ahead, database atomic.Int64 }

// New opens a stage. It is closed by the reporter's clean-up.
func New(r Reporter, options Options) *Stage {
	r.Helper()
	s := &Stage{
		Reporter: r, book: options.Book, logger: options.Logger, clock: &clock{}, tamper: &tamper{}, history: &history{}, witness: &witness{},
		steady: &atomic.Bool{},
	}
	if s.book == nil {
		s.book = noBook{}
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.mail = newMail(r, s.Now)
	var err error
	s.Watch, err = telemetry.New(telemetry.Config{Endpoints: httpapi.Endpoints(), Tracers: options.Tracers})
	s.Must(err)
	s.Pool = openDatabase(r, options.DatabaseURL)
	s.ring, err = seal.NewRing(seal.GenerateKey("stage"))
	s.Must(err)
	s.openSandbox(options.Sandbox)
	s.newAdapters(options.Sandbox.AdyenSeveralCaptures)
	s.Exec(`INSERT INTO accounts (id) VALUES ($1) ON CONFLICT DO NOTHING`, Account)
	s.openFront()
	return s.Fresh(r)
}

func (s *Stage) openSandbox(options sandbox.Options) {
	s.Helper()
	options.Now = s.Now
	options.Logger = slog.New(slog.DiscardHandler)
	options.AdyenMerchant, options.Webhooks = Merchant, s.mail.targets()
	server := httptest.NewUnstartedServer(nil)
	s.URL = "http://" + server.Listener.Addr().String()
	options.PublicURL = s.URL // also for what is done without a connection
	s.Sandbox = sandbox.New(options)
	server.Config.Handler = s.Sandbox
	server.Start()
	s.Cleanup(func() { s.Sandbox.Close(); server.Close() })
	s.client = server.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

// Fresh is the same stage with its stock, and without orders, payments and mail, for another reporter.
func (s *Stage) Fresh(r Reporter) *Stage {
	r.Helper()
	next := *s
	next.Reporter = r
	next.Sandbox.FlushWebhooks(next.Context()) // what is on its way comes in before the mail is emptied
	next.Sandbox.Reset()
	next.clock.ahead.Store(0)
	next.clock.database.Store(0)
	next.tamper.clear()
	next.mail.empty()
	next.history.clear()
	next.witness.clear()
	next.setDatabaseClock()
	next.stock = map[string]int64{Cup: CupsOnHand}
	next.Clear()
	next.audited = next.Count(`SELECT coalesce(max(id), 0) FROM audit_log`)
	return &next
}

// PutStock replaces the stock.
func (s *Stage) PutStock(onHand map[string]int64) {
	s.Helper()
	s.stock = onHand
	s.Exec(`DELETE FROM stock`)
	s.fillStock()
}

// Must ends the play if there is an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// Now is the time on the stage.
func (s *Stage) Now() time.Time { return time.Now().Add(time.Duration(s.clock.ahead.Load())) }

// Pass lets time go by, in the database and at the providers.
func (s *Stage) Pass(by time.Duration) {
	s.Helper()
	s.PassAtProviders(by)
	s.clock.database.Store(s.clock.ahead.Load())
	s.setDatabaseClock()
}

// PassAtProviders lets time go by that the database does not know of. What the providers had sent before is in the mail by then: a
// webhook that was signed before and came in after would be taken for one that was on its way for so long.
func (s *Stage) PassAtProviders(by time.Duration) {
	s.Helper()
	s.Sandbox.FlushWebhooks(s.Context())
	s.clock.ahead.Add(int64(by))
	s.Sandbox.AdvanceClock(0)
}

// Order reads one with its saga.
func (s *Stage) Order(id uuid.UUID) saga.Saga {
	s.Helper()
	order, err := s.Store().GetOrder(s.Context(), Account, id)
	s.Must(err)
	return order
}

// RefundsOf reads the sagas of an order's refunds.
func (s *Stage) RefundsOf(id uuid.UUID) []saga.Saga {
	s.Helper()
	refunds, err := s.Store().ListRefunds(s.Context(), Account, id)
	s.Must(err)
	return refunds
}

// Store is the database as it is, whoever has died.
func (s *Stage) Store() *postgres.Store { return postgres.New(s.Pool, s.ring) }
