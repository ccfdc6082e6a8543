//go:build unix

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"paysaga/api/client"
	"paysaga/providers/sandbox"
)

// books is all that is compared at the end: what shops wanted and were told, what the database has, what the providers took, and what
// is left in stock.
type books struct {
	purchases []*purchase
	answers   map[string]intent // by key
	orders    map[uuid.UUID]kept
	refunds   []keptRefund
	sagas     []openSaga
	events    []lostEvent
	charges   map[uuid.UUID][]sandbox.Charge
	strangers []sandbox.Charge // that belong to no order
	abandoned []string         // notices that the sandbox gave up, of providers that cannot be asked
	stock     []keptStock
	before    map[string]int64
	held      int // reservations
	open      int // keys without an answer
	copies    []string
}

// kept is an order as the database has it.
type kept struct {
	ID                             uuid.UUID
	Status, Payment, Provider      string
	Amount                         int64
	Captured, Refunded, InProgress int64
	State                          string
	Note                           string
	Sold                           int64 // pieces
	Reference                      string
}

type keptRefund struct {
	ID, OrderID uuid.UUID
	Amount      int64
	Status      string
}

type openSaga struct {
	Key, OrderID        uuid.UUID
	State, Kind, Detail string
}

type lostEvent struct{ Provider, Event, Type, About, Status, Reason string }

type keptStock struct {
	SKU              string
	OnHand, Reserved int64
	Sold             int64 // in confirmed orders
}

func (s *system) gather(customers *shops) books {
	s.t.Helper()
	b := books{
		purchases: customers.purchases, answers: map[string]intent{}, orders: map[uuid.UUID]kept{}, before: stockAtFirst(),
		charges: map[uuid.UUID][]sandbox.Charge{},
	}
	for _, one := range customers.street.journal.all() {
		b.answers[one.key] = *one
	}
	for _, order := range read[kept](s, `
		SELECT o.id, o.status, o.payment_status, o.payment_provider, o.amount, o.captured_amount, o.refunded_amount, o.refunding_amount, g.state,
			COALESCE(o.metadata->>'note', ''), (SELECT COALESCE(sum(quantity), 0)::bigint FROM reservations r
				WHERE r.account_id = o.account_id AND r.saga_key = o.id AND r.status = 'sold'), o.provider_reference
		FROM orders o JOIN sagas g ON g.account_id = o.account_id AND g.key = o.id`) {
		b.orders[order.ID] = order
	}
	b.refunds = read[keptRefund](s, `SELECT id, order_id, amount, status FROM refunds`)
	b.sagas = read[openSaga](s, `
		SELECT g.key, g.order_id, g.state, COALESCE(f.kind, ''), COALESCE(f.detail, '') FROM sagas g
		LEFT JOIN findings f ON f.account_id = g.account_id AND f.saga_key = g.key AND f.resolved_at IS NULL
		WHERE g.state NOT IN ('completed', 'rolled_back')`)
	b.events = read[lostEvent](s, `
		SELECT provider, event_id, type, about, status, last_error FROM webhook_events
		WHERE status <> 'applied' AND NOT (status = 'unmatched' AND about = 'other')`)
	b.stock = s.stock()
	b.held = s.count(`SELECT count(*) FROM reservations WHERE status = 'held'`)
	b.open = s.count(`SELECT count(*) FROM idempotency_keys WHERE status = 'PROCESSING'`)
	type copies struct {
		Text string
		N    int
	}
	for _, c := range read[copies](s, `
		SELECT provider || ' ' || type || ' about ' || payment_reference || ' ' || reference, count(*) FROM webhook_events
		WHERE type <> 'charge.refunded' -- of which Stripe sends one for each part, and its times are whole seconds
		GROUP BY provider, type, payment_reference, reference, sub_key, outcome, occurred_at, account_id, saga_key HAVING count(*) > 1`) {
		b.copies = append(b.copies, fmt.Sprintf("%d events are kept that say the same: %s", c.N, c.Text))
	}
	b.readLedger(s.sandbox)
	return b
}

