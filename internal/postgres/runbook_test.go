package postgres_test

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

// runbook is what docs/runbook.md tells an operator to run: queries, and procedures by name.
func runbook(t *testing.T) (queries []string, procedures map[string]string, kinds []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, found := range regexp.MustCompile(`(?s)psql "\$DATABASE_URL" -c "(.*?)"`).FindAllStringSubmatch(text, -1) {
		queries = append(queries, found[1])
	}
	procedures = map[string]string{}
	for _, found := range regexp.MustCompile(`(?s)<<'SQL'\n-- ([a-z ]+)\n(.*?)\nSQL\n`).FindAllStringSubmatch(text, -1) {
		procedures[found[1]] = found[2]
	}
	_, table, _ := strings.Cut(text, "| `kind` |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(first, -1) {
			kinds = append(kinds, name[1])
		}
	}
	slices.Sort(kinds)
	return queries, procedures, slices.Compact(kinds)
}

// run is a procedure as psql runs it, its variables filled in.
func (b *bundle) run(procedure string, variables map[string]string) error {
	for name, value := range variables {
		procedure = strings.ReplaceAll(procedure, ":'"+name+"'", "'"+value+"'")
	}
	_, err := b.pool.Exec(b.ctx, procedure, pgx.QueryExecModeSimpleProtocol)
	return err
}

// decide hands a person's decision to a saga, about a payment of 1200 cents, or of the amount given.
func (b *bundle) decide(resolution saga.Resolution, s saga.Saga, amount int64) error {
	b.t.Helper()
	claim := requestClaim("decision")
	s = b.load(s)
	s.Pending = claim.Endpoint
	decision := saga.Decision{Resolution: resolution, Actor: "operator test", Reason: "a test", Payment: "pay_1", Amount: amount}
	change, err := saga.Advance(s, saga.Event{Kind: saga.Decided, Decision: &decision}, b.policy())
	if err != nil {
		return err
	}
	const noLease = 0 // the server dies here
	_, err = b.store.Ask(b.ctx, claim, finish(change, s), noLease)
	return err
}

// The statements that only look, each as it stands.
func TestRunbookQueries(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.contradict(b.confirmed("order"))
	queries, _, _ := runbook(t)
	if len(queries) < 9 {
		t.Errorf("only %d queries are found", len(queries))
	}
	for _, query := range queries {
		if _, err := b.pool.Exec(b.ctx, query, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%v in\n%s", err, query)
		}
	}
}

// The keys that are still needed are those of everything that is sealed.
func TestRunbookCountsWhatIsSealed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	queries, _, _ := runbook(t)
	at := slices.IndexFunc(queries, func(query string) bool { return strings.Contains(query, "payment_data") })
	if at < 0 {
		t.Fatal("the runbook does not count sealed payment data")
	}
	b.beginPaid("data", saga.Payment{Provider: "fake", MethodData: []byte(`{"a":1}`)})
	awaiting := b.apply(b.outcome(b.begin("action"), saga.CallCharge, action)) // its answer is kept
	b.ask(b.load(awaiting), "continue", saga.Request{Kind: saga.RequestContinue, Details: []byte(`{"b":2}`)})
	rows, err := b.pool.Query(b.ctx, queries[at])
	if err != nil {
		t.Fatal(err)
	}
	type sealed struct {
		What, Key string
		Count     int
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealed])
	if err != nil {
		t.Fatal(err)
	}
	want := []sealed{{"answer", "test", 1}, {"details", "test", 1}, {"next action", "test", 1}, {"payment data", "test", 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sealed (-want +got):\n%s", diff)
	}
}

// review is a saga in review, as one kind of finding has it.
type review struct {
	saga func(b *bundle) saga.Saga
	fits map[saga.Resolution]end // the decisions that fit it, and what they come to
	says map[saga.Call]providers.Outcome
	took int64 // by "taken", in cents; all of it unless given
}

// end is how an order, or a refund of 300 cents, and its stock stand in the end.
type end struct {
	state    saga.State
	status   string
	onHand   int64
	reserved int64
	payment  saga.PaymentStatus
}

var (
	confirmed = end{saga.Completed, "confirmed", 8, 0, saga.PaymentCaptured}
	canceled  = end{saga.RolledBack, "canceled", 10, 0, saga.PaymentVoided}
	givenBack = end{saga.RolledBack, "canceled", 10, 0, saga.PaymentRefunded}
	failed    = end{saga.RolledBack, "failed", 10, 0, saga.PaymentDeclined}
	neverPaid = end{saga.RolledBack, "failed", 10, 0, saga.PaymentNone}
	heldAgain = end{saga.Awaiting, "confirmed", 10, 2, saga.PaymentAuthorized}
	refunded  = end{saga.Completed, "succeeded", 8, 0, saga.PaymentPartiallyRefunded}
	unpaid    = end{saga.RolledBack, "failed", 8, 0, saga.PaymentCaptured}
)

