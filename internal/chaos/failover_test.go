//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/internal/pgdev"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// failover is a database that fails over to a replica that lagged behind: the commits of the last while are lost, and the servers go on.
type failover struct {
	*system

	shops  *shops
	number int
	plans  []plan // of all orders, as they were placed
	backup pgdev.Backup
	since  time.Time // of which on commits are lost
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	s := openSystem(t, programUnderTest(t), 1)
	for range 2 {
		must(t, s.addServer("all").start(t.Context()))
	}
	return &failover{system: s, shops: newShops(s)}
}

// newPlan is an order of its own that takes this course at a provider.
func (f *failover) newPlan(course course, at provider) plan {
	for f.number++; ; f.number++ {
		if p := planOrder(1, f.number); p.course == course && p.at.name == at.name && p.order.Items[0].SKU != limited {
			p.copies, p.comesBack = 1, true
			f.plans = append(f.plans, p)
			return p
		}
	}
}

// atEach plans an order of each course at each provider.
func (f *failover) atEach(courses ...course) (plans []plan) {
	for _, each := range courses {
		for _, at := range providers {
			plans = append(plans, f.newPlan(each, at))
		}
	}
	return plans
}

// walkAll carries orders through, all at once.
func (f *failover) walkAll(ctx context.Context, by *shops, plans []plan) []*purchase {
	done := make([]*purchase, len(plans))
	var group sync.WaitGroup
	for i, p := range plans {
		group.Go(func() { done[i] = by.walk(ctx, p) })
	}
	group.Wait()
	return done
}

// wantWalked carries orders through, and fails unless each shop found out what became of its order.
func (f *failover) wantWalked(by *shops, plans []plan) []*purchase {
	f.t.Helper()
	done := f.walkAll(f.t.Context(), by, plans)
	for _, o := range done {
		if o.err != nil {
			f.t.Fatalf("order %d, %s at %s: %v", o.number, o.course, o.at.name, o.err)
		}
	}
	return done
}

// backUp keeps the database as it is now.
func (f *failover) backUp() {
	f.t.Helper()
	f.since = time.Now()
	must(f.t, f.crashDatabase(f.t.Context(), func() error {
		var err error
		f.backup, err = f.postgres.Backup(f.t.Context())
		return err
	}))
}

// failOver loses all that was committed since the backup.
func (f *failover) failOver() {
	f.t.Helper()
	must(f.t, f.crashDatabase(f.t.Context(), func() error { return f.postgres.Restore(f.t.Context(), f.backup) }))
	f.log.notef("the database is as it was when it was backed up")
}

// loseInFlight sends orders, and fails the database over when the provider has taken their money and keeps the answers to itself.
func (f *failover) loseInFlight(plans []plan) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	for _, p := range plans {
		// Adyen and PayPal are told by other means which order a payment is for; one fault each meets the first charge that comes.
		must(f.t, f.sandbox.AddFault(sandbox.Fault{Provider: p.at.name, Call: sandbox.CallCharge, Kind: sandbox.FaultTimeoutAfter, Times: 1}))
	}
	gone := make(chan struct{})
	go func() { defer close(gone); f.walkAll(ctx, f.shops, plans) }()
	f.until("the charges of the orders in flight", func() bool {
		charges := f.charges()
		return !slices.ContainsFunc(plans, func(p plan) bool { return len(charges[orderID(p)]) == 0 })
	})
	f.failOver()
	cancel()
	<-gone
	f.sandbox.ClearFaults()
}

// until waits for something that ought to come within seconds.
func (s *system) until(what string, reached func() bool) {
	s.t.Helper()
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	for !reached() {
		if sleep(ctx, 20*time.Millisecond); ctx.Err() != nil {
			s.t.Fatalf("%s did not come in %s; the logs are in %s", what, limit, s.dir)
		}
	}
}

// orderID is the id that an order will have, whoever takes it and whatever the database knows.
func orderID(p plan) uuid.UUID { return saga.Key(shopAccount, "POST /v1/orders", p.key, 1) }

// charges are the payments in the providers' ledgers, by the order that they are for.
func (s *system) charges() map[uuid.UUID][]sandbox.Charge {
	found := map[uuid.UUID][]sandbox.Charge{}
	for _, charge := range s.sandbox.Ledger() {
		id := orderOf(charge)
		found[id] = append(found[id], charge)
	}
	return found
}

