package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/reconcile"
	"paysaga/saga"
)

func ringOf(t *testing.T, keys ...string) *seal.Ring {
	t.Helper()
	ring, err := seal.NewRing(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// withRing is the same database with other keys.
func (b *bundle) withRing(keys ...string) *bundle {
	b.t.Helper()
	return &bundle{t: b.t, ctx: b.ctx, pool: b.pool, store: postgres.New(b.pool, ringOf(b.t, keys...)), log: b.log}
}

// sealEverything makes something of each sort that is sealed, several of the answers, and gives the orders.
func (b *bundle) sealEverything() []saga.Saga {
	b.t.Helper()
	data := b.beginPaid("data", saga.Payment{Provider: "fake", MethodData: []byte(`{"a":1}`)})
	waiting := b.apply(b.outcome(b.begin("action"), saga.CallCharge, action))
	b.ask(b.load(waiting), "continue", saga.Request{Kind: saga.RequestContinue, Details: []byte(`{"b":2}`)})
	if err := b.store.AnswerKey(b.ctx, b.holding("ordinary"), saga.Answer{Status: 200, Headers: map[string]string{}, Body: []byte(answerText)}); err != nil {
		b.t.Fatal(err)
	}
	order := b.confirmed("order")
	b.judge(b.reconcile(), nil, ofOrder(order, reconcile.AmountMismatch), ofNobody("pay_9"))
	return []saga.Saga{order, data, waiting}
}

// reseal passes through everything once.
func (b *bundle) reseal() (all postgres.SealedPage) {
	b.t.Helper()
	return b.pages(b.store.Reseal)
}

// sealedWith counts everything by its key.
func (b *bundle) sealedWith() map[string]int {
	b.t.Helper()
	return b.pages(b.store.CountSealed).ByKey
}

func (b *bundle) pages(
	read func(context.Context, postgres.Sealed, []string) (postgres.SealedPage, error),
) (all postgres.SealedPage) {
	b.t.Helper()
	all.ByKey = map[string]int{}
	for _, kind := range postgres.AllSealed() {
		for from := []string(nil); ; {
			page, err := read(b.ctx, kind, from)
			if err != nil {
				b.t.Fatalf("%s: %v", kind, err)
			}
			for id, count := range page.ByKey {
				all.ByKey[id] += count
			}
			all.Rows, all.Resealed, all.Left = all.Rows+page.Rows, all.Resealed+page.Resealed, all.Left+page.Left
			all.Unopened = append(all.Unopened, page.Unopened...)
			if from = page.Next; from == nil {
				break
			}
		}
	}
	return all
}

// A key is replaced by another while orders live on: in the end the old one is not needed, and everything reads as before.
func TestRotationOfKeys(t *testing.T) {
	t.Parallel()
	oldKey, newKey := seal.GenerateKey("2026"), seal.GenerateKey("2027")
	before := newBundle(t).withRing(oldKey)
	before.putStock("cup", 100)
	orders := before.sealEverything()
	read := make([]saga.Saga, 0, len(orders))
	for _, order := range orders {
		read = append(read, before.load(order))
	}
	both := before.withRing(newKey, oldKey)
	if diff := cmp.Diff(map[string]int{"2026": 10}, both.sealedWith()); diff != "" {
		t.Fatalf("sealed before (-want +got):\n%s", diff)
	}
	both.confirmed("meanwhile")
	if found := both.reseal(); found.Resealed != 10 || found.Left != 0 || len(found.Unopened) != 0 {
		t.Errorf("resealed %+v", found)
	}
	if again := both.reseal(); again.Resealed != 0 {
		t.Errorf("%d were resealed again", again.Resealed)
	}
	if diff := cmp.Diff(map[string]int{"2027": 11}, both.sealedWith()); diff != "" {
		t.Errorf("sealed afterwards (-want +got):\n%s", diff)
	}
	after := before.withRing(newKey)
	for i, order := range orders {
		if diff := cmp.Diff(read[i], after.load(order), exactly); diff != "" {
			t.Errorf("order %d (-before +after):\n%s", i, diff)
		}
	}
	for _, claim := range []saga.Claim{claimOf("order"), claimOf("action"), claimOf("meanwhile"), requestClaim("ordinary")} {
		after.replays(claim)
	}
}

// More rows than one page has.
func TestResealPassesThroughAllPages(t *testing.T) {
	t.Parallel()
	const orders = 450
	oldKey, newKey := seal.GenerateKey("old"), seal.GenerateKey("new")
	b := newBundle(t).withRing(oldKey)
	b.putStock("cup", 10*orders)
	for i := range orders {
		b.confirmed(fmt.Sprint("order-", i))
	}
	both := b.withRing(newKey, oldKey)
	if found := both.reseal(); found.Resealed != orders || found.Left != 0 {
		t.Errorf("resealed %d, left %d", found.Resealed, found.Left)
	}
	if diff := cmp.Diff(map[string]int{"new": orders}, both.sealedWith()); diff != "" {
		t.Errorf("sealed (-want +got):\n%s", diff)
	}
}

// What is being written at this moment is left to whoever writes it, and waited for by nobody.
func TestResealLeavesWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	oldKey, newKey := seal.GenerateKey("old"), seal.GenerateKey("new")
	b := newBundle(t).withRing(oldKey)
	waiting := b.apply(b.outcome(b.begin("action"), saga.CallCharge, action))
	both := b.withRing(newKey, oldKey)
	release := b.hold(`SELECT FROM orders WHERE id = $1 FOR UPDATE`, waiting.Order.ID)
	if found := both.reseal(); found.Left != 1 || found.Resealed != 1 {
		t.Errorf("beside a writer %+v", found)
	}
	release()
	if found := both.reseal(); found.Left != 0 || found.Resealed != 1 {
		t.Errorf("afterwards %+v", found)
	}
}

// A value that is written between reading and sealing anew stays as it was written.
func TestResealLosesToAWriter(t *testing.T) {
	t.Parallel()
	oldKey, newKey := seal.GenerateKey("old"), seal.GenerateKey("new")
	b := newBundle(t).withRing(oldKey)
	b.confirmed("order")
	both := b.withRing(newKey, oldKey)
	// The writer comes in between by a trigger: it changes the row before each statement on the table.
	b.exec(`CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF pg_trigger_depth() = 1 THEN UPDATE idempotency_answers SET body = 'written meanwhile'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER meanwhile BEFORE UPDATE ON idempotency_answers FOR EACH STATEMENT EXECUTE FUNCTION meanwhile()`)
	found := both.reseal()
	if n := b.count(`SELECT count(*) FROM idempotency_answers WHERE body = 'written meanwhile'`); n != 1 || found.Resealed != 0 {
		t.Errorf("%d bodies are what was written; %+v", n, found)
	}
}

// What cannot be opened is named by its place, without the client's key, and left as it is.
func TestResealNamesWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	b := newBundle(t).withRing(seal.GenerateKey("lost"))
	b.putStock("cup", 100)
	orders := b.sealEverything()
	b.exec(`UPDATE orders SET next_action = 'torn' WHERE next_action IS NOT NULL`)
	before := b.dump()
	other := b.withRing(seal.GenerateKey("new"))
	found := other.reseal()
	if found.Resealed != 0 || len(found.Unopened) != 10 {
		t.Fatalf("%+v", found)
	}
	text := strings.Join(found.Unopened, "\n")
	for _, want := range []string{
		"idempotency_answers: account shop1, expires on ", "orders.payment_data: account shop1, id " + orders[1].Order.ID.String(),
		"orders.next_action: account shop1, id " + orders[2].Order.ID.String() + ": sealed message is damaged",
		"saga_steps.details: account shop1, saga " + orders[2].Key.String() + " continue 1", `sealed with an unknown key: "lost"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told:\n%s", want, text)
		}
	}
	if strings.Contains(text, claimOf("order").Key) {
		t.Errorf("a client's key is told:\n%s", text)
	}
	if diff := cmp.Diff(before, b.dump()); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	if got := other.sealedWith(); got["lost"] != 9 || got["(damaged)"] != 1 {
		t.Errorf("counted %v", got)
	}
}

// Answers whose bodies are not kept have nothing to seal.
func TestResealPassesOverDigests(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.store.KeepDigestsOnly([]string{"POST /v1/orders"})
	b.confirmed("order")
	if got := b.sealedWith(); len(got) != 0 {
		t.Errorf("counted %v", got)
	}
	if found := b.withRing(seal.GenerateKey("new")).reseal(); found.Rows == 0 || len(found.Unopened) != 0 {
		t.Errorf("%+v", found)
	}
	if record, _ := b.lookup(claimOf("order")); record.Status != idempotency.Completed || record.Digest == ([32]byte{}) {
		t.Errorf("%+v", record)
	}
}

// A process with other keys than those of what is kept is told so, whether their ids differ or not.
func TestKeysOfAnotherSystem(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other, renamed := seal.GenerateKey("other"), seal.GenerateKey("test")
	b.must(b.withRing(other).store.CheckKeys(b.ctx)) // nothing is sealed yet
	b.sealEverything()
	b.must(b.store.CheckKeys(b.ctx))
	for _, key := range []string{other, renamed} {
		refused, ok := errors.AsType[*postgres.OtherKeysError](b.withRing(key).store.CheckKeys(b.ctx))
		if !ok || refused.SealedWith != "test" || !strings.Contains(refused.Error(), `"test"`) {
			t.Errorf("%s…: %v", key[:5], refused)
		}
	}
	b.exec(`DELETE FROM idempotency_answers`)
	if _, ok := errors.AsType[*postgres.OtherKeysError](b.withRing(other).store.CheckKeys(b.ctx)); !ok {
		t.Error("findings alone do not tell")
	}
	b.exec(`UPDATE findings SET here = '\x01'::bytea WHERE saga_key IS NULL`)
	b.must(b.store.CheckKeys(b.ctx)) // one that is damaged says nothing about the others
}