var (
	partRefunded = providers.Outcome{Kind: providers.Succeeded, Reference: "pay_1", Code: providers.CodePartiallyRefunded}
	several      = providers.Outcome{Kind: providers.Unknown, Code: providers.CodeSeveralPayments}
	rejected     = providers.Outcome{Kind: providers.Rejected, Code: "bad_request"}
	notFound     = providers.Outcome{Kind: providers.NotFound}
	processing   = providers.Outcome{Kind: providers.Processing, Reference: "pay_1"}
	tooLate      = providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	partly       = providers.Outcome{Kind: providers.Authorized, Reference: "pay_1", Code: providers.CodePartiallyCaptured}
)

// The runbook has every kind of finding that there is, and tells of no other.
func TestRunbookHasEveryFinding(t *testing.T) {
	t.Parallel()
	tried := make([]string, 0, len(reviews))
	for name := range reviews {
		kind, _, _ := strings.Cut(name, " ")
		tried = append(tried, kind)
	}
	slices.Sort(tried)
	_, _, listed := runbook(t)
	if diff := cmp.Diff(slices.Compact(tried), listed); diff != "" {
		t.Errorf("kinds (-tried here +in the runbook):\n%s", diff)
	}
}

// Each decision, on each kind of finding: where it fits it comes to the end that it promises, and else it changes nothing. They
// share a database, which is emptied between them.
func TestDecisionsOnEveryFinding(t *testing.T) { //nolint:tparallel // its parts come one after the other, in one database
	t.Parallel()
	shared := newBundle(t)
	for name, test := range reviews { //nolint:paralleltest // see above
		for resolution, want := range test.fits {
			t.Run(name+"/"+string(resolution), func(t *testing.T) {
				b := &bundle{t: t, ctx: t.Context(), pool: shared.pool, store: shared.store, log: shared.log}
				b.empty()
				s := b.inReview(name, test)
				if resolution == slices.Min(slices.Collect(maps.Keys(test.fits))) { // once for each review
					b.refusedDecisions(s, test)
				}
				if err := b.decide(resolution, s, test.amount()); err != nil {
					t.Fatal(err)
				}
				b.work(b.policy(), test.says)
				b.wantEnd(s, want)
			})
		}
	}
}

func isRefusal(err error) bool {
	_, refused := errors.AsType[*saga.RefusedError](err)
	return refused
}

// empty leaves ten cups, and nothing of earlier orders.
func (b *bundle) empty() {
	b.t.Helper()
	for _, table := range []string{
		"audit_log", "findings", "outbox_events", "idempotency_keys", "webhook_events", "refunds", "saga_steps", "reservations", "sagas",
		"order_items", "orders",
	} {
		b.exec(`DELETE FROM ` + table)
	}
	b.exec(`UPDATE stock SET on_hand = 10, reserved = 0 WHERE sku = 'cup'`)
}

func (r review) amount() int64 {
	if r.took == 0 {
		return allOfIt
	}
	return r.took
}

func (b *bundle) inReview(name string, r review) saga.Saga {
	b.t.Helper()
	s := b.load(r.saga(b))
	kind, _, _ := strings.Cut(name, " ")
	if open := b.count(`SELECT count(*) FROM findings WHERE saga_key = $1 AND kind = $2 AND resolved_at IS NULL`, s.Key, kind); open != 1 ||
		s.State != saga.NeedsReview {
		b.t.Fatalf("the saga is %s, with %d findings of its kind", s.State, open)
	}
	return s
}

// refusedDecisions tries those that do not fit.
func (b *bundle) refusedDecisions(s saga.Saga, r review) {
	b.t.Helper()
	before := b.dump()
	for _, resolution := range []saga.Resolution{again, taken, nothing, leaveIt, wasGiven, notGiven} {
		if _, fits := r.fits[resolution]; fits {
			continue
		}
		if err := b.decide(resolution, s, r.amount()); !isRefusal(err) {
			b.t.Errorf("%q was not refused: %v", resolution, err)
		}
	}
	if diff := cmp.Diff(before, b.dump()); diff != "" {
		b.t.Fatalf("refused decisions changed (-before +after):\n%s", diff)
	}
}

