package postgres_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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

// procedure runs one of the runbook's procedures about a saga whose payment is of 1200 cents, or of the amount given.
func (b *bundle) procedure(name string, s saga.Saga, amount string) error {
	b.t.Helper()
	_, procedures, _ := runbook(b.t)
	if procedures[name] == "" {
		b.t.Fatalf("the runbook has no procedure %q", name)
	}
	return b.run(procedures[name], map[string]string{
		"account": account, "saga": s.Key.String(), "who": "ops:test", "why": "a test", "payment": "pay_1", "amount": amount,
	})
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
	fits map[string]end // the procedures that fit it, and what they come to
	says map[saga.Call]providers.Outcome
	took string // by "taken"; all of it unless given
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

// answer brings an outcome, after a wait.
func (b *bundle) answer(s saga.Saga, call saga.Call, outcome providers.Outcome, wait time.Duration) saga.Saga {
	b.t.Helper()
	s.ReadAt = s.ReadAt.Add(wait)
	return b.apply(b.outcome(s, call, outcome))
}

// event brings what is no outcome.
func (b *bundle) event(s saga.Saga, e saga.Event) saga.Saga {
	b.t.Helper()
	return b.apply(finish(b.advance(s, e), s))
}

// tired is a saga that has tried as often as it may.
func tired(s saga.Saga) saga.Saga {
	s.Failures = policy.MaxFailures
	return s
}

func (b *bundle) finding(s saga.Saga, kind string) saga.Saga {
	b.t.Helper()
	return b.event(s, saga.Event{Kind: saga.Contradicted, Code: kind, Detail: "It says so."})
}

func (b *bundle) awaiting() saga.Saga {
	b.t.Helper()
	return b.answer(b.begin("order"), saga.CallCharge, action, 0)
}

// voiding is an order that was given up at its deadline.
func (b *bundle) voiding() saga.Saga {
	b.t.Helper()
	return b.answer(b.awaiting(), saga.CallLookup, action, time.Hour)
}

// undoing is an order whose money was taken after all, and is given back.
func (b *bundle) undoing() saga.Saga {
	b.t.Helper()
	return b.answer(b.voiding(), saga.CallVoid, tooLate, 0)
}

func (b *bundle) rolledBack() saga.Saga {
	b.t.Helper()
	return b.answer(b.voiding(), saga.CallVoid, providers.Outcome{Kind: providers.Succeeded}, 0)
}

func (b *bundle) capturing(amount int64, final bool) saga.Saga {
	b.t.Helper()
	return b.captureMore(b.held("order"), amount, final)
}

func (b *bundle) captureMore(s saga.Saga, amount int64, final bool) saga.Saga {
	b.t.Helper()
	request := saga.Request{Kind: saga.RequestCapture, Key: uuid.New(), Amount: amount, Final: final}
	return b.event(s, saga.Event{Kind: saga.Asked, Request: &request})
}

// refundOf300 is a refund of 300 cents of an order that is paid.
func (b *bundle) refundOf300() saga.Saga {
	b.t.Helper()
	return b.refund(b.confirmed("order"), "refund", 300)
}

// late is a payment that came about after its order was given up.
func (b *bundle) late() saga.Saga {
	b.t.Helper()
	s := b.rolledBack()
	return b.event(s, saga.Event{Kind: saga.Late, SubKey: s.Newest(saga.StepCharge).SubKey, Payment: "pay_1", Outcome: succeeded})
}

const (
	again     = "look again"
	taken     = "taken"
	nothing   = "nothing kept"
	leaveIt   = "leave as it is"
	wasGiven  = "given"
	notGiven  = "not given"
	allOfIt   = "1200"
	longAfter = 3 * time.Hour // every limit of the policy but the windows is over
)

// reviews are the findings, each as the code comes to it, with all procedures that fit. Those of notices, which no outcome brings
// about, are made by what a notice leads to.
var reviews = map[string]review{
	"amount_mismatch": {
		func(b *bundle) saga.Saga {
			wrong := succeeded
			wrong.Money = providers.Money{Amount: 999, Currency: "EUR"}
			return b.answer(b.begin("order"), saga.CallCharge, wrong, 0)
		},
		map[string]end{again: neverPaid, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: {Kind: providers.Canceled, Code: providers.CodeRefunded}},
		"",
	},
	"amount_mismatch of captures": {
		func(b *bundle) saga.Saga {
			wrong := providers.Outcome{Kind: providers.Succeeded, Money: providers.Money{Amount: 700, Currency: "EUR"}}
			return b.answer(b.capturing(500, true), saga.CallCapture, wrong, 0)
		},
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "700",
	},
	"cannot_be_driven": {
		func(b *bundle) saga.Saga { return b.event(b.begin("order"), saga.Event{Kind: saga.Abandoned}) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"cannot_be_driven while it is held": {
		func(b *bundle) saga.Saga { return b.event(b.held("order"), saga.Event{Kind: saga.Abandoned}) },
		map[string]end{again: heldAgain, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: authorized},
		"",
	},
	"cannot_be_driven after its end": {
		func(b *bundle) saga.Saga { return b.event(b.confirmed("order"), saga.Event{Kind: saga.Abandoned}) },
		map[string]end{leaveIt: confirmed},
		nil, "",
	},
	"capture_failed of what was shipped": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), providers.CodeCaptureFailed) },
		map[string]end{leaveIt: confirmed},
		nil, "",
	},
	"capture_failed": {
		func(b *bundle) saga.Saga {
			back := providers.Outcome{Kind: providers.Declined, Code: providers.CodeCaptureFailed}
			return b.answer(b.capturing(500, true), saga.CallCapture, back, 0)
		},
		map[string]end{again: heldAgain, taken: confirmed, nothing: canceled},
		map[saga.Call]providers.Outcome{saga.CallLookup: authorized},
		"",
	},
	"capture_overdue": {
		func(b *bundle) saga.Saga {
			return b.answer(b.capturing(500, true), saga.CallCapture, processing, longAfter)
		},
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "500",
	},
	"capture_unclear": {
		func(b *bundle) saga.Saga {
			s := b.answer(b.capturing(500, false), saga.CallCapture, succeeded, 0)
			return b.answer(b.captureMore(s, 200, false), saga.CallLookup, partly, 0)
		},
		map[string]end{again: {saga.Awaiting, "confirmed", 10, 2, saga.PaymentCaptured}, taken: confirmed, nothing: givenBack},
		nil, "700",
	},
	"captured_at_provider of what was shipped": {
		func(b *bundle) saga.Saga { return b.finding(b.confirmed("order"), "captured_at_provider") },
		map[string]end{leaveIt: confirmed},
		nil, "",
	},
	"captured_at_provider after its end": {
		func(b *bundle) saga.Saga { return b.finding(b.rolledBack(), "captured_at_provider") },
		map[string]end{nothing: canceled, leaveIt: canceled},
		nil, "",
	},
	"captured_at_provider": {
		func(b *bundle) saga.Saga { return b.finding(b.capturing(500, true), "captured_at_provider") },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"charged_after_refusal": {
		func(b *bundle) saga.Saga {
			return b.finding(b.answer(b.begin("order"), saga.CallCharge, declined, 0), "charged_after_refusal")
		},
		map[string]end{nothing: failed, leaveIt: failed},
		nil, "",
	},
	"charged_after_refusal while another payment is awaited": {
		func(b *bundle) saga.Saga { return b.finding(declinedOrder(b), "charged_after_refusal") },
		map[string]end{taken: confirmed, nothing: failed},
		nil, "",
	},
	"duplicate_charge": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, several, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"payment_missing": {
		func(b *bundle) saga.Saga { return b.answer(b.awaiting(), saga.CallLookup, notFound, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"refund_failed": {
		func(b *bundle) saga.Saga {
			return b.finding(b.answer(b.undoing(), saga.CallRefund, given, 0), "refund_failed")
		},
		map[string]end{nothing: givenBack, leaveIt: givenBack},
		nil, "",
	},
	"refund_overdue of an order": {
		func(b *bundle) saga.Saga { return b.answer(b.undoing(), saga.CallRefund, accepted, longAfter) },
		map[string]end{again: givenBack, taken: confirmed, nothing: givenBack},
		nil, "",
	},
	"refund_overdue": {
		func(b *bundle) saga.Saga {
			return b.answer(b.refundOf300(), saga.CallRefund, accepted, longAfter)
		},
		map[string]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, "",
	},
	"refunded_at_provider": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, partRefunded, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: givenBack},
		nil, "",
	},
	"refunded_at_provider of held money": {
		func(b *bundle) saga.Saga {
			return b.answer(b.held("order"), saga.CallLookup, providers.Outcome{Kind: providers.Canceled, Code: providers.CodeRefunded}, 0)
		},
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"refunded_at_provider of a refund": {
		func(b *bundle) saga.Saga {
			before := providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}
			return b.answer(b.refundOf300(), saga.CallRefund, before, 0)
		},
		map[string]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, "",
	},
	"refused_after_send": {
		func(b *bundle) saga.Saga {
			s := b.begin("order")
			s = b.event(s, saga.Event{Kind: saga.Answered, Call: saga.CallCharge, Outcome: rejected, Sends: 2, Unsure: true})
			return b.answer(s, saga.CallLookup, notFound, 48*time.Hour)
		},
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"tries_exhausted": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.begin("order")), saga.CallCharge, unknown, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"tries_exhausted of a void": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.voiding()), saga.CallVoid, unknown, 0) },
		map[string]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"tries_exhausted of a late payment's void": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.late()), saga.CallVoid, unknown, 0) },
		map[string]end{again: canceled, nothing: canceled},
		nil, "",
	},
	"tries_exhausted of an order's refund": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.undoing()), saga.CallRefund, unknown, 0) },
		map[string]end{again: givenBack, taken: confirmed, nothing: givenBack},
		nil, "",
	},
	"tries_exhausted of a refund": {
		func(b *bundle) saga.Saga { return b.answer(tired(b.refundOf300()), saga.CallRefund, unknown, 0) },
		map[string]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, "",
	},
	"unexpected_outcome": {
		func(b *bundle) saga.Saga { return b.answer(b.begin("order"), saga.CallCharge, authorized, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"unexpected_outcome of a capture": {
		func(b *bundle) saga.Saga { return b.answer(b.capturing(1200, true), saga.CallCapture, notFound, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"unexpected_outcome of a continue": {
		func(b *bundle) saga.Saga {
			s := b.event(b.awaiting(), saga.Event{Kind: saga.Asked, Request: &saga.Request{Kind: saga.RequestContinue}})
			return b.answer(s, saga.CallContinue, notFound, 0)
		},
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"unexpected_outcome of a void": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, declined, 0) },
		map[string]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"unexpected_outcome of an order's refund": {
		func(b *bundle) saga.Saga { return b.answer(b.undoing(), saga.CallRefund, returned, 0) },
		map[string]end{taken: confirmed, nothing: givenBack},
		nil, "",
	},
	"unexpected_outcome of a refund": {
		func(b *bundle) saga.Saga { return b.answer(b.refundOf300(), saga.CallRefund, notFound, 0) },
		map[string]end{again: refunded, wasGiven: refunded, notGiven: unpaid},
		nil, "",
	},
	"unexpected_outcome of a refund that was given": {
		func(b *bundle) saga.Saga {
			return b.answer(b.answer(b.refundOf300(), saga.CallRefund, given, 0), saga.CallCheckRefund, notFound, 0)
		},
		map[string]end{wasGiven: refunded, notGiven: unpaid},
		nil, "",
	},
	"void_overdue": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, processing, longAfter) },
		map[string]end{again: canceled, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"void_refused": {
		func(b *bundle) saga.Saga { return b.answer(b.voiding(), saga.CallVoid, rejected, 0) },
		map[string]end{again: confirmed, taken: confirmed, nothing: canceled},
		nil, "",
	},
	"void_refused of a late payment": {
		func(b *bundle) saga.Saga { return b.answer(b.late(), saga.CallVoid, rejected, 0) },
		map[string]end{nothing: canceled},
		nil, "",
	},
}

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

// Each procedure, on each kind of finding: where it fits it comes to the end that it promises, and else it changes nothing. They
// share a database, which is emptied between them.
func TestRunbookProcedures(t *testing.T) { //nolint:tparallel // its parts come one after the other, in one database
	t.Parallel()
	shared := newBundle(t)
	for name, test := range reviews { //nolint:paralleltest // see above
		for procedure, want := range test.fits {
			t.Run(name+"/"+procedure, func(t *testing.T) {
				b := &bundle{t: t, ctx: t.Context(), pool: shared.pool, store: shared.store}
				b.empty()
				s := b.inReview(name, test)
				if procedure == slices.Min(slices.Collect(maps.Keys(test.fits))) { // once for each review
					b.refusedProcedures(s, test)
				}
				if err := b.procedure(procedure, s, test.amount()); err != nil {
					t.Fatal(err)
				}
				b.work(policy, test.says)
				b.wantEnd(s, want)
			})
		}
	}
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

func (r review) amount() string {
	if r.took == "" {
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

// refusedProcedures tries those that do not fit.
func (b *bundle) refusedProcedures(s saga.Saga, r review) {
	b.t.Helper()
	before := b.dump()
	for _, procedure := range []string{again, taken, nothing, leaveIt, wasGiven, notGiven} {
		if _, fits := r.fits[procedure]; fits {
			continue
		}
		if err := b.procedure(procedure, s, r.amount()); err == nil || !strings.Contains(err.Error(), "division by zero") {
			b.t.Errorf("%q was not refused: %v", procedure, err)
		}
	}
	if diff := cmp.Diff(before, b.dump()); diff != "" {
		b.t.Fatalf("refused procedures changed (-before +after):\n%s", diff)
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
			if call := saga.Next(s, policy.Windows); call == saga.CallCharge {
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
	if noted := b.count(`SELECT count(*) FROM audit_log WHERE actor = 'ops:test'`); noted != 1 {
		b.t.Errorf("the audit log has %d lines", noted)
	}
}

// Where nothing can be looked up, looking again waits for a notice: it gives nothing up and gives nothing back.
func TestRunbookLookAgainWithoutLookup(t *testing.T) {
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
			if err := b.procedure(again, s, allOfIt); err != nil {
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
