package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"paysaga/providers"
)

// Errors of a runner.
var (
	// ErrUnknownProvider: no provider of that name is configured.
	ErrUnknownProvider = errors.New("provider is not configured")
	// ErrOverloaded: as many sagas are being driven as this process may drive, or the provider is failing. Come back.
	ErrOverloaded = errors.New("overloaded")
	// ErrDraining: the process is about to stop. Ask another one, which also goes on with what was begun here.
	ErrDraining = errors.New("draining")
	// ErrInReview: the saga waits for a person, and takes nothing before that.
	ErrInReview = errors.New("saga is in review")
)

// Config sets up a Runner. Zero values of the limits are refused.
type Config struct {
	Store       Store
	Providers   map[string]Provider
	Answerer    Answerer
	Policy      Policy // its windows are those of each saga's provider
	Lease       time.Duration
	CallTimeout time.Duration
	MaxInFlight int // sagas driven at once; more requests are turned away
	Logger      *slog.Logger
	// Jitter draws a pause from zero up to, but not, the given longest one, which is above zero. Nil: by chance. It must be safe for
	// concurrent use.
	Jitter func(longest time.Duration) time.Duration
}

// Runner drives sagas: it holds the lease, makes the provider calls with no transaction open, and writes each change.
type Runner struct {
	Config

	slots  chan struct{}   // of requests
	base   context.Context //nolint:containedctx // the runner's own life: it ends when calls must be cut off
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards draining against the group's last Wait
	drain  bool
	group  sync.WaitGroup
}

// NewRunner checks the configuration.
func NewRunner(c Config) (*Runner, error) {
	if c.Jitter == nil {
		c.Jitter = rand.N[time.Duration] // a pause is no secret
	}
	if len(c.Policy.Steps) == 0 {
		c.Policy.Steps = DefaultDefinition()
	}
	c.Policy.Steps = slices.Clone(c.Policy.Steps)
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Store = boundedStore{c.Store, max(c.Lease, storeTimeout)}
	r := &Runner{Config: c, slots: make(chan struct{}, c.MaxInFlight)}
	r.base, r.cancel = context.WithCancelCause(context.Background())
	return r, nil
}

func (c *Config) check() error {
	if c.Store == nil || c.Answerer == nil || c.Logger == nil {
		return errors.New("a runner needs a store, an answerer and a logger")
	}
	if c.Lease <= 0 || c.CallTimeout <= 0 || c.MaxInFlight <= 0 || c.Policy.MaxFailures <= 0 || c.Policy.MaxUnrecorded <= 0 ||
		c.Policy.MaxCharges <= 0 {
		return errors.New("a runner needs a lease, a call timeout and limits above zero")
	}
	if err := c.Policy.Steps.check(); err != nil {
		return fmt.Errorf("the definition of an order: %w", err)
	}
	return nil
}

// Start takes a new order on and drives its saga as far as it goes now. The answer is stored under the claim's key. A
// caller that goes away does not stop the saga.
//
// Errors, all of which wrote nothing: ErrUnknownProvider, *providers.RequestError, *UnknownSKUError, ErrKeyTaken (look
// the key up), ErrOverloaded. After ErrLeaseLost, or ErrAnswered, somebody else answers: look the key up. Any other error,
// ErrDraining among them, can leave a saga to the recovery worker; the same request may be sent again.
func (r *Runner) Start(ctx context.Context, claim Claim, order Order) (Answer, error) {
	provider, ok := r.Providers[order.Payment.Provider]
	if !ok {
		return Answer{}, ErrUnknownProvider
	}
	if err := provider.Check(firstCharge(claim, order)); err != nil {
		return Answer{}, fmt.Errorf("check payment: %w", err)
	}
	if p, ok := provider.(Interruptible); ok && p.Open() {
		return Answer{}, ErrOverloaded
	}
	return r.detached(ctx, r.slots, func(ctx context.Context) (Answer, error) {
		return r.begin(ctx, claim, order)
	})
}

// TakeOver goes on with a saga whose lease has run out, for a client that repeats its request. Errors as for Start, and
// ErrAnswered (look the key up).
func (r *Runner) TakeOver(ctx context.Context, ref Ref, fence int64) (Answer, error) {
	return r.detached(ctx, r.slots, func(ctx context.Context) (Answer, error) {
		s, err := r.Store.TakeOver(ctx, ref, fence, r.Lease)
		if err != nil {
			return Answer{}, fmt.Errorf("take saga over: %w", err)
		}
		if s.Pending == "" { // its holder was slow, not dead, and has answered: there is an answer to look up
			return Answer{}, errors.Join(ErrAnswered, r.Store.HandBack(ctx, ref, s.Lease.Fence))
		}
		return r.drive(ctx, s, inRequest)
	})
}

