package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

var eventTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func noticeOf(id string) providers.Notice {
	return providers.Notice{ID: id, Type: "t", About: providers.AboutCharge, Key: "k_charge", Payment: "pay_1", At: eventTime}
}

func (b *bundle) keep(fresh int, notices ...providers.Notice) {
	b.t.Helper()
	got, err := b.store.KeepEvents(b.ctx, "fake", notices)
	if err != nil || got != fresh {
		b.t.Fatalf("keep: %d fresh, %v; want %d", got, err, fresh)
	}
}

func (b *bundle) claim(limit int) []webhook.Event {
	b.t.Helper()
	events, err := b.store.ClaimEvents(b.ctx, limit, lease)
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return events
}

func (b *bundle) settle(event webhook.Event, result webhook.Result) {
	b.t.Helper()
	if err := b.store.SettleEvent(b.ctx, event, result); err != nil {
		b.t.Fatalf("settle: %v", err)
	}
}

func idsOf(events []webhook.Event) []string {
	ids := make([]string, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.Notice.ID)
	}
	return ids
}

// An event comes out of the database as it went in, but for what the customer must do.
func TestEventIsKeptWhole(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	full := providers.Notice{
		ID: "evt_1", Type: "REFUND", About: providers.AboutRefund, Key: "k_refund", Payment: "pay_1", Reference: "re_1", At: eventTime,
		Outcome: &providers.Outcome{
			Kind: providers.Declined, Reference: "re_1", Code: "c", Detail: "d", Money: providers.Money{Amount: 3998, Currency: "EUR"},
			Decline: &providers.Decline{Code: "card_declined", Bank: "lost_card", Hard: true},
		},
	}
	hint := noticeOf("evt_2")
	secret := noticeOf("evt_3")
	secret.Outcome = &providers.Outcome{Kind: providers.ActionRequired, NextAction: action.NextAction}
	b.keep(3, full, hint, secret)
	events := b.claim(10)
	for i := range events {
		if events[i].Age < 0 || events[i].Age > time.Minute {
			t.Errorf("age %s", events[i].Age)
		}
		events[i].Age = 0
	}
	secret.Outcome = &providers.Outcome{Kind: providers.ActionRequired}
	want := []webhook.Event{
		{Provider: "fake", Notice: full, Fence: 1, Attempts: 1},
		{Provider: "fake", Notice: hint, Fence: 1, Attempts: 1},
		{Provider: "fake", Notice: secret, Fence: 1, Attempts: 1},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := b.count(`SELECT count(*) FROM webhook_events e WHERE e::text LIKE '%plain_text%'`); n != 0 {
		t.Error("a client secret is in the table")
	}
}

func TestEventIsKeptOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	one, two := noticeOf("one"), noticeOf("two")
	b.keep(1, one, one)
	b.keep(1, one, two)
	b.keep(0, one, two, one)
	b.keep(0)
	// Other providers have events of their own, and ids are told apart by case.
	if n, err := b.store.KeepEvents(b.ctx, "other", []providers.Notice{one, noticeOf("ONE")}); err != nil || n != 2 {
		t.Errorf("another provider: %d, %v", n, err)
	}
	later := one
	later.Type, later.At = "changed", eventTime.Add(time.Hour)
	b.keep(0, later)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE type = 't'`); n != 4 {
		t.Errorf("%d of 4 events are as they came first", n)
	}
}

// A message that cannot be stored as a whole leaves nothing.
func TestMessageIsKeptWholeOrNot(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	bad := noticeOf("bad")
	bad.About = "lost"
	if _, err := b.store.KeepEvents(b.ctx, "fake", []providers.Notice{noticeOf("good"), bad}); err == nil {
		t.Error("accepted")
	}
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 0 {
		t.Errorf("%d events are kept", n)
	}
}

// Messages with the same events in another order do not wait for each other for ever, and each event is new once.
func TestMessagesAtTheSameMoment(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const senders, events = 8, 50
	notices := make([]providers.Notice, 0, events)
	for i := range events {
		notices = append(notices, noticeOf(fmt.Sprint("evt_", i)))
	}
	var group sync.WaitGroup
	fresh := make([]int, senders)
	for i := range senders {
		mine := slices.Clone(notices)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		group.Go(func() {
			var err error
			if fresh[i], err = b.store.KeepEvents(b.ctx, "fake", mine); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	total := 0
	for _, n := range fresh {
		total += n
	}
	if total != events {
		t.Errorf("%d are new, want %d", total, events)
	}
}

// Only what was given up begins anew when it comes again.
func TestEventThatComesAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("again")
	other := noticeOf("other")
	other.About = providers.AboutOther
	notices := []providers.Notice{noticeOf("applied"), noticeOf("parked"), noticeOf("unmatched"), noticeOf("waiting"), other}
	b.keep(5, notices...)
	results := map[string]webhook.Result{
		"applied": {Status: webhook.Applied, Saga: ref(s)}, "parked": {Status: webhook.Parked, Saga: ref(s), Failed: true, Reason: "r"},
		"unmatched": {Status: webhook.Unmatched, Reason: "r"}, "waiting": {Status: webhook.Waiting, Pause: time.Hour, Failed: true, Reason: "r"},
		"other": {Status: webhook.Unmatched, Reason: "r"},
	}
	for _, event := range b.claim(10) {
		b.settle(event, results[event.Notice.ID])
	}
	if left := b.claim(10); len(left) != 0 {
		t.Errorf("%v are due", idsOf(left))
	}
	b.exec(`UPDATE webhook_events SET received_at = now() - interval '1 day'`)
	b.keep(2, notices...)
	again := b.claim(10)
	if got := idsOf(again); !slices.Equal(got, []string{"parked", "unmatched"}) {
		t.Errorf("%v begin anew", got)
	}
	for _, event := range again {
		if event.Attempts != 1 || event.Failures != 0 || event.Age > time.Hour || event.Fence != 2 {
			t.Errorf("%+v", event)
		}
	}
}

func TestClaimEventsTakesTheOldestAndNoMore(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for i := range 5 {
		id := fmt.Sprint("evt_", i)
		b.keep(1, noticeOf(id))
		b.exec(`UPDATE webhook_events SET next_attempt_at = now() - $2 * interval '1 minute' WHERE event_id = $1`, id, i-1)
	}
	if got := idsOf(b.claim(2)); !slices.Equal(got, []string{"evt_4", "evt_3"}) {
		t.Errorf("claimed %v, want the two oldest", got)
	}
	other, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(b.ctx, `SELECT 1 FROM webhook_events WHERE event_id = 'evt_2' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if got := idsOf(b.claim(10)); !slices.Equal(got, []string{"evt_1"}) {
		t.Errorf("claimed %v, want what is due and nobody has locked", got)
	}
	if err := other.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got := idsOf(b.claim(10)); !slices.Equal(got, []string{"evt_2"}) {
		t.Errorf("claimed %v, want the one that was locked", got)
	}
}

