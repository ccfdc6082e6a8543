package simulation

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// checker holds a run against the ten invariants. It knows what the providers' ledgers say, what clients got, each committed write and
// the log; it derives identifiers by itself.
type checker struct {
	w         *world
	violation *violation

	sagas   map[saga.Ref]*sagaHistory
	answers map[keyName]*answers
	sends   map[string]any // the first request under each identifier
}

// sagaHistory is what was written of a saga.
type sagaHistory struct {
	fence  int64
	holder *server // whom the newest lease was given to
	state  saga.State
}

// answers are what clients got under one key.
type answers struct {
	first       saga.Answer
	fingerprint idempotency.Fingerprint
}

func newChecker(w *world) *checker {
	return &checker{w: w, sagas: map[saga.Ref]*sagaHistory{}, answers: map[keyName]*answers{}, sends: map[string]any{}}
}

// failf keeps the first violation. The run ends with it.
func (c *checker) failf(invariant, format string, args ...any) {
	if c.violation == nil {
		c.violation = &violation{invariant, fmt.Sprintf(format, args...)}
		c.w.say("VIOLATION of " + c.violation.Error())
	}
}

// derived is the key of a saga, by what is published about it: UUIDv5 over netstrings of account, endpoint, key and generation.
func derived(endpoint, key string) uuid.UUID {
	space := uuid.NewSHA1(uuid.NameSpaceOID, []byte("paysaga/saga-key"))
	sum := sha1.New()
	sum.Write(space[:])
	for _, part := range []string{shop, endpoint, key, "1"} {
		sum.Write([]byte(strconv.Itoa(len(part)) + ":" + part + ","))
	}
	var id uuid.UUID
	copy(id[:], sum.Sum(nil))
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

// isOf tells that an identifier is one of a saga's own calls.
func (*checker) isOf(key providers.SubKey, id uuid.UUID) bool {
	return strings.HasPrefix(string(key), id.String()+"_")
}

// stepOf is the step that each call is about.
var stepOf = map[string]saga.StepName{
	"charge": saga.StepCharge, "lookup": saga.StepCharge, "continue": saga.StepContinue, "capture": saga.StepCapture, "void": saga.StepVoid,
	"refund": saga.StepRefund, "check_refund": saga.StepRefund,
}

// sent is called as a call to a provider leaves: its intent is committed (I2), its identifier follows from the request (I3), and a repeat
// says the same (I3).
func (c *checker) sent(kind bank.Kind, op string, key providers.SubKey, request any) {
	step, row := c.intent(op, key)
	if step == nil || step.Provider != string(kind) {
		c.failf("I2", "a %s call leaves under %s, of which no intent is committed", op, key)
		return
	}
	if !c.follows(key, row) {
		c.failf("I3", "the identifier %s of a %s call does not follow from any request", key, op)
	}
	want := c.w.memory.orders[row.order].Amount
	if step.Amount != 0 {
		want = step.Amount
	}
	switch r := request.(type) {
	case providers.ChargeRequest:
		c.same(op, key, r, r.Money.Amount, want)
	case providers.CaptureRequest:
		c.same(op, key, r, r.Money.Amount, want)
	case providers.RefundRequest:
		c.same(op, key, r, r.Money.Amount, want)
	case providers.VoidRequest:
		if kind.Windows().NoLookup {
			c.same(op, key, r, want, want)
		}
	}
}

func (c *checker) intent(op string, key providers.SubKey) (*saga.Step, *sagaRow) {
	for _, row := range c.w.memory.inOrder {
		for i := range row.saga.Steps {
			if step := &row.saga.Steps[i]; step.SubKey == key && step.Name == stepOf[op] {
				return step, row
			}
		}
	}
	return nil, nil
}

// follows derives an identifier from the requests that the shop has sent.
func (c *checker) follows(key providers.SubKey, row *sagaRow) bool {
	for _, r := range c.w.requests {
		id := derived(endpointOf[r.What], r.key).String()
		rest, found := strings.CutPrefix(string(key), id+"_")
		if !found {
			continue
		}
		name, attempt, numbered := strings.Cut(rest, "_")
		if n, err := strconv.Atoi(attempt); numbered && (err != nil || n < 2) {
			return false
		}
		switch saga.StepName(name) {
		case saga.StepCapture:
			return r.What == askCapture && !numbered
		case saga.StepRefund:
			return r.What == askRefund || r.What == placeOrder
		default:
			return r.What == placeOrder && id == row.saga.Key.String()
		}
	}
	return false
}

func (c *checker) same(op string, key providers.SubKey, request any, amount, want int64) {
	if amount != want {
		c.failf("I2", "a %s call under %s is about %d, its intent about %d", op, key, amount, want)
	}
	name := op + " " + string(key)
	if first, again := c.sends[name]; again && !reflect.DeepEqual(first, request) {
		c.failf("I3", "a %s call under %s says other things than before:\n  %+v\n  %+v", op, key, first, request)
	}
	c.sends[name] = request
}

// moved is called after a provider has carried out a call: one order has one live payment at most (I1), and no more goes back than was
// taken (I7).
func (c *checker) moved(kind bank.Kind, op string, key providers.SubKey) {
	for _, p := range c.w.banks[kind].Payments() {
		if p.Returned > p.Taken || p.Taken > p.Money.Amount {
			c.failf("I7", "of payment %s over %d, %d are taken and %d given back, after a %s call under %s", p.Reference, p.Money.Amount, p.Taken, p.Returned, op, key)
		}
	}
	if op != "charge" || len(key) < uuidLength {
		return
	}
	var live []string
	for _, kind := range bank.Kinds() {
		for _, p := range c.w.banks[kind].Payments() {
			if p.Key[:uuidLength] == key[:uuidLength] && c.w.banks[kind].Live(p) {
				live = append(live, p.Reference)
			}
		}
	}
	if len(live) > 1 {
		c.failf("I1", "the order of %s has more than one live payment: %v", key, live)
	}
}

// uuidLength is that of a UUID as text.
const uuidLength = 36

// written is called with each committed write.
func (c *checker) written(write write) {
	h := c.sagas[write.ref]
	if h == nil {
		h = &sagaHistory{}
		c.sagas[write.ref] = h
	}
	c.fenced(h, write)
	if write.change == nil {
		return
	}
	c.w.say(fmt.Sprintf("  %s: %s → %s", write.op, write.from, write.after.State))
	if write.op != "begin" && write.from != h.state {
		c.failf("I9", "saga %s: a write from %s, while it stands at %s", write.ref.Key, write.from, h.state)
	}
	if h.state = write.after.State; write.from != h.state || write.op == "begin" {
		c.w.seen.add("state", string(write.after.Kind)+" "+string(h.state))
	}
	if found := write.change.Finding; found != nil {
		c.w.seen.add("finding", found.Kind)
		c.w.say("  finding: " + found.Kind + ": " + found.Detail)
	}
	for _, step := range write.change.Steps {
		c.w.seen.add("step", string(step.Name)+" "+string(step.Status))
	}
	if write.after.Kind == saga.KindOrder {
		c.givesUp(write)
	}
	c.stock(write)
}

// stock checks after each write that what is reserved is what reservations hold, and is there (I6).
func (c *checker) stock(write write) {
	held, kept := int64(0), c.w.memory.stock[stockName{shop, sku}]
	for _, rows := range c.w.memory.reservations {
		for _, r := range rows {
			if r.status == "held" {
				held += r.quantity
			}
		}
	}
	if kept.Reserved != held || kept.Reserved > kept.OnHand {
		c.failf("I6", "after a write to %s reservations hold %d pieces; of %d on hand %d are reserved", write.after.State, held, kept.OnHand, kept.Reserved)
	}
}

// quiet checks that an error, which goes into a log and may go to a client, holds nothing that it must not (I10).
func (c *checker) quiet(name string, err error) {
	if err != nil && strings.Contains(err.Error(), secret) {
		c.failf("I10", "%s ends with an error that holds a secret: %v", name, err)
	}
}

// fenced checks that fencing numbers only grow, and that who writes holds the newest one (I9).
func (c *checker) fenced(h *sagaHistory, write write) {
	switch {
	case write.grants && write.fence <= h.fence:
		c.failf("I9", "saga %s: the lease %d is given after %d", write.ref.Key, write.fence, h.fence)
	case !write.grants && (write.fence != h.fence || h.holder != c.w.doing):
		c.failf("I9", "saga %s: %s writes (%s) under fence %d; the newest is %d, of %s",
			write.ref.Key, c.w.doing.name(), write.op, write.fence, h.fence, h.holder.name())
	}
	if !write.grants {
		return
	}
	if h.holder != nil && h.holder != c.w.doing {
		c.w.seen.add("lease", "goes to another server")
	}
	h.fence, h.holder = write.fence, c.w.doing
	c.w.seen.add("lease", write.op)
}

// givesUp looks at a write with which an order is given up, or charged anew: nothing of an earlier charge may be alive or unknown (I4).
func (c *checker) givesUp(write write) {
	newest := write.after.Newest(saga.StepCharge)
	over := write.after.State == saga.RolledBack
	for _, step := range write.after.Steps {
		if step.Name != saga.StepCharge {
			continue
		}
		if step.Status == saga.StepFailed && step.Outcome == providers.Unknown {
			c.failf("I4", "charge %d of order %s is taken for failed, and its outcome is not known", step.Attempt, write.ref.Key)
		}
		anew := newest.Attempt > step.Attempt && newest.Status == saga.StepPending
		if !anew && !over {
			continue
		}
		if anew && step.Outcome == providers.Unknown || step.Status == saga.StepUnknown || step.Status == saga.StepPending {
			c.failf("I4", "order %s goes to %s while the outcome of charge %d is not known", write.ref.Key, write.after.State, step.Attempt)
		}
		c.leavesNothing(write, step, over)
	}
}

// leavesNothing checks that nothing of a charge is alive that is taken for failed or undone. Where nobody can ask, a customer may have
// paid after the void was refused, as nothing was held; the notice of that undoes it later.
func (c *checker) leavesNothing(write write, step saga.Step, over bool) {
	kind := bank.Kind(step.Provider)
	for _, p := range c.w.banks[kind].Payments() {
		if p.Key != step.SubKey || !c.w.banks[kind].Live(p) || over && kind.Windows().NoLookup {
			continue
		}
		if over || p.Taken+p.OnHold > p.Returned {
			c.failf("I4", "order %s goes to %s while its payment %s is %s", write.ref.Key, write.after.State, p.Reference, p.State)
		}
	}
}

// answered is called with each answer that a client gets: it is the same, byte for byte, whenever it comes (I8).
func (c *checker) answered(r *request, result idempotency.Result) {
	name := keyName{shop, endpointOf[r.What], r.key}
	r.answer, r.got = result.Answer, true
	first := c.answers[name]
	if first == nil {
		c.answers[name] = &answers{result.Answer, r.fingerprint()}
		return
	}
	if !reflect.DeepEqual(first.first, result.Answer) {
		c.failf("I8", "request %d got two answers under one key:\n%d %s\n%d %s", r.ID, first.first.Status, first.first.Body, result.Answer.Status, result.Answer.Body)
	}
	if first.fingerprint != r.fingerprint() {
		c.failf("I8", "two intents were answered under the key of request %d", r.ID)
	}
}

// mismatched is called when a client is told that its key stands for another request: there must be one.
func (c *checker) mismatched(r *request) {
	others := slices.ContainsFunc(c.w.requests, func(o *request) bool { return o.key == r.key && o.other != r.other })
	if !others {
		c.failf("I8", "request %d is told that its key stands for another request, and there is none", r.ID)
	}
}

// plain is called with errors that nobody was told to expect: they must come from a fault.
func (c *checker) plain(name string, err error) {
	expected := strings.Contains(err.Error(), "simulated: ") || errors.Is(err, saga.ErrLeaseLost) || errors.Is(err, saga.ErrAnswered) ||
		errors.Is(err, saga.ErrDraining) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "the provider could not be asked")
	if !expected {
		c.failf("I5", "%s ends with an error that comes from no fault: %v", name, err)
	}
}