// money is what a ledger says of an order, how often it was asked left out.
func money(charges []sandbox.Charge) []sandbox.Charge {
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Calls = 0
	}
	return charges
}

// The database fails over to a replica that lagged behind, and the last commits are lost. The shops repeat their requests: each order is
// the order that it was, with the payment that it had (I1, I3).
func TestFailoverThatLosesCommits(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	known := f.atEach(coursePaid, courseRefund)
	halfKnown := f.atEach(courseCapture, courseCancel, courseRefund)
	f.wantWalked(f.shops, known)
	for _, p := range halfKnown {
		must(t, f.shops.place(t.Context(), &purchase{plan: p}))
	}
	f.backUp()
	unknown := f.atEach(coursePaid, courseDeclined, courseCapture, courseCancel, courseRefund, courseCustomer)
	unrepeated := f.newPlan(coursePaid, providers[0])
	f.wantWalked(f.shops, slices.Concat(halfKnown, unknown, []plan{unrepeated}))
	f.rest()
	told, ledger := f.shops.street.journal.all(), f.charges()
	before := f.gather(f.shops)
	inFlight := f.atEach(coursePaid)
	f.loseInFlight(inFlight)

	again := newShops(f.system)
	repeated := slices.Concat(known, halfKnown, unknown)
	f.wantWalked(again, repeated)
	again.purchases = f.wantWalked(again, inFlight)
	// What the providers had announced is lost with the rest. Adyen tells of captures, cancels and refunds in no other way.
	if f.sandbox.ResendWebhooks(f.since) == 0 {
		t.Error("the providers have nothing to send again")
	}
	f.until("the end of all sagas", f.noSagaDue)
	after := f.gather(again)
	f.wantSameOrders(repeated, &before, &after)
	f.wantSameMoney(ledger, repeated)
	f.wantSentAgain(ledger, unknown)
	f.wantSameAnswers(told, again.street.journal)
	for _, d := range after.compare().orders { // those that were in flight: charged once, and confirmed
		t.Errorf("order %d was in flight: %q", d.o.number, d.problems)
	}
	if len(after.strangers) != 1 || orderOf(after.strangers[0]) != orderID(unrepeated) {
		t.Errorf("charges without an order are %+v, want the one of the order that nobody repeated", after.strangers)
	}
	f.wantWalked(again, []plan{unrepeated})
	f.wantSameMoney(ledger, []plan{unrepeated})
	f.wantStock()
}

