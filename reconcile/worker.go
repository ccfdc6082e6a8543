package reconcile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

// Config sets up a Worker.
type Config struct {
	Store   Store
	Sources map[string]Source // by provider; those without a list are left out
	// Announcing are the providers that cannot be listed, and are known by what they announce.
	Announcing []string
	Repairs    Repairer
	Rules      Rules
	Policy     Policy
	Account    string        // whose operators see what belongs to no account; may be empty
	Lookback   time.Duration // how far back a first run goes
	Overlap    time.Duration // how much of what was listed before is listed once more, as payments change
	Lease      time.Duration
	Meter      Meter // may be nil
	Logger     *slog.Logger
}

// Meter hears how runs went and what is open. Its methods must not block.
type Meter interface {
	RunEnded(run Run, took time.Duration)
	RepairEnded(repair Repair, mended bool)
}

type noMeter struct{}

func (noMeter) RunEnded(Run, time.Duration) {}
func (noMeter) RepairEnded(Repair, bool)    {}

// Worker reconciles.
type Worker struct{ Config }

// New checks the configuration.
func New(c Config) (*Worker, error) {
	rules := c.Rules.PerFinding != nil && c.Rules.PerRun != nil && c.Rules.PerDuplicate != nil
	if c.Store == nil || c.Repairs == nil || c.Logger == nil || !rules || c.Lookback <= 0 || c.Overlap < 0 || c.Lease <= 0 {
		return nil, errors.New("reconciliation needs a store, repairs, a logger, limits, a lookback, an overlap and a lease")
	}
	if c.Meter == nil {
		c.Meter = noMeter{}
	}
	return &Worker{c}, nil
}

// Request is what a run is to do.
type Request struct {
	ID        uuid.UUID // of a run that an operator asked for; zero else
	Mode      Mode
	Providers []string  // empty: all
	Since     time.Time // zero: from where earlier runs have come, less the overlap
	Until     time.Time // zero: as far as the providers' lists are complete
	Statement *File     // to be read instead of the providers' lists
	// RequestedBy tells the audit log who wanted it.
	RequestedBy string
}

// File is a settlement file. It is read twice: whether it was read before is known by its whole content.
type File struct {
	Name    string
	Content io.ReadSeeker
	Options statement.Options

	kept KeptStatement // how it was kept when the run began
}

// Result is what a run came to.
type Result struct {
	Run       Run
	Plan      Plan              // of mode plan what would be done, of apply what was to be done
	Statement *statement.Report // of a settlement file
	Open      []Open            // the first of the findings that the plan is about, for people
}

// mostShown bounds Result.Open: who wants all of them asks for the findings.
const mostShown = 100

const (
	// pairBatch is how many payments are compared at a time: they are some hundred kilobytes, and their findings one transaction.
	pairBatch = 500
	// repairBatch is how many findings are read at a time.
	repairBatch = 100
)

// Once does one run, tells progress after each batch, and gives what it came to, also where it failed on the way. A run that an earlier
// process left goes on where that stood.
//
// Errors: ErrBusy, ErrLeaseLost, ErrReadBefore, *ExceedsError; *UnlistedError, after all that could be listed was looked at.
func (w *Worker) Once(ctx context.Context, request Request, progress func(Run)) (Result, error) {
	began := time.Now()
	run, err := w.begin(ctx, request)
	if err != nil {
		return Result{}, err
	}
	o := &once{Worker: w, run: run, request: request, progress: progress}
	err = o.leased(ctx, o.stages)
	o.end(ctx, err)
	w.Meter.RunEnded(o.run, time.Since(began))
	o.result.Run = o.run
	return o.result, err
}

// once is the working state of one run.
type once struct {
	*Worker

	run      Run
	request  Request
	progress func(Run)
	result   Result
	now      time.Time // when it began, by the database's clock
}

