package idempotency_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// slow is a handler of which the first call waits, and does its own write then; later ones do it at once. Each answers with what it has set.
func (d *desk) slow(waits func(ctx context.Context)) (arrived chan struct{}) {
	arrived = make(chan struct{})
	calls := 0
	d.behave(func(w http.ResponseWriter, r *http.Request) {
		d.mutex.Lock()
		calls++
		call := calls
		d.mutex.Unlock()
		if call == 1 {
			close(arrived)
			waits(r.Context())
		}
		_, err := d.store.PutStock(context.WithoutCancel(r.Context()), account, "cup", int64(call), idempotency.HeldBy(r.Context()), nil)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strconv.Itoa(call)+" "+strconv.FormatBool(errors.Is(err, saga.ErrLeaseLost)))
	})
	return arrived
}

// I9: a holder whose lease ran out, and was taken over, cannot write; and its client gets the answer of the newer one.
func TestOvertakenHandler(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	first := d.sending(t, theKey)
	receive(t, arrived)
	d.exec(t, `UPDATE idempotency_keys SET locked_until = now()`)
	second := d.send(t, theKey, "a thing")
	second.want(t, http.StatusCreated, false, "2 false")
	close(goOn)
	receive(t, first).want(t, http.StatusCreated, true, "2 false")
	d.wantCups(t, 2)
}

// The same while the newer holder still works: the older one's client is told to come back.
func TestOvertakenWhileTheNewerHolderWorks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	first := d.sending(t, theKey)
	receive(t, arrived)
	d.exec(t, `UPDATE idempotency_keys SET lock_version = 0, locked_until = now() + interval '1 minute'`) // another process took it
	close(goOn)
	receive(t, first).wantError(t, &idempotency.InProgressError{})
	if n := d.count(t, `SELECT count(*) FROM stock`); n != 0 {
		t.Error("the older holder has written")
	}
}

// A handler is told when its lease is lost, by the renewal that finds it so.
func TestHandlerIsStoppedWhenItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(d *desk) { d.config.Lease = 300 * time.Millisecond })
	var cause error
	arrived := d.slow(func(ctx context.Context) { <-ctx.Done(); cause = context.Cause(ctx) })
	first := d.sending(t, theKey)
	receive(t, arrived)
	d.exec(t, `UPDATE idempotency_keys SET lock_version = 0, locked_until = now() + interval '1 minute'`)
	receive(t, first).wantError(t, &idempotency.InProgressError{})
	if !errors.Is(cause, saga.ErrLeaseLost) {
		t.Errorf("stopped by %v", cause)
	}
}

// tired is a store whose leases are not renewed, as when the database cannot be reached for long.
type tired struct{ idempotency.Store }

func (tired) RenewKey(context.Context, idempotency.Held, time.Duration) error {
	return errors.New("the database does not answer")
}

// A lease that cannot be renewed runs out by the database's clock, and the repeat takes over.
func TestLeaseThatIsNotRenewed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(d *desk) { d.config.Lease, d.config.Store = 300*time.Millisecond, tired{d.store} })
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	first := d.sending(t, theKey)
	receive(t, arrived)
	var second answer
	eventually(t, "the repeat takes over", func() bool {
		second = d.send(t, theKey, "a thing")
		return second.status != http.StatusTeapot
	})
	second.want(t, http.StatusCreated, false, "2 false")
	close(goOn)
	receive(t, first).want(t, http.StatusCreated, true, "2 false")
	d.wantCups(t, 2)
}

// A lease is renewed while its handler works: nobody takes over, however long that is.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(d *desk) { d.config.Lease = 3 * time.Second })
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	first := d.sending(t, theKey)
	receive(t, arrived)
	eventually(t, "the first lease is long over", func() bool {
		d.send(t, theKey, "a thing").wantError(t, &idempotency.InProgressError{})
		return t.Failed() || d.count(t, `SELECT count(*) FROM idempotency_keys WHERE created_at + interval '4 seconds' < now()`) == 1
	})
	close(goOn)
	receive(t, first).want(t, http.StatusCreated, false, "1 false")
}

func (d *desk) wantCups(t *testing.T, want int) {
	t.Helper()
	if n := d.count(t, `SELECT on_hand FROM stock WHERE sku = 'cup'`); n != want {
		t.Errorf("%d cups: the handler that was overtaken has written", n)
	}
}

// A handler whose own transaction has stored the answer is not carried out again, whatever becomes of its process; nor is another
// answer stored over that one.
func TestHandlerThatAnswersWithItsWrite(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	calls := 0
	d.behave(func(_ http.ResponseWriter, r *http.Request) {
		calls++
		answer := func(saga.Stock) (saga.Answer, error) {
			return saga.Answer{Status: http.StatusCreated, Body: []byte("set")}, nil
		}
		_, err := d.store.PutStock(r.Context(), account, "cup", 7, idempotency.HeldBy(r.Context()), answer)
		if err != nil {
			t.Errorf("put: %v", err)
		}
		panic(http.ErrAbortHandler) // as if it died between its write and its answer
	})
	_, _ = d.try(t.Context(), theKey, "a thing") // no answer comes
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, true, "set")
	d.wantCups(t, 7)
	if calls != 1 {
		t.Errorf("carried out %d times", calls)
	}
}

// A request whose own run lost its lease may find the key left by the newer holder, and carry it out once more: with all of its body.
func TestSecondRunHasTheBody(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	runs := 0
	d.behave(func(w http.ResponseWriter, r *http.Request) {
		d.created(w, r)
		if runs++; runs == 1 { // meanwhile another process took the key over, failed, and left it
			d.exec(t, `UPDATE idempotency_keys SET lock_version = lock_version + 1000, locked_until = now()`)
		}
	})
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, false, "a thing")
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, true, "a thing")
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}