// end looks at everything after all has come to rest.
func (c *checker) end() {
	sold, held := int64(0), int64(0)
	for _, row := range c.w.memory.inOrder {
		s := c.w.memory.read(row, row.saga.UpdatedAt)
		if !s.State.Ended() {
			c.failf("I5", "the saga of %s rests in %s: %s", s.Key, s.State, c.w.standing())
		}
		c.w.seen.add("end", string(s.Kind)+" "+string(s.State))
		if s.Kind == saga.KindRefund {
			c.refund(s)
			continue
		}
		for _, r := range c.w.memory.reservations[row.order] {
			want := map[saga.State]string{saga.Completed: "sold", saga.RolledBack: "released"}[s.State]
			if want != "" && r.status != want {
				c.failf("I6", "the stock of order %s (%s) is %s", s.Key, s.State, r.status)
			}
			switch r.status {
			case "sold":
				sold += r.quantity
			case "held":
				held += r.quantity
			}
		}
		c.order(s)
	}
	if stock := c.w.memory.stock[stockName{shop, sku}]; stock.OnHand != c.w.plan.Stock-sold || stock.Reserved != held {
		c.failf("I6", "of %d pieces %d are sold and %d held, and there are %d, of which %d are reserved", c.w.plan.Stock, sold, held, stock.OnHand, stock.Reserved)
	}
	c.once()
	c.keys()
	c.logs()
}

