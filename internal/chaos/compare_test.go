//go:build unix

package chaos

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// goodBooks are of one order that was paid and refunded in part, and in which everything agrees.
func goodBooks() *books {
	id, refund := uuid.New(), uuid.New()
	o := &purchase{
		plan: plan{
			number: 1, key: "chaos-order-1", course: courseRefund, at: providers[0], note: "gift",
			order: api.OrderRequest{Amount: 3998, Items: []api.Item{{SKU: shirt, Quantity: 2, UnitAmount: 1999}}},
		},
		id: id, refunds: []uuid.UUID{refund}, given: []int64{500},
	}
	return &books{
		purchases: []*purchase{o},
		answers:   map[string]intent{o.key: {key: o.key, answer: told{status: 201, body: []byte(`{"status":"confirmed"}`)}}},
		orders: map[uuid.UUID]kept{id: {
			ID: id, Status: "confirmed", Payment: "partially_refunded", Provider: "stripe", Amount: 3998, Captured: 3998, Refunded: 500,
			State: "completed", Note: "gift", Sold: 2,
		}},
		refunds: []keptRefund{{ID: refund, OrderID: id, Amount: 500, Status: "succeeded"}},
		charges: map[uuid.UUID][]sandbox.Charge{id: {{Provider: "stripe", ID: "pi_1", Captured: 3998, Refunded: 500, Calls: 2}}},
		stock:   []keptStock{{SKU: shirt, OnHand: 98, Sold: 2}},
		before:  map[string]int64{shirt: 100},
	}
}

func TestBooksThatAgree(t *testing.T) {
	t.Parallel()
	if text := goodBooks().compare().String(); text != "" {
		t.Error(text)
	}
}

// Each thing that can disagree is found, and named.
func TestBooksThatDisagree(t *testing.T) {
	t.Parallel()
	only := func(b *books) (*purchase, uuid.UUID) { return b.purchases[0], b.purchases[0].id }
	change := func(what func(k *kept)) func(b *books) {
		return func(b *books) {
			_, id := only(b)
			k := b.orders[id]
			what(&k)
			b.orders[id] = k
		}
	}
	charge := func(what func(c *sandbox.Charge)) func(b *books) {
		return func(b *books) {
			_, id := only(b)
			what(&b.charges[id][0])
		}
	}
	for words, spoil := range map[string]func(b *books){
		"2 charges took money": func(b *books) {
			_, id := only(b)
			b.charges[id] = append(b.charges[id], sandbox.Charge{Provider: "stripe", Captured: 3998})
		},
		"adyen took the money, not stripe":    charge(func(c *sandbox.Charge) { c.Provider = "adyen" }),
		"7 are still held":                    charge(func(c *sandbox.Charge) { c.Authorized = 7 }),
		"more refunded than taken":            charge(func(c *sandbox.Charge) { c.Refunded = 4000 }),
		"3998 taken and 501 back":             charge(func(c *sandbox.Charge) { c.Refunded = 501 }),
		"it is failed, and should be":         change(func(k *kept) { k.Status = "failed" }),
		"3999 were to be taken":               func(b *books) { b.purchases[0].order.Amount = 3999 },
		"0 pieces of it are sold":             change(func(k *kept) { k.Sold = 0 }),
		"are still being refunded":            change(func(k *kept) { k.InProgress = 1 }),
		`its note is "", not "gift"`:          change(func(k *kept) { k.Note = "" }),
		"refunds of 400 succeeded":            func(b *books) { b.refunds[0].Amount, b.purchases[0].given[0] = 400, 400 },
		`is "failed"`:                         func(b *books) { b.refunds[0].Status = "failed" },
		"told of 0 refunds, there are 1":      func(b *books) { b.purchases[0].refunds = nil },
		"the order is missing":                func(b *books) { clear(b.orders) },
		"its placing was answered 402":        func(b *books) { b.answers["chaos-order-1"] = intent{answer: told{status: 402}} },
		"its placing was answered nothing":    func(b *books) { clear(b.answers) },
		"could not find out: context":         func(b *books) { b.purchases[0].err = unknownError{} },
		"nobody placed order":                 func(b *books) { b.orders[uuid.New()] = kept{} },
		"belongs to no order":                 func(b *books) { b.strangers = []sandbox.Charge{{ID: "pi_2"}} },
		"is needs_review: tries_exhausted":    func(b *books) { b.sagas = []openSaga{{State: "needs_review", Kind: "tries_exhausted"}} },
		"about a charge, is parked: no rule":  func(b *books) { b.events = []lostEvent{{About: "charge", Status: "parked", Reason: "no rule"}} },
		"of TSHIRT-M 3 are gone and 2 are":    func(b *books) { b.stock[0].OnHand = 97 },
		"of TSHIRT-M 1 are reserved":          func(b *books) { b.stock[0].Reserved = 1 },
		"1 reservations are held":             func(b *books) { b.held = 1 },
		"1 keys have no answer":               func(b *books) { b.open = 1 },
		"key k was answered two things":       func(b *books) { b.answers["k"] = intent{contradiction: "was answered two things"} },
		"events are kept that say the same":   func(b *books) { b.copies = []string{"2 events are kept that say the same"} },
		"notices were given up":               func(b *books) { b.abandoned = []string{"3 notices were given up"} },
		"3498 of its money are kept":          change(func(k *kept) { k.Status = "canceled" }),
		"it is confirmed, and should be fail": func(b *books) { b.purchases[0].course = courseDeclined },
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			b := goodBooks()
			spoil(b)
			if text := b.compare().String(); !strings.Contains(text, words) {
				t.Errorf("it is not found, but:\n%s", text)
			}
		})
	}
}