func (s *system) stock() []keptStock {
	s.t.Helper()
	return read[keptStock](s, `
		SELECT sku, on_hand, reserved, (SELECT COALESCE(sum(i.quantity), 0)::bigint FROM order_items i
			JOIN orders o ON o.account_id = i.account_id AND o.id = i.order_id
			WHERE i.account_id = s.account_id AND i.sku = s.sku AND o.status = 'confirmed') FROM stock s ORDER BY sku`)
}

// orderOf is the order that a payment was made for. Its id is the saga's key, which every payment carries: alone, or as the beginning of
// the reference that Adyen gets.
func orderOf(charge sandbox.Charge) uuid.UUID {
	text, _, _ := strings.Cut(charge.Reference, "_")
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}

// readLedger files the providers' charges under the orders that they are for.
func (b *books) readLedger(provider *sandbox.Server) {
	for _, charge := range provider.Ledger() {
		id := orderOf(charge)
		if _, known := b.orders[id]; !known {
			b.strangers = append(b.strangers, charge)
			continue
		}
		b.charges[id] = append(b.charges[id], charge)
	}
	for _, status := range provider.Webhooks() {
		if status.Provider == "adyen" && status.Abandoned > 0 {
			b.abandoned = append(b.abandoned, fmt.Sprintf("%d notices of %s were given up: the test let nobody take them", status.Abandoned, status.Provider))
		}
	}
}

func (b *books) courses() string {
	counts := map[course]int{}
	for _, o := range b.purchases {
		counts[o.course]++
	}
	words := make([]string, 0, len(counts))
	for _, each := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[each], each))
	}
	return strings.Join(words, "; ")
}

// findings are what disagrees: order by order, and what is about none.
type findings struct {
	orders  []disagreement
	general []string
}

// disagreement is an order with what each side says of it.
type disagreement struct {
	o        *purchase
	answer   told
	kept     kept
	charges  []sandbox.Charge
	problems []string
}

// maxShown bounds a table: the first few show what is wrong.
const maxShown = 15

// String is empty when nothing disagrees.
func (f findings) String() string {
	var text strings.Builder
	for i, problem := range f.general {
		if i == maxShown {
			fmt.Fprintf(&text, "and %d more\n", len(f.general)-i)
			break
		}
		fmt.Fprintln(&text, problem)
	}
	if len(f.orders) == 0 {
		return text.String()
	}
	fmt.Fprintf(&text, "%d orders disagree:\n", len(f.orders))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ORDER\tPLAN\tID\tTOLD\tDATABASE\tPROVIDERS")
	for _, d := range f.orders[:min(len(f.orders), maxShown)] {
		id := d.kept.ID
		if id == uuid.Nil {
			id = d.o.id
		}
		_, _ = fmt.Fprintf(table, "%d\t%s, %s\t%s\t%s\t%s\t%s\n", d.o.number, d.o.course, d.o.at.name, id, d.answer, d.kept, chargesText(d.charges))
		for _, problem := range d.problems {
			_, _ = fmt.Fprintf(table, "\t! %s\t\t\t\t\n", problem)
		}
	}
	_ = table.Flush()
	return text.String()
}

func (k kept) String() string {
	if k.ID == uuid.Nil {
		return "no such order"
	}
	return fmt.Sprintf("%s (%s), payment %s: %d of %d taken, %d back", k.Status, k.State, k.Payment, k.Captured, k.Amount, k.Refunded)
}

func chargesText(charges []sandbox.Charge) string {
	words := make([]string, 0, len(charges))
	for _, c := range charges {
		words = append(words, fmt.Sprintf("%s %s: %d held, %d taken, %d back, sent %d times", c.Provider, c.Status, c.Authorized, c.Captured, c.Refunded, c.Calls))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, "; ")
}