// Drain stops taking sagas on and waits for those that are being driven. When ctx ends first, the calls that are out are
// cut off and their leases handed back, so that another process can go on at once.
func (r *Runner) Drain(ctx context.Context) {
	r.mu.Lock()
	r.drain = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	r.cancel(ErrDraining)
	<-done
}

// enter counts work in, unless the runner drains or the slots are full. Work without slots is bounded by its caller.
func (r *Runner) enter(slots chan struct{}) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drain {
		return ErrDraining
	}
	if slots != nil {
		select {
		case slots <- struct{}{}:
		default:
			return ErrOverloaded
		}
	}
	r.group.Add(1)
	return nil
}

func (r *Runner) leave(slots chan struct{}) {
	if slots != nil {
		<-slots
	}
	r.group.Done()
}

// detached runs work that outlives its caller, but not the runner.
func (r *Runner) detached(caller context.Context, slots chan struct{}, work func(context.Context) (Answer, error)) (Answer, error) {
	if err := r.enter(slots); err != nil {
		return Answer{}, err
	}
	type result struct {
		answer Answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		defer r.leave(slots)
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
		defer cancel(context.Canceled)
		stop := context.AfterFunc(r.base, func() { cancel(context.Cause(r.base)) })
		defer stop()
		answer, err := r.guarded(ctx, work)
		if err != nil && caller.Err() != nil {
			r.Logger.ErrorContext(ctx, "saga left to recovery", "error", err)
		}
		done <- result{answer, err}
	}()
	select {
	case got := <-done:
		return got.answer, got.err
	case <-caller.Done():
		return Answer{}, fmt.Errorf("caller went away: %w", caller.Err())
	}
}

// guarded turns a panic into an error: one broken saga must not take the others' process down. Its lease runs out and the
// recovery worker meets it again.
func (r *Runner) guarded(ctx context.Context, work func(context.Context) (Answer, error)) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.Logger.ErrorContext(ctx, "saga panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("saga panicked")
		}
	}()
	return work(ctx)
}

// firstCharge is the call that an order's first attempt will make.
func firstCharge(claim Claim, order Order) providers.ChargeRequest {
	s := Saga{Key: Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation), Order: order}
	s.Order.ID = s.Key
	return s.chargeRequest(Step{SubKey: SubKey(s.Key, StepCharge, 1)})
}

// begin is the first transaction, and the rest of the way.
func (r *Runner) begin(ctx context.Context, claim Claim, order Order) (Answer, error) {
	s := Saga{
		Kind: KindOrder, Pending: claim.Endpoint,
		AccountID: claim.AccountID, Key: Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation),
		Generation: claim.Generation, State: Started, Order: order,
	}
	s.Order.ID = s.Key
	change, err := Advance(s, Event{Kind: Resume}, r.policy(s))
	if err != nil {
		return Answer{}, err
	}
	begun, err := r.Store.Begin(ctx, claim, change, r.Lease)
	if short, ok := errors.AsType[*OutOfStockError](err); ok {
		return r.beginRefused(ctx, claim, s, short)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("begin saga: %w", err)
	}
	return r.drive(ctx, begun, inRequest)
}

// beginRefused writes down, in one transaction, an order that had no stock: its saga is over as it begins.
func (r *Runner) beginRefused(ctx context.Context, claim Claim, s Saga, short *OutOfStockError) (Answer, error) {
	change, err := Advance(s, outOfStock(short), r.policy(s))
	if err != nil {
		return Answer{}, err
	}
	if err := r.finish(&change, s); err != nil {
		return Answer{}, err
	}
	if _, err := r.Store.Begin(ctx, claim, change, r.Lease); err != nil {
		return Answer{}, fmt.Errorf("begin refused saga: %w", err)
	}
	return *change.Answer, nil
}

func outOfStock(short *OutOfStockError) Event {
	return Event{Kind: OutOfStock, Detail: fmt.Sprintf("%s: %d wanted, %d available.", short.SKU, short.Wanted, short.Available)}
}

// errNothingLearned tells that news of an ended saga could not be looked into. Whoever brought them brings them again.
var errNothingLearned = errors.New("the provider could not be asked")

// maxTurns bounds one drive. The longest way there is, an approval that is continued, declined, closed and undone, takes seven; steps of a
// deployment's own, each done and undone, twelve more.
const maxTurns = 24

// drive takes a saga as far as it goes now: to its end, or to a pause in which its lease is free.
func (r *Runner) drive(ctx context.Context, s Saga, p patience) (Answer, error) {
	return r.driveFrom(ctx, s, p, heard{})
}

