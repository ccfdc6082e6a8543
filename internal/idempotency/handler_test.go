package idempotency_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"paysaga/internal/idempotency"
)

func TestHandlerRunsOnce(t *testing.T) {
	t.Parallel()
	const crowd = 50
	d := newDesk(t)
	var pending [crowd]<-chan answer
	for i := range pending {
		pending[i] = d.sending(t, theKey)
	}
	fresh := 0
	for _, p := range pending {
		switch got := receive(t, p); {
		case got.status == http.StatusTeapot:
			got.wantError(t, &idempotency.InProgressError{})
		case got.header.Get("Replayed") == "false":
			fresh++
			got.want(t, http.StatusCreated, false, "a thing")
		default:
			got.want(t, http.StatusCreated, true, "a thing")
		}
	}
	if n := d.executions(t); n != 1 || fresh != 1 {
		t.Errorf("%d executions, %d answers that are no replays; want one", n, fresh)
	}
}

// A repeat gets the stored headers as well, whatever they are; and what another intent gets is not them.
func TestHandlerReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.send(t, theKey, "a thing")
	first.want(t, http.StatusCreated, false, "a thing")
	for _, key := range []string{theKey, `"` + theKey + `"`} {
		again := d.send(t, key, "a thing")
		again.want(t, http.StatusCreated, true, "a thing")
		for name, want := range map[string]string{
			"Content-Type": "text/x-thing", "Location": "/things/1", "Retry-After": "7", "Link": "</a>, </b>",
		} {
			if a, b := first.header.Get(name), again.header.Get(name); a != want || b != want {
				t.Errorf("%s: first %q, then %q, want %q", name, a, b, want)
			}
		}
	}
	d.send(t, theKey, "another thing").wantError(t, &idempotency.MismatchError{})
	d.send(t, "another-key-of-the-tests", "a thing").want(t, http.StatusCreated, false, "a thing")
	d.send(t, "short", "a thing").wantError(t, &idempotency.KeyError{Detail: "The Idempotency-Key has 5 characters; it needs 16 to 255."})
	d.send(t, "a-key-of-a-bad-request", "bad").wantError(t, errors.New("not a body"))
	if n, keys := d.executions(t), d.count(t, `SELECT count(*) FROM idempotency_keys`); n != 2 || keys != 2 {
		t.Errorf("%d executions, %d keys, want 2 and 2", n, keys)
	}
}

// A handler that panics leaves the request to its next repeat, at once.
func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.behave(func(http.ResponseWriter, *http.Request) { panic("a defect") })
	for range 2 {
		if got := d.send(t, theKey, "a thing"); got.status != http.StatusInternalServerError {
			t.Errorf("answered %d: %s", got.status, got.body)
		}
	}
	d.send(t, theKey, "another thing").wantError(t, &idempotency.MismatchError{})
	d.behave(d.created)
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, false, "a thing")
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, true, "a thing")
}

const longest = 1 << 20 // bytes: the longest answer that is kept

func TestLongestAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	long := strings.Repeat("x", longest)
	d.send(t, theKey, long).want(t, http.StatusCreated, false, long)
	d.send(t, theKey, long).want(t, http.StatusCreated, true, long)
}

// An answer that is too long to be kept is not given either, whole or cut off, and not stored.
func TestAnswerThatIsTooLong(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for calls := 1; calls <= 2; calls++ {
		got := d.send(t, theKey, strings.Repeat("x", longest+1))
		got.wantError(t, errors.New("an answer of more than 1048576 bytes cannot be kept"))
		if n := d.executions(t); n != calls {
			t.Errorf("%d executions, want %d", n, calls)
		}
	}
	d.behave(func(w http.ResponseWriter, _ *http.Request) { // it does not look at errors
		for range 2 {
			_, _ = w.Write(make([]byte, longest))
			_, _ = io.WriteString(w, "the end")
		}
	})
	d.send(t, theKey, strings.Repeat("x", longest+1)).wantError(t, errors.New("an answer of more than 1048576 bytes cannot be kept"))
	if n := d.count(t, `SELECT count(*) FROM idempotency_answers`); n != 0 {
		t.Errorf("%d answers are stored", n)
	}
}

