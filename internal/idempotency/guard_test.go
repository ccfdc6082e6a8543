package idempotency_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

func TestNewGuardRefuses(t *testing.T) {
	t.Parallel()
	good := idempotency.Config{
		Store: &looked{}, Policy: idempotency.Default(), Lease: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	if _, err := idempotency.NewGuard(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*idempotency.Config){
		"no store":              func(c *idempotency.Config) { c.Store = nil },
		"no logger":             func(c *idempotency.Config) { c.Logger = nil },
		"no lease":              func(c *idempotency.Config) { c.Lease = 0 },
		"no mode":               func(c *idempotency.Config) { c.Policy.Mode = "" },
		"unknown missing key":   func(c *idempotency.Config) { c.Policy.MissingKey = "ask" },
		"unknown expired keys":  func(c *idempotency.Config) { c.Policy.ExpiredKeys = "keep" },
		"mismatch with another": func(c *idempotency.Config) { c.Policy.MismatchStatus = http.StatusBadRequest },
		"no retention":          func(c *idempotency.Config) { c.Policy.Retention = 0 },
		"limit below zero":      func(c *idempotency.Config) { c.Policy.KeysPerMinute = -1 },
	} {
		broken := good
		change(&broken)
		if _, err := idempotency.NewGuard(broken); err == nil {
			t.Errorf("made with %s", name)
		}
	}
}

// looked is a store that gives one record after the other; the last one stays.
type looked struct {
	idempotency.Store

	records []*idempotency.Record // nil: there is none
	last    int                   // generation that is left of a key without a record
	looks   int
}

func (l *looked) LookupKey(context.Context, string, string, string) (idempotency.Record, bool, error) {
	record := l.records[min(l.looks, len(l.records)-1)]
	l.looks++
	if record == nil {
		return idempotency.Record{}, false, nil
	}
	return *record, true, nil
}

func (l *looked) LastGeneration(context.Context, string, string, string) (int, error) {
	return l.last, nil
}

// Work of its own transactions: what the guard does about each way that it can lose.
func TestDo(t *testing.T) {
	t.Parallel()
	mine := idempotency.NewIntent("mine").Fingerprint()
	answered := &idempotency.Record{Generation: 1, Fingerprint: mine, Status: idempotency.Completed, Answer: saga.Answer{Status: http.StatusOK}}
	expired := &idempotency.Record{Generation: 4, Fingerprint: mine, Status: idempotency.Completed, Expired: true}
	left := &idempotency.Record{Generation: 2, Fingerprint: mine, Status: idempotency.InProgress, Fence: 7}
	refused := &saga.RefusedError{Reason: saga.RefusedOver}
	reject := func(p *idempotency.Policy) { p.ExpiredKeys = idempotency.ExpiredReject }
	for name, c := range map[string]struct {
		store  looked
		policy func(*idempotency.Policy)
		begin  []error // of each try; nil: answered
		begun  []int   // generations of the tries
		resume []error
		want   error
		replay bool
	}{
		"new":                      {store: looked{records: none()}, begin: errs(nil), begun: []int{1}},
		"somebody else came first": {store: looked{records: none(answered)}, begin: errs(saga.ErrKeyTaken), begun: []int{1}, replay: true},
		"lease lost":               {store: looked{records: none(answered)}, begin: errs(saga.ErrLeaseLost), begun: []int{1}, replay: true},
		"answered meanwhile":       {store: looked{records: none(answered)}, begin: errs(saga.ErrAnswered), begun: []int{1}, replay: true},
		"lost and never found": {
			store: looked{records: none()}, begin: errs(saga.ErrKeyTaken, saga.ErrKeyTaken, saga.ErrKeyTaken, saga.ErrKeyTaken),
			begun: []int{1, 1, 1, 1}, want: &idempotency.InProgressError{},
		},
		"its order refuses it":                  {store: looked{records: none()}, begin: errs(refused), begun: []int{1}, want: refused},
		"refused, as its twin was carried out":  {store: looked{records: none(answered)}, begin: errs(refused), begun: []int{1}, replay: true},
		"refused twice, as its key has expired": {store: looked{records: none(expired)}, begin: errs(refused, refused), begun: []int{1, 5}, want: refused},
		"expired":                               {store: looked{records: records(expired)}, begin: errs(nil), begun: []int{5}},
		"expired, and rejected":                 {store: looked{records: records(expired)}, policy: reject, want: idempotency.ErrExpired},
		"cleaned up, and something is left":     {store: looked{records: none(), last: 3}, begin: errs(saga.ErrGenerationUsed, nil), begun: []int{1, 4}},
		"cleaned up, and rejected":              {store: looked{records: none(), last: 3}, policy: reject, begin: errs(saga.ErrGenerationUsed), begun: []int{1}, want: idempotency.ErrExpired},
		"left by its holder":                    {store: looked{records: records(left)}, resume: errs(nil)},
		"left by its holder, taken by another":  {store: looked{records: records(left, answered)}, resume: errs(saga.ErrLeaseLost), replay: true},
		"an error of the work is the caller's":  {store: looked{records: none()}, begin: errs(errStore), begun: []int{1}, want: errStore},
		"an error of the resumption is as well": {store: looked{records: records(left)}, resume: errs(errStore), want: errStore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := idempotency.Default()
			if c.policy != nil {
				c.policy(&policy)
			}
			guard, err := idempotency.NewGuard(idempotency.Config{
				Store: &c.store, Policy: policy, Lease: time.Second, Logger: slog.New(slog.DiscardHandler),
			})
			noError(t, err)
			key, err := guard.ReadKey([]string{theKey})
			noError(t, err)
			call := idempotency.Call{AccountID: account, Endpoint: endpoint, Key: key, Fingerprint: mine}
			tried := tries{begin: c.begin, resume: c.resume}
			got, err := guard.Do(t.Context(), call, tried.work(t))
			if fmt.Sprint(err) != fmt.Sprint(c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got.Replayed != c.replay || got.Protection != "" {
				t.Errorf("replayed %t, protection %q", got.Replayed, got.Protection)
			}
			if !slices.Equal(tried.begun, c.begun) || tried.resumed != len(c.resume) {
				t.Errorf("begun %v, resumed %d times; want %v, %d", tried.begun, tried.resumed, c.begun, len(c.resume))
			}
		})
	}
}

// tries is work of which each try ends as it is told.
type tries struct {
	begin, resume []error

	begun   []int // generations
	resumed int
}

func (w *tries) work(t *testing.T) idempotency.Work {
	t.Helper()
	return idempotency.Work{
		Begin: func(_ context.Context, claim saga.Claim) (saga.Answer, error) {
			w.begun = append(w.begun, claim.Generation)
			if claim.KeysPerMinute != 100 || claim.Retention != idempotency.Default().Retention || claim.Key != theKey {
				t.Errorf("claim %+v", claim)
			}
			return saga.Answer{Status: http.StatusCreated}, w.begin[len(w.begun)-1]
		},
		Resume: func(_ context.Context, held idempotency.Held, record idempotency.Record) (saga.Answer, error) {
			w.resumed++
			want := idempotency.Held{AccountID: account, Endpoint: endpoint, Key: theKey, Generation: 2, Fence: 7}
			if held != want || record.Fence != want.Fence {
				t.Errorf("held %+v", held)
			}
			return saga.Answer{Status: http.StatusCreated}, w.resume[w.resumed-1]
		},
	}
}

func records(all ...*idempotency.Record) []*idempotency.Record { return all }

// none is no record at the first look, and then those.
func none(then ...*idempotency.Record) []*idempotency.Record {
	return append([]*idempotency.Record{nil}, then...)
}

func errs(all ...error) []error { return all }