// sums are the money of an order by the providers' ledgers, in minor units.
type sums struct {
	taken, returned, onHold int64
	kept                    map[string]int64 // what is left, by payment
}

func (c *checker) ledger(s saga.Saga) sums {
	sum := sums{kept: map[string]int64{}}
	for _, kind := range bank.Kinds() {
		for _, e := range c.w.banks[kind].Ledger() {
			if c.isOf(e.Charge, s.Key) {
				sum.add(e, s.Order.Payment.Capture == saga.CaptureManual)
			}
		}
	}
	return sum
}

func (s *sums) add(e bank.Entry, heldFirst bool) {
	switch e.Movement {
	case bank.Held:
		s.onHold += e.Amount
	case bank.Released:
		s.onHold -= e.Amount
	case bank.Taken:
		s.taken += e.Amount
		s.kept[e.Payment] += e.Amount
		if heldFirst {
			s.onHold -= e.Amount
		}
	case bank.Returned:
		s.returned += e.Amount
		s.kept[e.Payment] -= e.Amount
	case bank.Bounced:
		s.returned -= e.Amount
		s.kept[e.Payment] += e.Amount
	}
	if s.kept[e.Payment] == 0 {
		delete(s.kept, e.Payment)
	}
}

// order holds an order against the ledger (I1, I5, I7).
func (c *checker) order(s saga.Saga) {
	sum, paid := c.ledger(s), s.Order.Payment
	if len(sum.kept) > 1 {
		c.failf("I1", "order %s was paid more than once: %v", s.Key, sum.kept)
	}
	switch {
	case s.State == saga.NeedsReview:
		return
	case paid.CapturedAmount-paid.RefundedAmount != sum.taken-sum.returned && paid.RefundingAmount == 0:
		c.failf("I7", "order %s (%s): here %d are captured and %d refunded, at the providers %d and %d:%s",
			s.Key, s.State, paid.CapturedAmount, paid.RefundedAmount, sum.taken, sum.returned, c.w.standing())
	case s.State == saga.RolledBack && (sum.taken != sum.returned || sum.onHold != 0):
		c.failf("I5", "order %s is rolled back, with %+v:%s", s.Key, sum, c.w.standing())
	case s.State == saga.Completed && (sum.taken == 0 || sum.onHold != 0):
		c.failf("I5", "order %s is completed, with %+v:%s", s.Key, sum, c.w.standing())
	}
}