// Which answers are kept: what was done, or what the route says. A 5xx leaves the request to its repeat, and anything else frees the key.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	const stored, released, forgotten = "COMPLETED", "PROCESSING", ""
	everything := func(int) bool { return true }
	for _, c := range []struct {
		status int
		keep   func(int) bool
		want   string
	}{
		{http.StatusOK, idempotency.KeepSuccess, stored},
		{http.StatusNoContent, idempotency.KeepSuccess, stored},
		{http.StatusSeeOther, idempotency.KeepSuccess, forgotten},
		{http.StatusBadRequest, idempotency.KeepSuccess, forgotten},
		{http.StatusUnprocessableEntity, idempotency.KeepSuccess, forgotten},
		{http.StatusInternalServerError, idempotency.KeepSuccess, released},
		{http.StatusServiceUnavailable, idempotency.KeepSuccess, released},
		{http.StatusPaymentRequired, everything, "FAILED"},
		{http.StatusServiceUnavailable, everything, released}, // whatever a route says
	} {
		t.Run(strconv.Itoa(c.status)+c.want, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(d *desk) { d.route.Keep = c.keep })
			d.behave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
			if got := d.send(t, theKey, "a thing"); got.status != c.status || got.header.Get("Replayed") != "false" {
				t.Fatalf("answered %d: %s", got.status, got.body)
			}
			var status string
			_ = d.pool.QueryRow(t.Context(), `SELECT status FROM idempotency_keys`).Scan(&status)
			if status != c.want {
				t.Errorf("the key is %q, want %q", status, c.want)
			}
			d.behave(d.created)
			switch c.want {
			case forgotten:
				d.send(t, theKey, "another thing").want(t, http.StatusCreated, false, "another thing")
			case released:
				d.send(t, theKey, "another thing").wantError(t, &idempotency.MismatchError{})
				d.send(t, theKey, "a thing").want(t, http.StatusCreated, false, "a thing")
			default:
				d.send(t, theKey, "another thing").wantError(t, &idempotency.MismatchError{})
				d.send(t, theKey, "a thing").want(t, c.status, true, "")
			}
		})
	}
}

// A client that goes away does not stop its request, and finds the answer when it comes back.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	d.behave(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-goOn
		d.created(w, r)
	})
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := d.try(ctx, theKey, "a thing")
		gone <- err
	}()
	receive(t, arrived)
	hangUp()
	if receive(t, gone) == nil {
		t.Fatal("the client was answered")
	}
	d.send(t, theKey, "a thing").wantError(t, &idempotency.InProgressError{})
	close(goOn)
	var again answer
	eventually(t, "the answer is stored", func() bool {
		again = d.send(t, theKey, "a thing")
		return again.status != http.StatusTeapot
	})
	again.want(t, http.StatusCreated, true, "a thing")
	if n := d.executions(t); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// Of answers that are kept as a digest a repeat gets all but the body.
func TestDigestsOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.store.KeepDigestsOnly([]string{endpoint})
	d.send(t, theKey, "a thing").want(t, http.StatusCreated, false, "a thing")
	again := d.send(t, theKey, "a thing")
	again.want(t, http.StatusCreated, true, "")
	sum := sha256.Sum256([]byte("a thing"))
	if again.header.Get("Digest") != string(sum[:4]) || again.header.Get("Location") != "/things/1" || again.header.Get("Content-Type") != "text/x-thing" {
		t.Errorf("header %q", again.header)
	}
	d.send(t, theKey, "another thing").wantError(t, &idempotency.MismatchError{})
	if n := d.count(t, `SELECT count(*) FROM idempotency_answers WHERE body IS NOT NULL`); n != 0 || d.executions(t) != 1 {
		t.Errorf("%d bodies are stored, %d executions", n, d.executions(t))
	}
}

// A request without a key: refused, or carried out each time, or, where the key is optional, none of the guard's business.
func TestHandlerWithoutKey(t *testing.T) {
	t.Parallel()
	proceed := func(d *desk) { d.config.Policy.MissingKey = idempotency.ProceedMissing }
	optional := func(d *desk) { d.route.Optional = true }
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.send(t, "", "a thing").wantError(t, idempotency.ErrKeyMissing)
		if n := d.executions(t); n != 0 {
			t.Errorf("%d executions", n)
		}
	})
	for name, c := range map[string]struct {
		change     func(*desk)
		protection string
		guarded    bool
	}{"proceeds": {proceed, "none", true}, "optional": {optional, "", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.change)
			d.behave(func(w http.ResponseWriter, r *http.Request) {
				if held := idempotency.HeldBy(r.Context()); (held != nil) != c.guarded {
					t.Errorf("held: %v", held)
				}
				d.created(w, r)
			})
			for range 2 {
				got := d.send(t, "", "a thing")
				if got.status != http.StatusCreated || got.header.Get("Replayed") == "true" || got.header.Get("Protection") != c.protection {
					t.Errorf("answered %d with protection %q", got.status, got.header.Get("Protection"))
				}
			}
			if n := d.executions(t); n != 2 {
				t.Errorf("%d executions", n)
			}
		})
	}
}