// Only the newest worker can settle, and only once.
func TestSettleIsFenced(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("fence")
	b.keep(1, noticeOf("evt_1"))
	first := b.claim(1)[0]
	b.exec(`UPDATE webhook_events SET next_attempt_at = now()`)
	second := b.claim(1)[0]
	if first.Fence != 1 || second.Fence != 2 || second.Attempts != 2 {
		t.Errorf("%+v, then %+v", first, second)
	}
	applied := webhook.Result{Status: webhook.Applied, Saga: ref(s)}
	refused := func(event webhook.Event) {
		t.Helper()
		if err := b.store.SettleEvent(b.ctx, event, applied); !errors.Is(err, saga.ErrLeaseLost) {
			t.Errorf("settled under fence %d: %v", event.Fence, err)
		}
	}
	refused(first)
	b.settle(second, webhook.Result{Status: webhook.Waiting, Saga: ref(s), Failed: true, Reason: "why"})
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE failures = 1 AND last_error = 'why' AND saga_key = $1 AND next_attempt_at <= now()`, s.Key); n != 1 {
		t.Error("what the second wrote is not there")
	}
	third := b.claim(1)[0]
	if third.Failures != 1 {
		t.Errorf("%+v", third)
	}
	b.settle(third, applied)
	refused(third)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status = 'applied' AND applied_at <= now() AND last_error = '' AND account_id = 'shop1'`); n != 1 {
		t.Error("what the third wrote is not there")
	}
}