// unknownError stands for what a shop gave up on.
type unknownError struct{}

// Error says what a client does.
func (unknownError) Error() string { return "context deadline exceeded" }

// Writes by anybody but the holder of the newest lease are found.
func TestAuditOfFences(t *testing.T) {
	t.Parallel()
	sound := []write{
		{ID: 3, Who: "b", What: "saga", Key: "k", FenceBefore: 1, Fence: 2, Before: "charging", After: "charging"},
		{ID: 1, Who: "a", What: "saga", Key: "k", Fence: 1, After: "charging"},
		{ID: 4, Who: "b", What: "saga", Key: "k", FenceBefore: 2, Fence: 2, Before: "charging", After: "completed"},
		{ID: 2, Who: "c", What: "saga", Key: "other", Fence: 1, After: "charging"},
	}
	if found := auditFences(sound); len(found) != 0 {
		t.Errorf("sound writes: %q", found)
	}
	for words, wrong := range map[string]write{
		"which b holds, a wrote charging → completed": {ID: 9, Who: "a", What: "saga", Key: "k", FenceBefore: 2, Fence: 2, Before: "charging", After: "completed"},
		"a lowered the fence from 2 to 1":             {ID: 9, Who: "a", What: "saga", Key: "k", FenceBefore: 2, Fence: 1},
		"was applied, and a makes it waiting":         {ID: 9, Who: "a", What: "event", Key: "e", FenceBefore: 1, Fence: 2, Before: "applied", After: "waiting"},
	} {
		if found := auditFences(append(sound[:4:4], wrong)); len(found) != 1 || !strings.Contains(found[0], words) {
			t.Errorf("found %q, want one with %q", found, words)
		}
	}
}

// One seed is one plan, another seed another.
func TestPlansComeFromTheSeed(t *testing.T) {
	t.Parallel()
	const length, servers = time.Minute, 3
	blows := planBlows(7, length, servers)
	if again := planBlows(7, length, servers); !reflect.DeepEqual(blows, again) {
		t.Error("the same seed plans other blows")
	}
	if other := planBlows(8, length, servers); reflect.DeepEqual(blows, other) {
		t.Error("another seed plans the same blows")
	}
	seen, hit := map[kind]bool{}, map[course]bool{}
	for seed := range uint64(10) {
		for _, b := range planBlows(seed, length, servers) {
			seen[b.kind] = true
		}
	}
	for number := range 200 {
		p := planOrder(7, number)
		hit[p.course] = true
		if !reflect.DeepEqual(p, planOrder(7, number)) {
			t.Fatalf("order %d is planned in two ways", number)
		}
	}
	if len(seen) != len(blowKinds) || len(hit) != len(courses) {
		t.Errorf("blows of %d kinds of %d, orders of %d courses of %d", len(seen), len(blowKinds), len(hit), len(courses))
	}
}