// noSagaDue tells that every saga is at its end, or with a person.
func (s *system) noSagaDue() bool {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM sagas WHERE next_attempt_at IS NOT NULL`) == 0
}

// mayBeReviewed: what PayPal answers to a repeat is the payment as it is now. Of one that was given back in part meanwhile nothing here
// knows why, until a person says so.
func mayBeReviewed(p plan) bool { return p.at.name == "paypal" && p.course == courseRefund }

// wantSameOrders: the database has each order as it had it before the commits were lost.
func (f *failover) wantSameOrders(repeated []plan, before, after *books) {
	f.t.Helper()
	reviewed := map[uuid.UUID]openSaga{}
	for _, g := range after.sagas {
		reviewed[g.OrderID] = g
	}
	for _, p := range repeated {
		id := orderID(p)
		if g, is := reviewed[id]; is {
			if !mayBeReviewed(p) || g.Kind != saga.FindingRefundedAtProvider {
				f.t.Errorf("order %d, %s at %s, is in review: %s: %s", p.number, p.course, p.at.name, g.Kind, g.Detail)
			}
			continue
		}
		was, is := before.orders[id], after.orders[id]
		if p.at.name == "paypal" && p.course == courseCancel && is.Status == "failed" {
			is.Status, is.Payment, is.Note = was.Status, was.Payment, was.Note // voided is all that PayPal tells: to paysaga it never was held
		}
		if diff := cmp.Diff(was, is); diff != "" {
			f.t.Errorf("order %d, %s at %s (-before +after):\n%s", p.number, p.course, p.at.name, diff)
		}
	}
}

// wantSameMoney: the repeats moved none, though they were sent to the provider.
func (f *failover) wantSameMoney(before map[uuid.UUID][]sandbox.Charge, repeated []plan) {
	f.t.Helper()
	now := f.charges()
	for _, p := range repeated {
		if diff := cmp.Diff(money(before[orderID(p)]), money(now[orderID(p)])); diff != "" {
			f.t.Errorf("order %d, %s at %s: the repeats changed the provider's ledger (-before +after):\n%s", p.number, p.course, p.at.name, diff)
		}
	}
}

// wantSentAgain: the charges were sent once more, as nobody knew that they had been, and the provider recognized them.
func (f *failover) wantSentAgain(before map[uuid.UUID][]sandbox.Charge, repeated []plan) {
	f.t.Helper()
	now := f.charges()
	for _, p := range repeated {
		was, is := before[orderID(p)], now[orderID(p)]
		if len(was) != len(is) || len(is) > 0 && is[0].Calls <= was[0].Calls {
			f.t.Errorf("order %d, %s at %s: not sent again: %+v, before %+v", p.number, p.course, p.at.name, is, was)
		}
	}
}

// wantSameAnswers: each request is answered as before the commits were lost, but for the times at which the database wrote it down anew.
// Where the customer or the shop had gone on meanwhile, PayPal's answer to the repeat has that in it already, and so has paysaga's.
func (f *failover) wantSameAnswers(before []*intent, after *journal) {
	f.t.Helper()
	now := map[string]told{}
	for _, one := range after.all() {
		now[one.key] = one.answer
	}
	for _, p := range f.plans {
		wentOn := p.course != coursePaid && p.course != courseDeclined
		for _, one := range before {
			answer, repeated := now[one.key]
			if !repeated || !strings.HasPrefix(one.key, p.key) || wentOn && p.at.name == "paypal" {
				continue
			}
			if diff := cmp.Diff(timeless(one.answer), timeless(answer)); diff != "" {
				f.t.Errorf("%s %s of order %d, %s at %s, was answered %s, and then %s (-before +after):\n%s", one.method, one.path, p.number,
					p.course, p.at.name, one.answer, answer, diff)
			}
		}
	}
}

// timeless is an answer without the times in it.
func timeless(answer told) map[string]any {
	body := map[string]any{}
	_ = json.Unmarshal(answer.body, &body) // what is no JSON is empty
	for _, name := range []string{"created_at", "updated_at", "deadline_at"} {
		delete(body, name)
	}
	return map[string]any{"status": answer.status, "location": answer.location, "body": body}
}

// wantStock: what is gone is in confirmed orders, and what is reserved in those that a person must look at.
func (s *system) wantStock() {
	s.t.Helper()
	type waiting struct {
		SKU    string
		Pieces int64
	}
	reserved := map[string]int64{}
	for _, w := range read[waiting](s, `
		SELECT sku, sum(quantity)::bigint FROM order_items i JOIN orders o ON o.account_id = i.account_id AND o.id = i.order_id
		WHERE o.status = 'in_review' GROUP BY sku`) {
		reserved[w.SKU] = w.Pieces
	}
	for _, sku := range s.stock() {
		if gone := stockAtFirst()[sku.SKU] - sku.OnHand; gone != sku.Sold || sku.Reserved != reserved[sku.SKU] {
			s.t.Errorf("of %s %d are gone and %d are sold; %d are reserved, %d for orders in review", sku.SKU, gone, sku.Sold, sku.Reserved,
				reserved[sku.SKU])
		}
	}
}

// The limit: a provider that has forgotten the first request's identifier, as weeks went by between the loss and the repeat, takes the
// repeat for a new one. PayPal refuses it all the same, since the invoice was paid, and the payment is looked up. docs/runbook.md says
// what to do before such repeats are let in.
func TestFailoverPastTheProvidersMemory(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	f.backUp()
	lost := f.atEach(coursePaid)
	f.wantWalked(f.shops, lost)
	f.rest()
	f.failOver()
	const longest = 31 * 24 * time.Hour // the longest memory is Adyen's, of a week
	f.sandbox.AdvanceClock(longest)
	again := newShops(f.system)
	f.wantWalked(again, lost)
	f.until("the end of all sagas", f.noSagaDue)
	taken := map[string]int{}
	for _, p := range lost {
		for _, charge := range f.charges()[orderID(p)] {
			if charge.Captured > 0 {
				taken[charge.Provider]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"stripe": 2, "adyen": 2, "paypal": 1}, taken); diff != "" {
		t.Errorf("payments of an order (-want +got):\n%s", diff)
	}
}
