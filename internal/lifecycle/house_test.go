package lifecycle_test

import (
	"flag"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// fewerChecks is how many schedules are drawn by default for each provider. Rapid's own default of 100 takes minutes here; a search
// for rare ones sets -rapid.checks.
const fewerChecks = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		if err := flag.Set("rapid.checks", fewerChecks); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

// house is a stage whose servers are searched for secrets at the end, in all that they log, count and trace.
type house struct{ *stage.Stage }

// newHouse opens one on a database of its own.
func newHouse(t *testing.T, options sandbox.Options) house {
	t.Helper()
	book := hygiene.New(t)
	logger := book.Logger()
	if os.Getenv("LIFECYCLE_LOG") != "" { // what the servers do, for whoever looks into a failure
		logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h := house{stage.New(t, stage.Options{
		DatabaseURL: pgtest.URL(t), Sandbox: options, Logger: logger, Tracers: book.Tracers(), Book: book,
	})}
	t.Cleanup(func() {
		book.Scrape(h.Watch.Handler())
		pgtest.NameKeys(book, h.Pool)
	})
	return h
}

// fresh is the same house with its stock, and without orders, payments and mail.
func (h house) fresh(t stage.Reporter) house {
	t.Helper()
	return house{h.Fresh(t)}
}

// flow is one order's way.
type flow struct{ *stage.Flow }

func (h house) newFlow(order saga.Order) *flow { return &flow{h.NewFlow(order)} }

// want fails the test unless a reply is as said: a status, or a problem's type.
func (f *flow) want(got stage.Reply, want any) {
	f.Helper()
	if want != any(got.Status) && want != any(got.Problem) {
		f.Errorf("answered %s, want %v", got, want)
	}
}

// A webhook that was signed before time passed is in the mail with the time at which it was sent, however late it comes in.
func TestWebhooksAreSentBeforeTimePasses(t *testing.T) {
	t.Parallel()
	h := newHouse(t, sandbox.Options{})
	const tries = 20 // on a busy machine every third is overtaken, if nothing is done about it
	for range tries {
		f := h.fresh(t).newFlow(stage.TwoCups(stage.PayPal, stage.Pays))
		f.want(f.Place(), http.StatusCreated)
		f.Pass(time.Hour)
		for _, one := range f.Letters() {
			signed, err := time.Parse(time.RFC3339, one.Header.Get("Paypal-Transmission-Time"))
			f.Must(err)
			sent, err := time.Parse(time.RFC3339Nano, one.Header.Get(stage.SentHeader))
			f.Must(err)
			if late := sent.Sub(signed); late > time.Hour/2 {
				t.Fatalf("a webhook was on its way for %s", late)
			}
		}
	}
}

// checkEnd is CheckEnd of an order that the rules bring to its end: no person is needed.
func (f *flow) checkEnd() {
	f.Helper()
	if f.Begun() {
		for _, s := range append(f.RefundsOf(f.First.ID), f.Saga()) {
			if s.State == saga.NeedsReview {
				f.Errorf("%s %s is in review", s.Kind, s.Key)
			}
		}
	}
	f.CheckEnd()
}