// work does what recovery does, with a provider that says what the test has it say and else that all went well.
func (b *bundle) work(policy saga.Policy, says map[saga.Call]providers.Outcome) {
	b.t.Helper()
	due, err := b.store.ClaimDue(b.ctx, 10, lease)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range due {
		for range 16 {
			event := saga.Event{Kind: saga.Resume}
			if call := saga.Next(s, policy.Windows); call == saga.CallCharge && (b.steps == nil || s.Newest(saga.StepCharge).Sends > 0) {
				b.t.Fatal("the order is charged again")
			} else if call != saga.CallNone {
				outcome, told := says[call]
				if !told {
					outcome = providers.Outcome{Kind: providers.Succeeded, Reference: s.Order.Payment.ProviderReference}
				}
				event = saga.Event{Kind: saga.Answered, Call: call, Outcome: outcome, Sends: 1}
			}
			change, err := saga.Advance(s, event, policy)
			if err != nil {
				b.t.Fatal(err)
			}
			change = finish(change, s)
			s = b.apply(change)
			if change.Release {
				break
			}
		}
	}
}

func (b *bundle) wantEnd(s saga.Saga, want end) {
	b.t.Helper()
	s = b.load(s)
	got := end{state: s.State, status: string(s.Order.Status), payment: s.Order.Payment.Status}
	if s.Refund != nil {
		got.status = string(s.Refund.Status)
	}
	stock, err := b.store.GetStock(b.ctx, account, "cup")
	if err != nil {
		b.t.Fatal(err)
	}
	got.onHand, got.reserved = stock.OnHand, stock.Reserved
	if got != want {
		b.t.Errorf("it ended as %+v, want %+v", got, want)
	}
	if s.Order.Payment.RefundingAmount != 0 {
		b.t.Errorf("%d cents are held for a refund", s.Order.Payment.RefundingAmount)
	}
	if open := b.count(`SELECT count(*) FROM findings WHERE resolved_at IS NULL`); open != 0 {
		b.t.Errorf("%d findings are open", open)
	}
	if noted := b.count(`SELECT count(*) FROM audit_log WHERE actor = 'operator test' AND reason = 'a test'`); noted != 1 {
		b.t.Errorf("the audit log has %d lines", noted)
	}
}

// Where nothing can be looked up, a retry waits for a notice: it gives nothing up and gives nothing back.
func TestRetryWithoutLookup(t *testing.T) {
	t.Parallel()
	noLookup := policy
	noLookup.Windows = providers.Windows{Repost: 6 * 24 * time.Hour, NoLookup: true, Hold: 28 * 24 * time.Hour}
	for name, in := range map[string]func(b *bundle) saga.Saga{
		"an unknown charge": func(b *bundle) saga.Saga { return b.answer(tired(b.begin("order")), saga.CallCharge, unknown, 0) },
		"a customer":        func(b *bundle) saga.Saga { return b.answer(b.awaiting(), saga.CallLookup, notFound, 0) },
		"held money":        func(b *bundle) saga.Saga { return b.event(b.held("order"), saga.Event{Kind: saga.Abandoned}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := in(b)
			if err := b.decide(again, s, allOfIt); err != nil {
				t.Fatal(err)
			}
			b.work(noLookup, nil)
			if s = b.load(s); s.State != saga.Awaiting {
				t.Errorf("the saga is %s", s.State)
			}
			b.wantStock("cup", 10, 2)
		})
	}
}

// An event that was given up, or applied before its saga was put right, is brought again.
func TestRunbookBringsEventsAgain(t *testing.T) {
	t.Parallel()
	_, procedures, _ := runbook(t)
	for _, status := range []webhook.Status{webhook.Applied, webhook.Parked, webhook.Unmatched} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.keep(1, noticeOf("e1"))
			result := webhook.Result{Status: status, Reason: "a test"}
			if status != webhook.Unmatched {
				result.Saga = ref(b.confirmed("order"))
			}
			b.settle(b.claim(1)[0], result)
			variables := map[string]string{"account": account, "provider": "fake", "event": "e1", "who": "ops:test"}
			if err := b.run(procedures["bring again"], variables); err != nil {
				t.Fatal(err)
			}
			if got := idsOf(b.claim(2)); !slices.Equal(got, []string{"e1"}) {
				t.Errorf("due are %v", got)
			}
			if err := b.run(procedures["bring again"], variables); err == nil {
				t.Error("an event that waits was brought again")
			}
		})
	}
}
