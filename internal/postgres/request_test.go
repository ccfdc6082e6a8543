package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// requestClaim is the claim of a request about an order.
func requestClaim(name string) saga.Claim {
	claim := claimOf(name)
	claim.Endpoint = "POST /v1/orders/{id}/" + name
	return claim
}

// asking is the change that a request brings to a saga as it was loaded, ready to be written.
func (b *bundle) asking(s saga.Saga, claim saga.Claim, request saga.Request) saga.Change {
	b.t.Helper()
	request.Key = saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)
	s.Pending = claim.Endpoint
	return finish(b.advance(s, saga.Event{Kind: saga.Asked, Request: &request}), s)
}

// ask writes a request about a saga that rests.
func (b *bundle) ask(s saga.Saga, name string, request saga.Request) saga.Saga {
	b.t.Helper()
	claim := requestClaim(name)
	asked, err := b.store.Ask(b.ctx, claim, b.asking(b.load(s), claim, request), lease)
	if err != nil {
		b.t.Fatalf("ask: %v", err)
	}
	return asked
}

func (b *bundle) load(s saga.Saga) saga.Saga {
	b.t.Helper()
	loaded, err := b.store.Load(b.ctx, ref(s))
	if err != nil {
		b.t.Fatalf("load: %v", err)
	}
	return loaded
}

func (b *bundle) lookup(claim saga.Claim) (record idempotency.Record, used bool) {
	b.t.Helper()
	record, used, err := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key)
	if err != nil {
		b.t.Fatalf("look up key: %v", err)
	}
	return record, used
}

var capture = saga.Request{Kind: saga.RequestCapture, Amount: 500}

// exactly compares what Ask returns with what is read, the lease's end included.
var exactly = cmp.Options{cmpopts.IgnoreFields(saga.Saga{}, "ReadAt", "NextAt"), cmpopts.EquateEmpty()}

func TestAskClaimsItsKeyAndTakesTheLease(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	before := b.load(b.held("held"))
	asked := b.ask(before, "capture", capture)
	after := b.load(asked)
	if diff := cmp.Diff(asked, after, exactly); diff != "" {
		t.Errorf("ask (-returned +read):\n%s", diff)
	}
	if asked.Lease.Fence != before.Lease.Fence+1 || asked.Drives != before.Drives+1 || asked.Unrecorded != 1 {
		t.Errorf("fence %d after %d, drive %d after %d, unrecorded %d", asked.Lease.Fence, before.Lease.Fence, asked.Drives, before.Drives, asked.Unrecorded)
	}
	if left := asked.Lease.Until.Sub(asked.ReadAt); left != lease || !after.NextAt.Equal(after.Lease.Until) {
		t.Errorf("the lease lasts %s, next at %s", left, after.NextAt)
	}
	record, _ := b.lookup(requestClaim("capture"))
	if record.Status != idempotency.InProgress || record.SagaKey != before.Key || record.Fence != asked.Lease.Fence ||
		record.LeaseLeft <= 0 || asked.Pending != requestClaim("capture").Endpoint {
		t.Errorf("record %+v, pending %q", record, asked.Pending)
	}
}

// A request's answer goes under its own key; the order's own stays.
func TestRequestIsAnsweredUnderItsKey(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	asked := b.ask(b.held("held"), "capture", capture)
	change := b.outcome(asked, saga.CallCapture, providers.Outcome{Kind: providers.Succeeded, Reference: "cap_1"})
	change.Answer.Body = []byte("captured")
	rested := b.apply(change)
	if payment := rested.Order.Payment; payment.CapturedAmount != 500 || rested.Pending != "" || rested.State != saga.Awaiting {
		t.Errorf("captured %d, pending %q, state %s", payment.CapturedAmount, rested.Pending, rested.State)
	}
	for claim, answer := range map[saga.Claim]string{claimOf("held"): answerText, requestClaim("capture"): "captured"} {
		if record, _ := b.lookup(claim); record.Status != idempotency.Completed || string(record.Answer.Body) != answer {
			t.Errorf("%s: %+v", claim.Endpoint, record)
		}
	}
	if diff := cmp.Diff(rested, b.load(rested), asStored); diff != "" {
		t.Errorf("apply (-returned +read):\n%s", diff)
	}
}

