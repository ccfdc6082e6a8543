package saga_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// house is a service of a deployment's own, with what it did by key. It does nothing twice.
type house struct {
	*httptest.Server

	mu      sync.Mutex
	done    map[string]int // HTTP status by key
	effects []string       // paths, each time that something was done
	sent    []string       // path and key of each call
	script  map[string][]int
	lose    map[string]int // answers that are lost, by path
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{done: map[string]int{}, script: map[string][]int{}, lose: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	h.sent = append(h.sent, r.URL.Path+" "+key)
	status, known := h.done[key]
	if !known {
		status = http.StatusCreated
		if script := h.script[r.URL.Path]; len(script) > 0 {
			status, h.script[r.URL.Path] = script[0], script[1:]
		}
		passing := status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusAccepted
		if !passing {
			h.done[key] = status
		}
		if status == http.StatusCreated {
			h.effects = append(h.effects, r.URL.Path)
		}
	}
	if h.lose[r.URL.Path] > 0 {
		h.lose[r.URL.Path]--
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(map[string]string{"id": "h_1", "reason": "says_no"}); err != nil {
		panic(err)
	}
}

// count tells how often something was done.
func (h *house) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(h.effects), func(one string) bool { return one != path }))
}

func (h *house) definition(which string) saga.Definition {
	if which == "warehouse" {
		return saga.Definition{reserveElsewhere(h.URL), saga.Charge, sellElsewhere(h.URL), saga.Confirm}
	}
	return saga.Definition{saga.Reserve, fraudCheck(h.URL), saga.Charge, saga.Confirm}
}

// ownCase is how an order goes with steps of a deployment's own.
type ownCase struct {
	which  string
	befall func(h *house, bank *bank)
	end    saga.State
	order  saga.OrderStatus
	paid   int            // payments that are kept
	made   int            // payments that were ever made
	did    map[string]int // at the house
	onHand int64          // of ten cups here
}

func ownCases() map[string]ownCase {
	declined := providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}
	return map[string]ownCase{
		"the check approves": {
			"fraud", func(*house, *bank) {}, saga.Completed, saga.OrderConfirmed, 1, 1, map[string]int{"/checks": 1}, 8,
		},
		"the check refuses": {
			"fraud", func(h *house, _ *bank) { h.script["/checks"] = []int{422} }, saga.RolledBack, saga.OrderFailed, 0, 0, map[string]int{}, 10,
		},
		"the check is away, then approves": {
			"fraud", func(h *house, _ *bank) { h.script["/checks"] = []int{503, 502, 503} }, saga.Completed, saga.OrderConfirmed, 1, 1,
			map[string]int{"/checks": 1},
			8,
		},
		"the check takes its time": {
			"fraud", func(h *house, _ *bank) { h.script["/checks"] = []int{202, 202} }, saga.Completed, saga.OrderConfirmed, 1, 1,
			map[string]int{"/checks": 1},
			8,
		},
		"the check's answers are lost": {
			"fraud", func(h *house, _ *bank) { h.lose["/checks"] = 3 }, saga.Completed, saga.OrderConfirmed, 1, 1, map[string]int{"/checks": 1}, 8,
		},
		"reserved, paid and sold": {
			"warehouse", func(*house, *bank) {}, saga.Completed, saga.OrderConfirmed, 1, 1, map[string]int{"/reservations": 1, "/sales": 1}, 10,
		},
		"nothing to reserve": {
			"warehouse", func(h *house, _ *bank) { h.script["/reservations"] = []int{409} }, saga.RolledBack, saga.OrderFailed, 0, 0,
			map[string]int{},
			10,
		},
		"reserved, then declined": {
			"warehouse", func(_ *house, bank *bank) {
				bank.on(saga.CallCharge, refuses(declined), refuses(declined), refuses(declined), refuses(declined))
			}, saga.RolledBack, saga.OrderFailed, 0, 0, map[string]int{"/reservations": 1, "/releases": 1}, 10,
		},
		"paid, and the sale is refused": {
			"warehouse", func(h *house, _ *bank) { h.script["/sales"] = []int{409} }, saga.RolledBack, saga.OrderCanceled, 0, 1,
			map[string]int{"/reservations": 1, "/releases": 1},
			10,
		},
		"paid, the sale is refused, and the release is away": {
			"warehouse", func(h *house, _ *bank) {
				h.script["/sales"], h.script["/releases"] = []int{409}, []int{502, 503, 502}
				h.lose["/releases"] = 1
			}, saga.RolledBack, saga.OrderCanceled, 0, 1, map[string]int{"/reservations": 1, "/releases": 1}, 10,
		},
	}
}