// step writes one more step of a saga.
func (b *bundle) step(s saga.Saga, name saga.StepName, attempt int, provider, reference string) providers.SubKey {
	b.t.Helper()
	key := saga.SubKey(s.Key, name, attempt)
	b.exec(`INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status, provider, provider_reference)
		VALUES ($1, $2, $3, $4, $5, 'failed', $6, $7)`, s.AccountID, s.Key, name, attempt, key, provider, reference)
	return key
}

// refundOf is a refund's saga of an order.
func (b *bundle) refundOf(order saga.Saga) saga.Saga {
	b.t.Helper()
	s := saga.Saga{AccountID: order.AccountID, Key: uuid.New()}
	b.exec(`INSERT INTO sagas (account_id, key, kind, order_id, generation, state, next_attempt_at, locked_until)
		VALUES ($1, $2, 'refund', $3, 1, 'refunding', now(), now())`, s.AccountID, s.Key, order.Order.ID)
	return s
}

func TestFindSaga(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order, bystander, early := b.begin("order"), b.begin("bystander"), b.begin("early")
	b.exec(`UPDATE saga_steps SET provider_reference = 'pay_1' WHERE saga_key = $1 AND name = 'charge'`, order.Key)
	b.exec(`UPDATE saga_steps SET provider_reference = 'pay_2' WHERE saga_key = $1 AND name = 'charge'`, bystander.Key)
	captureKey := b.step(order, saga.StepCapture, 1, "fake", "cap_1")
	secondKey := b.step(order, saga.StepCharge, 2, "other", "pay_1")
	voidKey := b.step(order, saga.StepVoid, 1, "fake", "")
	refund, earlyRefund := b.refundOf(order), b.refundOf(order)
	refundKey := b.step(refund, saga.StepRefund, 1, "fake", "re_1")
	earlyRefundKey := b.step(earlyRefund, saga.StepRefund, 1, "fake", "")
	chargeKey := func(s saga.Saga) providers.SubKey { return saga.SubKey(s.Key, saga.StepCharge, 1) }
	bare := func(s saga.Saga) providers.SubKey { return providers.SubKey(s.Key.String()) }
	nobody := saga.Saga{}
	tests := map[string]struct {
		provider string
		notice   providers.Notice
		want     saga.Saga
	}{
		"a charge by its payment":                 {"fake", providers.Notice{Payment: "pay_1"}, order},
		"a charge by its key":                     {"fake", providers.Notice{Key: chargeKey(early), Payment: "pay_9"}, early},
		"a charge before our response":            {"fake", providers.Notice{Key: chargeKey(early), Payment: "pay_9", Reference: "cap_9"}, early},
		"payment before a copied key":             {"fake", providers.Notice{Key: chargeKey(bystander), Payment: "pay_1"}, order},
		"a capture by its reference":              {"fake", providers.Notice{Reference: "cap_1"}, order},
		"a capture by its key":                    {"fake", providers.Notice{Key: captureKey}, order},
		"a capture by its payment":                {"fake", providers.Notice{Payment: "pay_1", Reference: "cap_9"}, order},
		"a void by its key":                       {"fake", providers.Notice{Key: voidKey, Reference: "void_9"}, order},
		"a refund by its reference":               {"fake", providers.Notice{Payment: "pay_1", Reference: "re_1"}, refund},
		"a refund by its key":                     {"fake", providers.Notice{Key: refundKey, Payment: "pay_1"}, refund},
		"a refund before our response":            {"fake", providers.Notice{Key: earlyRefundKey, Payment: "pay_1", Reference: "re_9"}, earlyRefund},
		"a refund made at the provider":           {"fake", providers.Notice{Key: chargeKey(order), Payment: "pay_1", Reference: "re_8"}, order},
		"a refund of nobody's name":               {"fake", providers.Notice{Payment: "pay_1", Reference: "re_8"}, order},
		"reference before all else":               {"fake", providers.Notice{Key: chargeKey(bystander), Payment: "pay_2", Reference: "re_1"}, refund},
		"by the saga's own key":                   {"fake", providers.Notice{Key: bare(early)}, early},
		"by a refund's own key":                   {"fake", providers.Notice{Key: bare(refund)}, refund},
		"a second attempt elsewhere":              {"other", providers.Notice{Payment: "pay_1"}, order},
		"a second attempt, by its key":            {"other", providers.Notice{Key: secondKey}, order},
		"a second attempt, by the saga's key":     {"other", providers.Notice{Key: bare(order)}, order},
		"another provider's payment":              {"other", providers.Notice{Payment: "pay_2"}, nobody},
		"another provider's key":                  {"other", providers.Notice{Key: chargeKey(bystander)}, nobody},
		"another provider's saga":                 {"other", providers.Notice{Key: bare(bystander)}, nobody},
		"a capture's reference for a payment":     {"fake", providers.Notice{Payment: "cap_1"}, nobody},
		"nothing":                                 {"fake", providers.Notice{}, nobody},
		"the reservation's key":                   {"fake", providers.Notice{Key: saga.SubKey(order.Key, saga.StepReserve, 1)}, nobody},
		"of another system":                       {"fake", providers.Notice{Key: "INV-1", Payment: "pay_9", Reference: "x"}, nobody},
		"the key of a saga that does not exist":   {"fake", providers.Notice{Key: providers.SubKey(uuid.NewString())}, nobody},
		"a local step has an empty reference too": {"", providers.Notice{}, nobody},
	}
	for name, test := range tests {
		got, err := b.store.FindSaga(b.ctx, test.provider, test.notice)
		if test.want.AccountID == "" {
			if !errors.Is(err, saga.ErrNotFound) {
				t.Errorf("%s: %v, %v; want nothing", name, got, err)
			}
			continue
		}
		if err != nil || got != ref(test.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, ref(test.want))
		}
	}
}