// The client that repeats its request after a crash goes on by the fence in its key's record, whoever held the lease last.
func TestRequestIsTakenOverByItsRecord(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	asked := b.ask(b.held("held"), "capture", capture)
	b.lapse(asked)
	if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || len(due) != 1 {
		t.Fatalf("claim due: %d, %v", len(due), err)
	}
	b.lapse(asked)
	record, _ := b.lookup(requestClaim("capture"))
	taken, err := b.store.TakeOver(b.ctx, saga.Ref{AccountID: account, Key: record.SagaKey}, record.Fence, lease)
	if err != nil {
		t.Fatalf("take over: %v", err)
	}
	if taken.Key != asked.Key || taken.Lease.Fence != asked.Lease.Fence+2 || taken.Unrecorded != 3 || taken.Pending != asked.Pending {
		t.Errorf("took over %+v", taken)
	}
}

// A request that needs no call is over in its one transaction.
func TestAskThatComesToRestAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order    func(b *bundle) saga.Saga
		request  saga.Request
		state    saga.State
		onHand   int64
		reserved int64
	}{
		"cancel after a decline": {declinedOrder, saga.Request{Kind: saga.RequestCancel}, saga.RolledBack, 10, 0},
		"continue what is paid":  {func(b *bundle) saga.Saga { return b.confirmed("paid") }, saga.Request{Kind: saga.RequestContinue}, saga.Completed, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			before := b.load(test.order(b))
			asked := b.ask(before, "request", test.request)
			after := b.load(asked)
			if diff := cmp.Diff(asked, after, exactly); diff != "" {
				t.Errorf("ask (-returned +read):\n%s", diff)
			}
			if asked.State != test.state || asked.Lease.Until.After(asked.ReadAt) || !after.NextAt.IsZero() || asked.Pending != "" || asked.Unrecorded != 0 {
				t.Errorf("state %s, lease until %s, next at %s, pending %q", asked.State, asked.Lease.Until, after.NextAt, asked.Pending)
			}
			b.wantStock("cup", test.onHand, test.reserved)
			if diff := cmp.Diff(before.Order.Payment, after.Order.Payment, cmpopts.IgnoreFields(saga.Payment{}, "NextAction")); diff != "" {
				t.Errorf("the payment changed:\n%s", diff)
			}
			if record, _ := b.lookup(requestClaim("request")); record.Status != idempotency.Completed || string(record.Answer.Body) != answerText {
				t.Errorf("record %+v", record)
			}
			if _, err := b.store.Seize(b.ctx, ref(asked), asked.Lease.Fence, lease); err != nil {
				t.Errorf("the lease is not free: %v", err)
			}
		})
	}
}

// declinedOrder waits for another payment.
func declinedOrder(b *bundle) saga.Saga {
	b.t.Helper()
	s := b.beginPaid("declined", saga.Payment{Provider: "fake", Method: "pm_1", OnDecline: saga.DeclineAwaits})
	return b.apply(b.outcome(s, saga.CallCharge, declined))
}

// Of requests that come at the same moment one gets in. The others leave no trace, and their keys can be used again.
func TestOneOfManyRequestsGetsIn(t *testing.T) {
	t.Parallel()
	const requests = 8
	for name, test := range map[string]struct {
		key  func(i int) string
		lost error
	}{
		"with keys of their own": {func(i int) string { return fmt.Sprint("capture-", i) }, saga.ErrLeaseLost},
		"with one key":           {func(int) string { return "capture" }, saga.ErrKeyTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := b.load(b.held("held"))
			claims, changes := make([]saga.Claim, requests), make([]saga.Change, requests)
			for i := range requests {
				claims[i] = requestClaim(test.key(i))
				changes[i] = b.asking(s, claims[i], capture)
			}
			errs := atOnce(requests, func(i int) error {
				_, err := b.store.Ask(b.ctx, claims[i], changes[i], lease)
				return err
			})
			won := 0
			for i, err := range errs {
				switch _, used := b.lookup(claims[i]); {
				case err == nil:
					won++
				case !errors.Is(err, test.lost):
					t.Errorf("request %d: %v, want %v", i, err, test.lost)
				case used && errors.Is(err, saga.ErrLeaseLost):
					t.Errorf("request %d lost, and its key is used", i)
				}
			}
			after := b.load(s)
			if won != 1 || after.Lease.Fence != s.Lease.Fence+1 || len(after.Steps) != len(s.Steps)+1 {
				t.Errorf("%d got in; fence %d after %d, %d steps after %d", won, after.Lease.Fence, s.Lease.Fence, len(after.Steps), len(s.Steps))
			}
		})
	}
}

// atOnce runs work n times at the same moment.
func atOnce(n int, work func(i int) error) []error {
	errs, start := make([]error, n), make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { <-start; errs[i] = work(i) })
	}
	close(start)
	group.Wait()
	return errs
}

