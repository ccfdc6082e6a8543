package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

var errBroken = errors.New("write change: the disk is full")

func (b *bundle) wantRow(id string, status webhook.Status, attempts, failures int) {
	b.t.Helper()
	var got webhook.Status
	var tried, failed int
	err := b.pool.QueryRow(context.Background(), `SELECT status, attempts, failures FROM webhook_events WHERE event_id = $1`, id).
		Scan(&got, &tried, &failed)
	if err != nil || got != status || tried != attempts || failed != failures {
		b.t.Errorf("%s, %d attempts, %d failures, %v; want %s, %d, %d", got, tried, failed, err, status, attempts, failures)
	}
}

// wantApplied waits until so many events are applied.
func (b *bundle) wantApplied(events int) {
	b.t.Helper()
	for events > 0 {
		if b.next().result.Status == webhook.Applied {
			events--
		}
	}
}

// The same event any number of times is one row and is applied once, before and after.
func TestCopiesOfAnEvent(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ref := b.charged("stripe", "pi_1")
	m := stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", chargeKey(ref.Key), time.Now())
	b.accepted(m, m, m)
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 1 {
		t.Errorf("%d rows", n)
	}
	b.run()
	b.wantNext(webhook.Applied, false)
	b.accepted(m, stripeMessage("evt_2", "payment_intent.succeeded", "pi_1", "", time.Now()), m)
	if s := b.wantNext(webhook.Applied, false); s.event.Notice.ID != "evt_2" {
		t.Errorf("%s is applied a second time", s.event.Notice.ID)
	}
	for _, c := range b.runner.all() {
		if c.ref != ref || c.notice.Payment != "pi_1" || c.notice.Type != "payment_intent.succeeded" {
			t.Errorf("brought %+v to %+v", c.notice, c.ref)
		}
	}
	b.wantRow("evt_1", webhook.Applied, 1, 0)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE account_id = $1 AND saga_key = $2 AND applied_at IS NOT NULL`, ref.AccountID, ref.Key); n != 2 {
		t.Errorf("%d events of the saga", n)
	}
}

// The notice that the runner gets is the one that was received.
func TestNoticeSurvivesTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ref := b.charged("adyen", "")
	b.accepted(adyenMessage(adyenItem{psp: "P1", reference: string(chargeKey(ref.Key)), code: "AUTHORISATION", success: "true"}))
	b.run()
	b.wantNext(webhook.Applied, false)
	got := b.runner.all()[0]
	outcome := got.notice.Outcome
	if got.ref != ref || got.notice.About != providers.AboutCharge || got.notice.Key != chargeKey(ref.Key) || got.notice.Payment != "P1" ||
		got.notice.ID != "AUTHORISATION|P1|true|TestMerchant" || !got.notice.At.Equal(time.Date(2026, 8, 6, 15, 15, 34, 0, time.UTC)) ||
		outcome == nil || outcome.Kind != providers.Authorized || outcome.Reference != "P1" || outcome.Money != (providers.Money{Amount: 3998, Currency: "EUR"}) {
		t.Errorf("%+v %+v", got.notice, outcome)
	}
}

// A failed application is tried again until it succeeds, whatever copies come meanwhile.
func TestFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ref := b.charged("stripe", "pi_1")
	b.runner.react = func(_ context.Context, _ call, before int) error {
		switch before {
		case 0:
			return errBroken
		case 1:
			panic("a nil somewhere: whsec_secret")
		}
		return nil
	}
	m := stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", chargeKey(ref.Key), time.Now())
	b.accepted(m)
	b.run()
	first := b.wantNext(webhook.Waiting, true)
	if first.result.Reason != errBroken.Error() || first.result.Pause <= 0 || first.result.Saga != ref {
		t.Errorf("%+v", first.result)
	}
	b.accepted(m, m)
	b.due()
	if second := b.wantNext(webhook.Waiting, true); strings.Contains(second.result.Reason, "whsec") || second.result.Reason == "" {
		t.Errorf("%+v", second.result)
	}
	b.due()
	b.wantNext(webhook.Applied, false)
	b.wantRow("evt_1", webhook.Applied, 3, 2)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE last_error <> ''`); n != 0 {
		t.Error("an applied event has an error")
	}
}