func (w *Worker) begin(ctx context.Context, request Request) (Run, error) {
	run := Run{
		ID: request.ID, Mode: request.Mode, Providers: request.Providers, Since: request.Since, Until: request.Until,
		RequestedBy: request.RequestedBy, State: RunRunning, Stage: StageList,
	}
	if len(run.Providers) == 0 {
		run.Providers = w.providers()
	}
	if request.Statement != nil {
		return w.beginStatement(ctx, run, request.Statement)
	}
	return w.Store.BeginRun(ctx, run, w.Lease)
}

// leased does work while the run's lease is renewed beside it. Where the lease is lost, the work's context ends.
func (o *once) leased(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := o.run // the run itself changes with the work
	var renewing sync.WaitGroup
	renewing.Go(func() {
		const renewals = 3 // tries in the time of one lease
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(o.Lease / renewals):
			}
			if err := o.Store.RenewRun(ctx, held, o.Lease); errors.Is(err, ErrLeaseLost) {
				cancel(ErrLeaseLost)
				return
			}
		}
	})
	err := work(ctx)
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		err = ErrLeaseLost
	}
	cancel(nil)
	renewing.Wait()
	return err
}

// providers are all that there are, in the order of the alphabet.
func (w *Worker) providers() []string {
	all := slices.Clone(w.Announcing)
	for provider := range w.Sources {
		all = append(all, provider)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stages does what is left of a run.
func (o *once) stages(ctx context.Context) error {
	var err error
	if o.now, err = o.Store.Now(ctx); err != nil {
		return err
	}
	if err = o.openKept(ctx); err != nil {
		return err
	}
	for {
		switch o.run.Stage {
		case StageList:
			err = o.read(ctx)
		case StageMatch:
			err = o.match(ctx)
		case StageUnclaimed:
			err = o.unclaimed(ctx)
		case StageRepair:
			err = o.repair(ctx)
		default:
			return o.asListed()
		}
		if err != nil {
			return err
		}
	}
}

// notListed notes that a provider could not be listed, in the run, so that another process which goes on with it knows.
func (o *once) notListed(provider string, why *providers.ListError) {
	o.because(provider + ": " + why.Error())
}

// because adds to why the run does not end well.
func (o *once) because(why string) {
	if o.run.Reason != "" {
		o.run.Reason += "; "
	}
	o.run.Reason += why
}

// asListed is the error of a run that did all but list each provider.
func (o *once) asListed() error {
	if o.run.Reason != "" {
		return &UnlistedError{o.run.Reason}
	}
	return nil
}

// next notes that a stage is over.
func (o *once) next(ctx context.Context, stage Stage) error {
	o.run.Stage, o.run.Cursor = stage, ""
	return o.save(ctx)
}

func (o *once) save(ctx context.Context) error {
	if err := o.Store.SaveRun(ctx, o.run, o.Lease); err != nil {
		return err
	}
	o.progress(o.run)
	return nil
}

// handBackTimeout is for one short write.
const handBackTimeout = 5 * time.Second

// end writes how a run ended, and the day's summary. One that was ended from outside is left as it stands, for the next one to go on with.
func (o *once) end(ctx context.Context, err error) {
	_, exceeds := errors.AsType[*ExceedsError](err)
	switch {
	case errors.Is(err, ErrLeaseLost):
		return
	case ctx.Err() != nil:
		o.Logger.WarnContext(ctx, "reconciliation ended on the way; the next run goes on", "run_id", o.run.ID, "stage", o.run.Stage)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTimeout)
		defer cancel()
		if err := o.Store.RenewRun(ctx, o.run, 0); err != nil { // else it runs out
			o.Logger.WarnContext(ctx, "the lease of a reconciliation was not given back", "run_id", o.run.ID, "error", err)
		}
		return
	case err == nil:
		o.run.State = RunDone
	case exceeds:
		o.run.State = RunStopped
		o.because(reasonOf(err))
	default:
		o.run.State, o.run.Reason = RunFailed, reasonOf(err)
	}
	for _, sentence := range o.behindSentences() {
		o.because(sentence)
	}
	o.run.Stage = StageEnd
	if err := o.Store.SaveRun(ctx, o.run, o.Lease); err != nil {
		o.Logger.ErrorContext(ctx, "the end of a reconciliation was not written", "run_id", o.run.ID, "error", err)
	}
	if _, err := o.Store.PutSummary(ctx); err != nil { // the next run of the day writes it
		o.Logger.ErrorContext(ctx, "the day's summary was not written", "error", err)
	}
	o.progress(o.run)
}

// reasonOf is why a run ended otherwise than well, as operators are told: nothing of what other layers say beyond their codes.
func reasonOf(err error) string {
	if exceeds, ok := errors.AsType[*ExceedsError](err); ok {
		return exceeds.Error()
	}
	if unlisted, ok := errors.AsType[*UnlistedError](err); ok {
		return unlisted.Error()
	}
	return "It failed on the way; the log of its process says at what."
}

// scope is what the run is about.
func (o *once) scope() Scope {
	since := o.run.Since
	if since.IsZero() {
		since = o.beginsAt()
	}
	until := o.run.Until
	if until.IsZero() {
		until = o.now
	}
	return Scope{
		Run: o.run.ID, Providers: o.run.Providers, Since: since, Until: until,
		StuckSince: o.now.Add(-o.Policy.Stuck), EventSince: o.now.Add(-o.Policy.EventWait),
	}
}

// view is what is known at a time beside each payment.
func (o *once) view(ctx context.Context, now time.Time) (View, error) {
	view := View{Coverage: make(map[string][]Coverage), Announcing: o.Announcing, Now: now, Policy: o.Policy}
	for provider := range o.Sources {
		coverage, err := o.Store.Coverage(ctx, provider)
		if err != nil {
			return View{}, err
		}
		view.Coverage[provider] = coverage
	}
	return view, nil
}

// match compares our payments with what was read.
func (o *once) match(ctx context.Context) error {
	view, err := o.view(ctx, o.now)
	if err != nil {
		return err
	}
	for {
		after, err := placeOf(o.run.Cursor)
		if err != nil {
			return err
		}
		pairs, err := o.Store.NextPairs(ctx, o.scope(), after, pairBatch)
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			return o.next(ctx, StageUnclaimed)
		}
		var judged Judged
		for _, pair := range pairs {
			after = Place{AccountID: pair.Payment.AccountID, OrderID: pair.Payment.OrderID}
			judgement := Match(pair, view)
			judged.Sagas = append(judged.Sagas, judgement.Judged...)
			judged.Found = append(judged.Found, judgement.Found...)
		}
		o.run.Totals.Payments += int64(len(pairs))
		o.run.Cursor = after.String()
		if err := o.keep(ctx, judged); err != nil {
			return err
		}
	}
}

// keep writes what a batch came to, and how far the run is.
func (o *once) keep(ctx context.Context, judged Judged) error {
	counts, err := o.Store.PutFindings(ctx, o.run, judged)
	if err != nil {
		return err
	}
	o.run.Totals.Opened += counts.Opened
	o.run.Totals.SeenAgain += counts.SeenAgain
	o.run.Totals.Healed += counts.Healed
	return o.save(ctx)
}

// ExceedsError tells that a run would have moved more money than it may, and so repaired nothing.
type ExceedsError struct{ Exceeded []Exceeded }

func (e *ExceedsError) Error() string {
	sentences := make([]string, len(e.Exceeded))
	for i, exceeded := range e.Exceeded {
		sentences[i] = exceeded.Sentence()
	}
	return "the limit of money for a run: " + strings.Join(sentences, "; ")
}

// UnlistedError tells which providers could not be listed, and why.
type UnlistedError struct{ sentences string }

func (e *UnlistedError) Error() string { return e.sentences }