func TestAskWritesNothingWhereItDoesNotFit(t *testing.T) {
	t.Parallel()
	claim := requestClaim("capture")
	for name, test := range map[string]struct {
		meanwhile func(b *bundle, s saga.Saga)
		want      error
	}{
		"somebody drives it": {func(b *bundle, s saga.Saga) {
			b.exec(`UPDATE sagas SET locked_until = now() + interval '1 hour' WHERE key = $1`, s.Key)
		}, saga.ErrLeaseLost},
		"somebody drove it": {func(b *bundle, s saga.Saga) {
			b.apply(b.outcome(b.seize(s), saga.CallLookup, authorized))
		}, saga.ErrLeaseLost},
		"it has moved on": {func(b *bundle, s saga.Saga) {
			b.exec(`UPDATE sagas SET state = 'needs_review', next_attempt_at = NULL WHERE key = $1`, s.Key)
		}, saga.ErrLeaseLost},
		"an earlier request has no answer": {func(b *bundle, s saga.Saga) {
			b.exec(`UPDATE idempotency_keys SET status = 'PROCESSING', response_status = NULL, answer_on = NULL, answer_id = NULL,
				completed_at = NULL, locked_until = now() - interval '1 hour' WHERE saga_key = $1`, s.Key)
		}, saga.ErrLeaseLost},
		"the key is taken by another order": {func(b *bundle, _ saga.Saga) {
			other := b.load(b.held("other"))
			if _, err := b.store.Ask(b.ctx, claim, b.asking(other, claim, capture), lease); err != nil {
				b.t.Fatal(err)
			}
		}, saga.ErrKeyTaken},
		"it does not exist": {func(b *bundle, s saga.Saga) {
			b.exec(`UPDATE sagas SET account_id = 'shop2' WHERE key = $1`, s.Key)
		}, saga.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.dropForeignKeys()
			s := b.load(b.held("held"))
			change := b.asking(s, claim, capture)
			test.meanwhile(b, s)
			before := b.dump()
			if _, err := b.store.Ask(b.ctx, claim, change, lease); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(before, b.dump()); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// dropForeignKeys lets a test move rows where no program could.
func (b *bundle) dropForeignKeys() {
	b.t.Helper()
	b.exec(`DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype = 'f' LOOP
			EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname);
		END LOOP; END $$`)
}

// dump is every row of what orders leave behind.
func (b *bundle) dump() map[string][]string {
	b.t.Helper()
	all := make(map[string][]string)
	for _, table := range append([]string{"stock"}, orderTables...) {
		rows, err := b.pool.Query(b.ctx, `SELECT t::text FROM `+table+` t ORDER BY 1`)
		if err != nil {
			b.t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				b.t.Fatal(err)
			}
			all[table] = append(all[table], row)
		}
		if err := rows.Err(); err != nil {
			b.t.Fatal(err)
		}
	}
	return all
}

// A request's key begins anew only when its order has an end: the same capture could be made twice otherwise.
func TestRequestsKeyGoesWithItsOrder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.ask(b.held("held"), "capture", capture), saga.CallCapture, succeeded))
	b.exec(`UPDATE idempotency_keys SET expires_at = now()`)
	next := requestClaim("capture")
	next.Generation = 2
	loaded := b.load(s)
	if _, err := b.store.Ask(b.ctx, next, b.asking(loaded, next, capture), lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("while the order is open: %v, want ErrKeyTaken", err)
	}
	last := b.ask(s, "last", saga.Request{Kind: saga.RequestCapture, Final: true})
	if ended := b.apply(b.outcome(last, saga.CallCapture, succeeded)); ended.State != saga.Completed || ended.Order.Payment.CapturedAmount != 1200 {
		t.Fatalf("state %s, captured %d", ended.State, ended.Order.Payment.CapturedAmount)
	}
	asked, err := b.store.Ask(b.ctx, next, b.asking(b.load(s), next, saga.Request{Kind: saga.RequestContinue}), lease)
	if err != nil {
		t.Fatalf("after the order's end: %v", err)
	}
	if record, _ := b.lookup(next); record.Generation != 2 || record.SagaKey != asked.Key || record.Status != idempotency.Completed {
		t.Errorf("record %+v", record)
	}
}

// The stock that a cancel gives back must still be held.
func TestAskMeetsALostReservation(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.load(declinedOrder(b))
	b.exec(`UPDATE reservations SET status = 'released', ended_at = now()`)
	claim := requestClaim("cancel")
	_, err := b.store.Ask(b.ctx, claim, b.asking(s, claim, saga.Request{Kind: saga.RequestCancel}), lease)
	if !errors.Is(err, saga.ErrReservationLost) {
		t.Errorf("got %v, want ErrReservationLost", err)
	}
	if _, used := b.lookup(claim); used {
		t.Error("the key is used")
	}
}