// One event that fails keeps no other waiting, not even of the same saga.
func TestOneEventOnlyFails(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ref := b.charged("stripe", "pi_1")
	b.runner.react = func(_ context.Context, c call, _ int) error {
		if c.notice.ID == "evt_bad" {
			panic("always")
		}
		return nil
	}
	b.accepted(stripeMessage("evt_bad", "payment_intent.processing", "pi_1", chargeKey(ref.Key), time.Now()))
	for i := range 5 {
		b.accepted(stripeMessage(fmt.Sprintf("evt_%d", i), "payment_intent.succeeded", "pi_1", "", time.Now()))
	}
	b.run()
	for applied := 0; applied < 5; {
		if s := b.next(); s.result.Status == webhook.Applied {
			applied++
		} else if s.event.Notice.ID != "evt_bad" && s.result.Failed {
			t.Errorf("%s failed", s.event.Notice.ID)
		}
	}
}

// Somebody who drives the saga is waited for, however often that takes; it is no failure.
func TestBusySagaIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	const turns = 4
	b.runner.react = func(_ context.Context, _ call, before int) error {
		if before < turns {
			return fmt.Errorf("seize saga: %w", saga.ErrLeaseLost)
		}
		return nil
	}
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	b.run()
	for range turns { // due again by themselves, within the second
		if s := b.wantNext(webhook.Waiting, false); s.result.Pause >= time.Second {
			t.Errorf("waits for %s", s.result.Pause)
		}
	}
	b.wantNext(webhook.Applied, false)
	b.wantRow("evt_1", webhook.Applied, turns+1, 0)
}

// Two events of one saga are not brought to it at the same time by one process.
func TestEventsOfOneSagaTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	entered, leave := make(chan struct{}), make(chan struct{})
	b.runner.react = func(context.Context, call, int) error {
		entered <- struct{}{}
		<-leave
		return nil
	}
	b.accepted(stripeMessage("evt_1", "payment_intent.created", "pi_1", "", time.Now()), stripeMessage("evt_2", "payment_intent.succeeded", "pi_1", "", time.Now()))
	b.run()
	<-entered
	if s := b.wantNext(webhook.Waiting, false); !strings.Contains(s.result.Reason, "lease") {
		t.Errorf("%+v", s.result)
	}
	if n := len(b.runner.all()); n != 1 {
		t.Errorf("%d calls at once", n)
	}
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	b.wantApplied(2)
}

// An event that comes before what it is about is recorded waits for it.
func TestEventComesFirst(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	b.run()
	if s := b.wantNext(webhook.Waiting, false); s.result.Saga != (saga.Ref{}) || s.result.Pause <= 0 {
		t.Errorf("%+v", s.result)
	}
	ref := b.charged("stripe", "pi_1")
	b.due()
	if s := b.wantNext(webhook.Applied, false); s.result.Saga != ref {
		t.Errorf("%+v", s.result)
	}
}

// What is about nothing of ours is searched for, then kept; sent again, as by hand, it is searched for again.
func TestUnknownReferenceIsKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	m := adyenMessage(adyenItem{psp: "P9", reference: "another system's", code: "AUTHORISATION", success: "true"})
	b.accepted(m)
	b.exec(`UPDATE webhook_events SET attempts = 15`)
	b.run()
	if s := b.wantNext(webhook.Unmatched, false); s.result.Reason == "" {
		t.Error("no reason")
	}
	id := "AUTHORISATION|P9|true|TestMerchant"
	b.wantRow(id, webhook.Unmatched, 16, 0)
	ref := b.charged("adyen", "P9")
	b.accepted(m)
	if s := b.wantNext(webhook.Applied, false); s.result.Saga != ref {
		t.Errorf("%+v", s.result)
	}
	b.wantRow(id, webhook.Applied, 1, 0)
}