// The schema's rules about events, whatever code writes them.
func TestSchemaHoldsTheRulesOfEvents(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.begin("rules")
	b.keep(1, noticeOf("evt_1"))
	const ofTheSaga = `account_id = 'shop1', saga_key = (SELECT key FROM sagas)`
	check := func(constraint, set string) rule {
		return rule{`UPDATE webhook_events SET ` + set, checkViolation, constraint}
	}
	for name, rule := range map[string]rule{
		"an event twice":             {`INSERT INTO webhook_events (provider, event_id, type, about, occurred_at) VALUES ('fake', 'evt_1', 't', 'other', now())`, uniqueViolation, "webhook_events_pkey"},
		"an event without an id":     check("webhook_events_event_id", `event_id = ''`),
		"an id that is too long":     check("webhook_events_event_id", `event_id = repeat('x', 256)`),
		"a nameless provider":        check("webhook_events_provider", `provider = ''`),
		"a type that is too long":    check("webhook_events_type", `type = repeat('x', 256)`),
		"about something else":       check("webhook_events_about", `about = 'lost'`),
		"a key that is too long":     check("webhook_events_sub_key", `sub_key = repeat('x', 65)`),
		"a payment that is too long": check("webhook_events_payment", `payment_reference = repeat('x', 256)`),
		"a reference too long":       check("webhook_events_reference", `reference = repeat('x', 256)`),
		"a reason that is too long":  check("webhook_events_last_error", `last_error = repeat('x', 256)`),
		"an unknown status":          check("", `status = 'lost', next_attempt_at = NULL`),
		"fewer attempts than none":   check("", `attempts = -1`),
		"more failures than tries":   check("webhook_events_failures", `failures = 1`),
		"waiting for nothing":        check("webhook_events_waiting_are_due", `next_attempt_at = NULL`),
		"parked and due":             check("webhook_events_waiting_are_due", `status = 'parked'`),
		"applied at no time":         check("webhook_events_applied_at", `status = 'applied', next_attempt_at = NULL, `+ofTheSaga),
		"applied too early":          check("webhook_events_applied_at", `applied_at = now()`),
		"applied to nothing":         check("webhook_events_saga_of_status", `status = 'applied', next_attempt_at = NULL, applied_at = now()`),
		"unmatched and matched":      check("webhook_events_saga_of_status", `status = 'unmatched', next_attempt_at = NULL, `+ofTheSaga),
		"half a saga":                check("webhook_events_saga_whole", `account_id = 'shop1'`),
		"a saga that is none":        {`UPDATE webhook_events SET account_id = 'shop1', saga_key = gen_random_uuid()`, foreignViolation, ""},
	} {
		_, err := b.pool.Exec(b.ctx, rule.sql)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != rule.code || rule.constraint != "" && refused.ConstraintName != rule.constraint {
			t.Errorf("%s: %v; want %s by %q", name, err, rule.code, rule.constraint)
		}
	}
}