// A step of a deployment's own is done once and undone once, whatever is lost on the way and wherever a server dies (I2, I3, I4, I5).
func TestStepsOfOnesOwn(t *testing.T) {
	t.Parallel()
	for name, test := range ownCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newBundle(t)
			for point := 1; ; point++ {
				b, h := shared.fresh(t), newHouse(t)
				b.steps = h.definition(test.which)
				test.befall(h, b.bank)
				claim := claimOf(fmt.Sprint("own-", point))
				died := test.die(b, claim, point)
				test.check(b, h, claim, died)
				if died == "" {
					if point <= 6 { // Begin, a call and Apply, with two sides each
						t.Errorf("a server died at %d points only", point-1)
					}
					return
				}
			}
		})
	}
}

// die runs an order on a server that dies at a point, and lets another one finish it.
func (ownCase) die(b *bundle, claim saga.Claim, point int) string {
	b.t.Helper()
	f := &fuse{left: point}
	alive := b.newRunner(b.store)
	for i, step := range b.steps {
		if step.Do != nil {
			b.steps[i] = explosive(step, f)
		}
	}
	b.bank.hook(
		func(_ context.Context, call saga.Call) { f.pass("before the " + string(call)) },
		func(call saga.Call) { f.pass("after the " + string(call)) },
	)
	if _, err := b.newRunner(mortalStore{b.store, f}).Start(b.ctx, claim, cups()); (err == nil) != (f.at == "") {
		b.t.Errorf("died %q, yet Start gave the error %v", f.at, err)
	}
	b.bank.hook(nil, nil)
	if _, err := alive.Start(b.ctx, claim, cups()); err != nil && f.at == "before Begin" {
		b.t.Fatalf("the client's retry: %v", err)
	}
	b.recover(alive)
	return f.at
}

// explosive is a step during whose calls the server can die.
func explosive(step saga.StepDefinition, f *fuse) saga.StepDefinition {
	do, undo := step.Do, step.Undo
	step.Do = func(ctx context.Context, r saga.StepRequest) providers.Outcome {
		f.pass("before " + string(step.Name))
		outcome := do(ctx, r)
		f.pass("after " + string(step.Name))
		return outcome
	}
	if undo != nil {
		step.Undo = func(ctx context.Context, r saga.StepRequest) providers.Outcome {
			f.pass("before undoing " + string(step.Name))
			outcome := undo(ctx, r)
			f.pass("after undoing " + string(step.Name))
			return outcome
		}
	}
	return step
}

func (c ownCase) check(b *bundle, h *house, claim saga.Claim, died string) {
	b.t.Helper()
	s := b.get(claim)
	if s.State != c.end || s.Order.Status != c.order {
		b.t.Errorf("died %s: %s, order %s; want %s, %s; %+v", died, s.State, s.Order.Status, c.end, c.order, s.Steps)
	}
	if paid, made := b.bank.taken(); paid != c.paid || made != c.made {
		b.t.Errorf("died %s: %d payments of %d made are kept; want %d of %d", died, paid, made, c.paid, c.made)
	}
	for _, path := range []string{"/checks", "/reservations", "/releases", "/sales"} {
		if got := h.count(path); got != c.did[path] {
			b.t.Errorf("died %s: %s was done %d times, want %d", died, path, got, c.did[path])
		}
	}
	for _, one := range h.sent {
		path, key, _ := strings.Cut(one, " ")
		step := map[string]saga.StepName{
			"/checks": "fraud_check", "/reservations": "reserve_goods", "/releases": "reserve_goods_undo", "/sales": "sell_goods",
		}[path]
		if want := string(saga.SubKey(s.Key, step, 1)); key != want {
			b.t.Errorf("died %s: %s was sent under %q, want %q", died, path, key, want)
		}
	}
	b.wantStock("cup", c.onHand)
}