// givenBack is what went back under the key of a refund.
func (c *checker) givenBack(s saga.Saga) (given int64) {
	for _, kind := range bank.Kinds() {
		for _, e := range c.w.banks[kind].Ledger() {
			switch {
			case !c.isOf(e.Key, s.Key):
			case e.Movement == bank.Returned:
				given += e.Amount
			case e.Movement == bank.Bounced:
				given -= e.Amount
			}
		}
	}
	return given
}

// refund holds a refund against the ledger (I7).
func (c *checker) refund(s saga.Saga) {
	given := c.givenBack(s)
	if s.State == saga.Completed && given != s.Refund.Amount || s.State == saga.RolledBack && given != 0 {
		c.failf("I7", "refund %s over %d is %s, and %d went back:%s", s.Key, s.Refund.Amount, s.State, given, c.w.standing())
	}
}

// once checks that no identifier moved money twice (I1, I7).
func (c *checker) once() {
	for _, kind := range bank.Kinds() {
		seen := map[string]bool{}
		for _, e := range c.w.banks[kind].Ledger() {
			name := string(e.Movement) + " " + string(e.Key)
			if e.Key != "" && e.Movement != bank.Released && seen[name] {
				c.failf("I1", "money was %s twice under %s", e.Movement, e.Key)
			}
			seen[name] = true
		}
	}
}