// Types that nobody knows, and events about no call of ours, are kept at once, and stay so.
func TestUnknownTypesAreKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	messages := []message{
		signStripe(`{"id":"evt_1","object":"event","type":"treasury.blessed","created":1772366400,"data":{"object":{"id":"x","object":"blessing"}}}`),
		adyenMessage(adyenItem{psp: "report.csv", code: "REPORT_AVAILABLE", success: "true"}),
		b.payPal.message("WH-1", "CUSTOMER.DISPUTE.CREATED", `{"dispute_id":"PP-D-1"}`),
	}
	b.accepted(messages...)
	b.run()
	for range messages {
		b.wantNext(webhook.Unmatched, false)
	}
	b.accepted(messages...)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status = 'unmatched' AND about = 'other' AND attempts = 1`); n != len(messages) {
		t.Errorf("%d are kept", n)
	}
	if n := len(b.runner.all()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// An event is good however old it is; so is one whose time makes no sense.
func TestMonthsLate(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	for id, created := range map[string]time.Time{
		"evt_old": time.Now().AddDate(0, -11, 0), "evt_ahead": time.Now().AddDate(0, 2, 0), "evt_first": time.Unix(1, 0), "evt_odd": time.Unix(1<<60, 0),
	} {
		b.accepted(stripeMessage(id, "payment_intent.succeeded", "pi_1", "", created))
	}
	b.run()
	b.wantApplied(4)
}

// What came in the wrong order is brought in the order in which it came: the runner looks at the provider, not at the order.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	refs := []saga.Ref{b.charged("stripe", "pi_1"), b.charged("paypal", "O1"), b.charged("adyen", "P1")}
	b.accepted(
		stripeMessage("evt_2", "payment_intent.succeeded", "pi_1", "", time.Now()),
		stripeMessage("evt_1", "payment_intent.created", "pi_1", "", time.Now().Add(-time.Hour)),
		b.payPal.message("WH-2", "PAYMENT.CAPTURE.COMPLETED", `{"id":"C1","supplementary_data":{"related_ids":{"order_id":"O1"}}}`),
		b.payPal.message("WH-1", "CHECKOUT.ORDER.APPROVED", `{"id":"O1"}`),
		adyenMessage(adyenItem{psp: "P3", original: "P1", code: "CAPTURE_FAILED", success: "true"}, adyenItem{psp: "P3", original: "P1", code: "CAPTURE", success: "true"}),
	)
	b.run()
	applied := map[saga.Ref]int{}
	for len(applied) < 3 || applied[refs[0]]+applied[refs[1]]+applied[refs[2]] < 6 {
		if s := b.next(); s.result.Status == webhook.Applied {
			applied[s.result.Saga]++
		}
	}
	for _, ref := range refs {
		if applied[ref] != 2 {
			t.Errorf("%d events of %s", applied[ref], ref.Key)
		}
	}
}

// What fails for days is parked, told, and taken up again when it is sent once more.
func TestParkedIsKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	b.runner.react = func(_ context.Context, _ call, before int) error {
		if before == 0 {
			return errBroken
		}
		return nil
	}
	m := stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now())
	b.accepted(m)
	b.exec(`UPDATE webhook_events SET attempts = 90, failures = 83`)
	b.run()
	b.wantNext(webhook.Parked, true)
	b.wantRow("evt_1", webhook.Parked, 91, 84)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE last_error = $1 AND saga_key IS NOT NULL`, errBroken.Error()); n != 1 {
		t.Error("the reason or the saga is not kept")
	}
	if log := b.log.String(); !strings.Contains(log, `"level":"ERROR"`) || !strings.Contains(log, "evt_1") {
		t.Errorf("the log does not tell of it: %s", log)
	}
	b.accepted(m)
	b.wantNext(webhook.Applied, false)
	b.wantRow("evt_1", webhook.Applied, 1, 0)
}

// An event of a saga in review waits for the person who decides, and is no failure.
func TestReviewIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	b.runner.react = func(_ context.Context, _ call, before int) error {
		if before == 0 {
			return saga.ErrInReview
		}
		return nil
	}
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	b.exec(`UPDATE webhook_events SET attempts = 500, received_at = now() - interval '89 days'`)
	b.run()
	if s := b.wantNext(webhook.Waiting, false); s.result.Pause < 30*time.Minute || s.result.Pause > time.Hour {
		t.Errorf("%+v", s.result)
	}
	b.due()
	b.wantNext(webhook.Applied, false)
}