// What no order could follow is refused at the start.
func TestDefinitionsThatAreRefused(t *testing.T) {
	t.Parallel()
	do := func(context.Context, saga.StepRequest) providers.Outcome {
		return providers.Outcome{Kind: providers.Succeeded}
	}
	own := func(name string) saga.StepDefinition { return saga.StepDefinition{Name: saga.StepName(name), Do: do} }
	for name, test := range map[string]struct {
		definition saga.Definition
		says       string
	}{
		"no charge":          {saga.Definition{saga.Reserve, saga.Confirm}, "needs charge"},
		"confirm not last":   {saga.Definition{saga.Confirm, saga.Charge}, "last step"},
		"reserve second":     {saga.Definition{own("check"), saga.Reserve, saga.Charge, saga.Confirm}, "first step"},
		"twice":              {saga.Definition{own("check"), own("check"), saga.Charge, saga.Confirm}, "twice"},
		"a name of ours":     {saga.Definition{own("void"), saga.Charge, saga.Confirm}, "paysaga's own"},
		"a charge that does": {saga.Definition{{Name: saga.StepCharge, Do: do}, saga.Confirm}, "use saga.Reserve"},
		"a long name":        {saga.Definition{own("nineteen_characters"), saga.Charge, saga.Confirm}, "3 to 18"},
		"an undo by name":    {saga.Definition{own("check_undo"), saga.Charge, saga.Confirm}, "3 to 18"},
		"digits":             {saga.Definition{own("check2"), saga.Charge, saga.Confirm}, "3 to 18"},
		"nothing to do":      {saga.Definition{{Name: "check"}, saga.Charge, saga.Confirm}, "nothing to do"},
		"too many": {saga.Definition{
			own("one"), own("two"), own("three"), own("four"), own("five"), own("six"), own("seven"), saga.Charge, saga.Confirm,
		}, "at most 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := saga.NewRunner(saga.Config{
				Store: struct{ saga.Store }{}, Answerer: clerk{}, Logger: slog.New(slog.DiscardHandler), Lease: longLease, CallTimeout: longTimeout, MaxInFlight: 1,
				Policy: saga.Policy{MaxFailures: 1, MaxUnrecorded: 1, MaxCharges: 1, Steps: test.definition},
			})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want it to say %q", err, test.says)
			}
		})
	}
}

// A definition may change while an order is under way: what it had done is undone, or finished, by the steps that are retired.
func TestDefinitionChangesUnderWay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next func(saga.Definition) saga.Definition
		end  saga.State
		find []string
	}{
		"the step is retired": {func(d saga.Definition) saga.Definition {
			d[0].Retired = true
			return d
		}, saga.Completed, []string{}},
		"a step is put before it": {func(d saga.Definition) saga.Definition {
			first := d[0]
			first.Name = "look_first"
			return append(saga.Definition{first}, d...)
		}, saga.Completed, []string{}},
		"the step is gone": {func(saga.Definition) saga.Definition { return saga.Definition{saga.Charge, saga.Confirm} }, saga.NeedsReview, []string{saga.FindingTriesExhausted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := newBundle(t), newHouse(t)
			b.steps = saga.Definition{reserveElsewhere(h.URL), saga.Charge, saga.Confirm}
			h.script["/reservations"] = []int{503, 503, 503}
			claim := claimOf("order")
			if _, err := b.newRunner(b.store).Start(b.ctx, claim, cups()); err != nil {
				t.Fatal(err)
			}
			b.wantState(claim, saga.Reserved, saga.OrderProcessing, saga.PaymentNone)
			b.steps = test.next(b.steps)
			b.recover(b.newRunner(b.store))
			if s := b.get(claim); s.State != test.end {
				t.Errorf("ended %s: %+v", s.State, s.Steps)
			}
			if got := b.findings(claim); !slices.Equal(got, test.find) {
				t.Errorf("found %v", got)
			}
		})
	}
}

// What a step does wrong keeps nobody: it may not heed its context, answer what is no outcome, or change the order that it is given.
func TestStepsThatDoNotKeepToIt(t *testing.T) {
	t.Parallel()
	var forGood sync.WaitGroup
	forGood.Add(1)
	t.Cleanup(forGood.Done)
	bad := map[string]func(saga.StepRequest) providers.Outcome{
		"hangs":             func(saga.StepRequest) providers.Outcome { forGood.Wait(); return providers.Outcome{} },
		"says nothing":      func(saga.StepRequest) providers.Outcome { return providers.Outcome{} },
		"changes the order": func(r saga.StepRequest) providers.Outcome { r.Order.Items[0].Quantity = 1; return providers.Outcome{} },
	}
	for name, first := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			var calls atomic.Int32
			b.steps = saga.Definition{saga.Reserve, {Name: "check", Do: func(_ context.Context, r saga.StepRequest) providers.Outcome {
				if calls.Add(1) == 1 {
					return first(r)
				}
				return providers.Outcome{Kind: providers.Succeeded}
			}}, saga.Charge, saga.Confirm}
			runner, claim := b.newRunnerWith(saga.Config{Store: b.store, CallTimeout: 10 * time.Millisecond}), claimOf("order")
			if _, err := runner.Start(b.ctx, claim, cups()); err != nil {
				t.Fatal(err)
			}
			b.recover(runner)
			b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
			b.wantStock("cup", 8)
		})
	}
}