// compare is the whole comparison. It is pure.
func (b *books) compare() findings {
	var found findings
	found.general = b.compareTotals()
	seen := map[uuid.UUID]bool{}
	slices.SortFunc(b.purchases, func(x, y *purchase) int { return x.number - y.number })
	for _, o := range b.purchases {
		answer := b.answers[o.key].answer
		id := b.idOf(o, answer)
		seen[id] = true
		d := disagreement{o: o, answer: answer, kept: b.orders[id], charges: b.charges[id]}
		d.problems = slices.Concat(b.compareOrder(o, d.kept), compareLedger(d.kept, d.charges), b.compareAnswers(o, d.kept), b.compareRefunds(o, d.kept))
		if len(d.problems) > 0 {
			found.orders = append(found.orders, d)
		}
	}
	for id := range b.orders {
		if !seen[id] {
			found.general = append(found.general, fmt.Sprintf("nobody placed order %s, %s", id, b.orders[id]))
		}
	}
	return found
}

// idOf is the order's id: the shop was told, or a refusal left it behind.
func (b *books) idOf(o *purchase, answer told) uuid.UUID {
	if o.id != uuid.Nil {
		return o.id
	}
	return instanceOf(answer)
}

func (b *books) compareTotals() []string {
	var found []string
	found = append(append(found, b.abandoned...), b.copies...)
	for _, charge := range b.strangers {
		found = append(found, fmt.Sprintf("charge %s at %s, of %d, belongs to no order: its reference is %s", charge.ID, charge.Provider, charge.Amount, charge.Reference))
	}
	for _, g := range b.sagas {
		found = append(found, fmt.Sprintf("saga %s of order %s is %s: %s %s", g.Key, g.OrderID, g.State, g.Kind, g.Detail))
	}
	for _, e := range b.events {
		found = append(found, fmt.Sprintf("event %s of %s, %s about a %s, is %s: %s", e.Event, e.Provider, e.Type, e.About, e.Status, e.Reason))
	}
	for _, sku := range b.stock {
		if gone := b.before[sku.SKU] - sku.OnHand; gone != sku.Sold {
			found = append(found, fmt.Sprintf("of %s %d are gone and %d are sold", sku.SKU, gone, sku.Sold))
		}
		if sku.Reserved != 0 {
			found = append(found, fmt.Sprintf("of %s %d are reserved", sku.SKU, sku.Reserved))
		}
	}
	if b.held != 0 {
		found = append(found, fmt.Sprintf("%d reservations are held", b.held))
	}
	if b.open != 0 {
		found = append(found, fmt.Sprintf("%d keys have no answer", b.open))
	}
	for _, key := range slices.Sorted(maps.Keys(b.answers)) {
		if text := b.answers[key].contradiction; text != "" {
			found = append(found, fmt.Sprintf("key %s %s", key, text))
		}
	}
	return found
}

// compareLedger: one charge at most that took or holds money, and the same sums on both sides.
func compareLedger(k kept, charges []sandbox.Charge) []string {
	var found []string
	live, captured, refunded, held := 0, int64(0), int64(0), int64(0)
	for _, c := range charges {
		if c.Captured > 0 || c.Authorized > 0 {
			live++
			if c.Provider != k.Provider {
				found = append(found, fmt.Sprintf("%s took the money, not %s", c.Provider, k.Provider))
			}
		}
		if c.Refunded > c.Captured {
			found = append(found, fmt.Sprintf("charge %s has more refunded than taken", c.ID))
		}
		captured, refunded, held = captured+c.Captured, refunded+c.Refunded, held+c.Authorized
	}
	if live > 1 {
		found = append(found, fmt.Sprintf("%d charges took money", live))
	}
	if held != 0 {
		found = append(found, fmt.Sprintf("%d are still held", held))
	}
	if captured != k.Captured || refunded != k.Refunded {
		found = append(found, fmt.Sprintf("%d taken and %d back at the providers, %d and %d in the database", captured, refunded, k.Captured, k.Refunded))
	}
	if k.InProgress != 0 {
		found = append(found, fmt.Sprintf("%d are still being refunded", k.InProgress))
	}
	return found
}

