package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// notes is a meter that writes down what it hears.
type notes struct {
	mutex sync.Mutex
	heard map[string]int
}

func (n *notes) note(words ...string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.heard == nil {
		n.heard = map[string]int{}
	}
	n.heard[strings.Join(words, " ")]++
}

func (n *notes) DuplicateBlocked(endpoint, how string) { n.note("blocked", how, endpoint) }
func (n *notes) FingerprintMismatch(endpoint string)   { n.note("mismatch", endpoint) }
func (n *notes) KeyCreated(account, endpoint string)   { n.note("created", account, endpoint) }

func (n *notes) KeyLimited(account, endpoint string) { n.note("limited", account, endpoint) }
func (n *notes) LockTimeout(endpoint string)         { n.note("timeout", endpoint) }
func (n *notes) OrphanReclaimed(endpoint, by string) { n.note("reclaimed", by, endpoint) }

func (n *notes) Processed(endpoint, how string, _ time.Duration) { n.note("processed", how, endpoint) }

func (n *notes) want(t *testing.T, want map[string]int) {
	t.Helper()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if diff := cmp.Diff(want, n.heard); diff != "" {
		t.Errorf("the meter heard (-want +got):\n%s", diff)
	}
}

// What is left of a process that died right after its claim is taken over by exactly one of many repeats.
func TestOneTakesOver(t *testing.T) {
	t.Parallel()
	const retries = 16
	meter := &notes{}
	d := newDesk(t, func(d *desk) { d.config.Meter = meter })
	_, err := d.store.ClaimKey(t.Context(), saga.Claim{
		AccountID: account, Endpoint: endpoint, Key: theKey, Generation: 1, Retention: time.Hour,
		Fingerprint: idempotency.NewIntent("test").String("body", "a thing").Fingerprint(),
	}, 0)
	noError(t, err)
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	var pending [retries]<-chan answer
	for i := range pending {
		pending[i] = d.sending(t, theKey)
	}
	receive(t, arrived)
	answers := make(chan answer, retries)
	for _, p := range pending {
		go func() { answers <- <-p }()
	}
	for range retries - 1 {
		receive(t, answers).wantError(t, &idempotency.InProgressError{})
	}
	close(goOn)
	receive(t, answers).want(t, http.StatusCreated, false, "1 false")
	meter.want(t, map[string]int{
		"blocked in_progress " + endpoint: retries - 1, "reclaimed retry " + endpoint: 1, "processed COMPLETED " + endpoint: 1,
	})
}

// What the meter hears of each way that a request can go.
func TestMeter(t *testing.T) {
	t.Parallel()
	meter := &notes{}
	d := newDesk(t, func(d *desk) { d.config.Meter, d.config.Policy.KeysPerMinute = meter, 3 })
	d.send(t, theKey, "a thing")
	d.send(t, theKey, "a thing")
	d.send(t, theKey, "another thing")
	d.behave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	d.send(t, "the-second-of-the-keys", "a thing")
	goOn := make(chan struct{})
	arrived := d.slow(func(context.Context) { <-goOn })
	slow := d.sending(t, "the-third-of-the-keys")
	receive(t, arrived)
	d.exec(t, `UPDATE idempotency_keys SET lock_version = 0, locked_until = now() + interval '1 minute' WHERE key LIKE '%third%'`)
	close(goOn)
	receive(t, slow).wantError(t, &idempotency.InProgressError{})
	d.send(t, "one-key-too-many-of-all", "a thing").wantError(t, &idempotency.LimitError{})
	meter.want(t, map[string]int{
		"created shop " + endpoint: 2, "processed COMPLETED " + endpoint: 1, "blocked replayed " + endpoint: 1, "mismatch " + endpoint: 1,
		"processed released " + endpoint: 1, "timeout " + endpoint: 1, "blocked in_progress " + endpoint: 1, "limited shop " + endpoint: 1,
	})
}

// forgetful is a store that cannot store answers.
type forgetful struct{ idempotency.Store }

func (forgetful) AnswerKey(context.Context, idempotency.Held, saga.Answer) error { return errStore }

// mute is a store that cannot claim keys.
type mute struct{ idempotency.Store }

func (mute) ClaimKey(context.Context, saga.Claim, time.Duration) (idempotency.Held, error) {
	return idempotency.Held{}, errStore
}

var errStore = errors.New("the database does not answer")

// No answer is given that is not stored, and nothing is begun without its key.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store      func(idempotency.Store) idempotency.Store
		executions int
		told       string
	}{
		"answer": {func(s idempotency.Store) idempotency.Store { return forgetful{s} }, 1, "end the lease of a key: "},
		"claim":  {func(s idempotency.Store) idempotency.Store { return mute{s} }, 0, "claim key: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(d *desk) { d.config.Store = c.store(d.store) })
			d.send(t, theKey, "a thing").wantError(t, errors.New(c.told+errStore.Error()))
			if n := d.executions(t); n != c.executions {
				t.Errorf("%d executions", n)
			}
		})
	}
}

// In log_only a repeat of an ordinary handler's request is carried out, and says so.
func TestHandlerLogOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(d *desk) { d.config.Policy.Mode = idempotency.LogOnly })
	if first := d.send(t, theKey, "a thing"); first.header.Get("Protection") != "" {
		t.Errorf("the first request: %q", first.header.Get("Protection"))
	}
	for body, would := range map[string]string{"a thing": "replay", "another thing": "mismatch"} {
		got := d.send(t, theKey, body)
		got.want(t, http.StatusCreated, false, body)
		if got.header.Get("Protection") != "observed; would="+would {
			t.Errorf("protection %q", got.header.Get("Protection"))
		}
	}
	if n := d.executions(t); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	if !d.log.Contains(`"would":"replay"`) {
		t.Errorf("the log: %s", d.log)
	}
}