// keys checks that each request has its one outcome, and that what is kept is what was told (I5, I8).
func (c *checker) keys() {
	for name, row := range c.w.memory.keys {
		if row.record.Status == idempotency.InProgress {
			c.failf("I5", "a request to %s has no answer for ever", name.endpoint)
		}
		if told := c.answers[name]; told != nil && !reflect.DeepEqual(told.first, row.record.Answer) {
			c.failf("I8", "what is kept of a request to %s is not what its client got", name.endpoint)
		}
	}
	for _, r := range c.w.requests {
		if !r.done {
			c.failf("I5", "request %d (%s) has no outcome", r.ID, r.What)
		}
		if r.What != placeOrder || !r.got || r.other || r.answer.Status < 400 {
			continue
		}
		if row := c.w.memory.sagas[saga.Ref{AccountID: shop, Key: derived(endpointOf[placeOrder], r.key)}]; row.saga.State != saga.RolledBack {
			c.failf("I8", "an order was answered with %d, and is %s", r.answer.Status, row.saga.State)
		}
	}
}

// reviews looks at the sagas that wait for a person, before that person decides.
func (c *checker) reviews() {
	for _, row := range c.w.memory.inOrder {
		if s := c.w.memory.read(row, row.saga.UpdatedAt); s.State == saga.NeedsReview {
			c.reviewed(s)
		}
	}
}

// reviewed checks that there is a finding, and that it is one of those which nobody could do without.
func (c *checker) reviewed(s saga.Saga) {
	ref := saga.Ref{AccountID: s.AccountID, Key: s.Key}
	i := slices.IndexFunc(c.w.memory.findings, func(f findingRow) bool { return f.ref == ref })
	if i < 0 {
		c.failf("I5", "saga %s is in review, and no finding says why", s.Key)
		return
	}
	kind := c.w.memory.findings[i].kind
	causes, known := excused[kind]
	short := slices.ContainsFunc(c.w.plan.Orders, func(o orderPlan) bool { return slices.Contains(o.Ways, bank.Short) })
	if kind == saga.FindingAmountMismatch && short {
		return
	}
	met := slices.ContainsFunc(causes, func(f fault) bool { return c.w.seen.count("fault", string(f)) > 0 })
	if !known || causes != nil && !met {
		c.failf("I5", "saga %s is in review because of %s, which nothing here can cause:%s", s.Key, kind, c.w.standing())
	}
}

// excused are the findings that nobody can do without, each with the faults of which one must have been met; nil: none is needed.
var excused = map[string][]fault{
	saga.FindingCaptureUnclear:   {refused, mismatch, lostBefore, lostAfter, errorBefore, errorAfter, finalBefore, finalAfter, replayed},
	saga.FindingRefusedAfterSend: nil, // a server can die after the first send
	saga.FindingTriesExhausted:   {lostBefore, lostAfter, errorBefore, errorAfter, finalBefore, busy, unreachable},
	saga.FindingCaptureOverdue:   {refused, mismatch, finalBefore, lostBefore, errorBefore, unreachable, busy, replayed, finalAfter},
	saga.FindingRefundOverdue:    {refused, mismatch, finalBefore, lostBefore, errorBefore, unreachable, busy, replayed, finalAfter},
	saga.FindingVoidRefused:      {refused},
	// A refund that was never received while it could be sent, for one.
	saga.FindingUnexpectedOutcome: {refused, mismatch, finalBefore, finalAfter, replayed, lostBefore, errorBefore, busy, unreachable},
}

// logs checks that no log holds what it must not (I10), and that nothing panicked.
func (c *checker) logs() {
	text := c.w.log.String()
	if i := strings.Index(text, secret); i >= 0 {
		c.failf("I10", "the log holds a secret: %s", text[max(0, i-200):min(len(text), i+100)])
	}
	for _, r := range c.w.requests {
		fingerprint := r.fingerprint()
		if strings.Contains(text, hex.EncodeToString(fingerprint[:])) || len(r.answer.Body) > 0 && strings.Contains(text, string(r.answer.Body)) {
			c.failf("I10", "the log holds a fingerprint or an answer")
		}
	}
	if i := strings.Index(text, "panicked"); i >= 0 {
		c.failf("I5", "something panicked: %s", text[max(0, i-200):min(len(text), i+3000)])
	}
}