// compareRefunds: those that the shop was told of are there, no others, and their sum is what was given back.
func (b *books) compareRefunds(o *purchase, k kept) []string {
	var found []string
	var given int64
	kept := map[uuid.UUID]keptRefund{}
	for _, r := range b.refunds {
		if r.OrderID != k.ID {
			continue
		}
		kept[r.ID] = r
		if r.Status == "succeeded" {
			given += r.Amount
		}
	}
	for i, id := range o.refunds {
		if r := kept[id]; r.Amount != o.given[i] || r.Status != "succeeded" {
			found = append(found, fmt.Sprintf("refund %s of %d is %q, of %d", id, o.given[i], r.Status, r.Amount))
		}
	}
	if len(kept) != len(o.refunds) {
		found = append(found, fmt.Sprintf("the shop was told of %d refunds, there are %d", len(o.refunds), len(kept)))
	}
	if k.Status == "confirmed" && given != k.Refunded {
		found = append(found, fmt.Sprintf("refunds of %d succeeded, and %d were given back", given, k.Refunded))
	}
	return found
}

// compareOrder: the order ended as was planned, with the money and the stock that go with that.
func (b *books) compareOrder(o *purchase, k kept) []string {
	var found []string
	if o.err != nil {
		found = append(found, fmt.Sprintf("the shop could not find out: %v", o.err))
	}
	if k.ID == uuid.Nil {
		return append(found, "the order is missing")
	}
	status, captured := o.expected()
	if !slices.Contains(status, k.Status) {
		found = append(found, fmt.Sprintf("it is %s, and should be %s", k.Status, strings.Join(status, " or ")))
	}
	found = append(found, compareEnd(k, captured)...)
	if o.note != "" && o.err == nil && o.refused == "" && k.Note != o.note {
		found = append(found, fmt.Sprintf("its note is %q, not %q", k.Note, o.note))
	}
	return found
}

// compareEnd: a confirmed order has its money and its goods, any other has neither.
func compareEnd(k kept, captured int64) []string {
	var found []string
	confirmed := k.Status == "confirmed"
	if confirmed && k.Captured != captured {
		found = append(found, fmt.Sprintf("%d were to be taken", captured))
	}
	if !confirmed && k.Captured != k.Refunded {
		found = append(found, fmt.Sprintf("%d of its money are kept", k.Captured-k.Refunded))
	}
	if confirmed != (k.Sold > 0) {
		found = append(found, fmt.Sprintf("%d pieces of it are sold", k.Sold))
	}
	return found
}

// expected is how the order should have ended, and what was to be taken if it is confirmed.
func (o *purchase) expected() (status []string, captured int64) {
	if o.refused == client.OutOfStock && o.order.Items[0].SKU == limited {
		return []string{"failed"}, 0
	}
	switch o.course {
	case courseDeclined:
		return []string{"failed"}, 0
	case courseRefuses: // PayPal does not tell of a customer who goes back to the shop: the deadline ends that order
		return []string{"failed", "canceled"}, 0
	case courseCustomer, courseElsewhere: // a customer may come too late, when the way was blocked
		return []string{"confirmed", "canceled", "failed"}, o.order.Amount
	case courseCapture:
		return []string{"confirmed"}, o.captured
	case courseCancel:
		return []string{"canceled"}, 0
	case coursePaid, courseSlow, courseRefund:
	}
	return []string{"confirmed"}, o.order.Amount
}

// compareAnswers: what the shop was told about its placing is what became of the order. 202 says that the end is not known yet.
func (b *books) compareAnswers(o *purchase, k kept) []string {
	answer := b.answers[o.key].answer
	fits := false
	switch answer.status {
	case 201:
		fits = k.Status == "confirmed" || o.course == courseCancel && k.Status == "canceled"
	case 202:
		fits = true
	case 402:
		fits = k.Status == "failed"
	case 422:
		fits = k.Status == "failed" || k.Status == "canceled"
	}
	if !fits {
		return []string{fmt.Sprintf("its placing was answered %s", answer)}
	}
	return nil
}