// driveFrom begins the drive with what was heard of the provider.
func (r *Runner) driveFrom(ctx context.Context, s Saga, p patience, first heard) (Answer, error) {
	for range maxTurns {
		change, next, err := r.turn(ctx, s, p, first)
		first = heard{}
		if err != nil {
			return Answer{}, err
		}
		if change.Release {
			r.Logger.InfoContext(ctx, "saga rests", "order_id", s.Order.ID, "state", next.State, "order", next.Order.Status)
			if s.State == Completed && next.Failures > 0 { // it has no next turn in which the same could be asked again
				return Answer{}, errNothingLearned
			}
			if change.Answer == nil {
				return Answer{}, nil
			}
			return *change.Answer, nil
		}
		s = next
	}
	return Answer{}, fmt.Errorf("saga of order %s did not come to rest in %d turns", s.Order.ID, maxTurns)
}

// turn is one step of a drive: the provider call that is due, if any, and the transaction that writes what came of it. What was
// heard of the provider comes first.
func (r *Runner) turn(ctx context.Context, s Saga, p patience, first heard) (Change, Saga, error) {
	policy := r.policy(s)
	if s.Unrecorded > policy.MaxUnrecorded {
		return r.write(ctx, s, Event{Kind: Abandoned}, policy)
	}
	event, call := Event{Kind: Resume}, Next(s, policy.Windows)
	if !first.nothing() {
		call = first.call
	}
	if first.event != nil {
		event = *first.event
	}
	if call != CallNone {
		begun := time.Now()
		event = r.call(ctx, s, call, p)
		s.ReadAt = s.ReadAt.Add(time.Since(begun)).Truncate(time.Microsecond) // as fine as the database keeps time
	}
	if ctx.Err() != nil {
		return Change{}, s, r.handBack(ctx, s, context.Cause(ctx))
	}
	change, next, err := r.write(ctx, s, event, policy)
	var short *OutOfStockError
	switch {
	case errors.Is(err, ErrReservationLost):
		event.Kind = ReservationLost
		return r.write(ctx, s, event, policy)
	case errors.As(err, &short):
		return r.write(ctx, s, outOfStock(short), policy)
	}
	return change, next, err
}

func (r *Runner) write(ctx context.Context, s Saga, e Event, policy Policy) (Change, Saga, error) {
	change, err := Advance(s, e, policy)
	if err != nil {
		return Change{}, s, fmt.Errorf("order %s: %w", s.Order.ID, err)
	}
	if err := r.finish(&change, s); err != nil {
		return Change{}, s, err
	}
	next, err := r.Store.Apply(ctx, change)
	if err != nil {
		return Change{}, s, fmt.Errorf("write change of order %s: %w", s.Order.ID, err)
	}
	return change, next, nil
}

// finish completes a change with what is not pure: the drawn pause, whether the drive rests here, and the answer.
func (r *Runner) finish(change *Change, before Saga) error {
	after := change.After.Order
	if after.Status != before.Order.Status || after.Payment.Status != before.Order.Payment.Status ||
		after.Payment.ProviderReference != before.Order.Payment.ProviderReference ||
		after.Payment.CapturedAmount != before.Order.Payment.CapturedAmount {
		change.After.Order.UpdatedAt = before.ReadAt
	}
	if change.Jitter {
		change.Pause = 1 + r.Jitter(change.Pause) // zero would mean "go on"
	}
	change.Lease = r.Lease
	change.Release = change.Pause > 0 || change.After.State.Ended()
	if !change.Release || before.Pending == "" {
		return nil
	}
	answer, err := r.Answerer.Answer(change.After)
	if err != nil {
		return fmt.Errorf("answer order %s: %w", before.Order.ID, err)
	}
	change.Answer = &answer
	return nil
}

// handBack gives the lease up after the runner was told to stop. The outcome of a call that was cut off is not written:
// whoever takes the lease next makes the same call again.
func (r *Runner) handBack(ctx context.Context, s Saga, cause error) error {
	const within = 2 * time.Second // the process is about to end; a lease that is not handed back runs out by itself
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	err := r.Store.HandBack(fresh, Ref{s.AccountID, s.Key}, s.Lease.Fence)
	return errors.Join(fmt.Errorf("stopped while driving order %s: %w", s.Order.ID, cause), err)
}

func (r *Runner) policy(s Saga) Policy {
	policy := r.Policy
	if provider, ok := r.Providers[s.provider()]; ok {
		policy.Windows = provider.Windows()
	}
	return policy
}

// unconfigured is the outcome for a saga whose provider was taken out of the configuration.
var unconfigured = providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotSent}
