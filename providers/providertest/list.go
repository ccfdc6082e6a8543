package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// Lister is an adapter of a provider that lists what it has.
type Lister interface {
	ListLimits() providers.ListLimits
	List(ctx context.Context, request providers.ListRequest) (providers.ListPage, error)
}

// listings are what a list must be good for.
var listings = map[string]func(*testing.T, listBench){
	"all that was done is listed":             listsAll,
	"what others did is listed, page by page": listsPages,
	"windows that touch":                      listsWindows,
	"requests that cannot be right":           refusesLists,
	"a list that lags":                        listsLate,
}

func runLists(t *testing.T, harness Harness) {
	t.Helper()
	for name, test := range listings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, harness.past(t))
		})
	}
	for _, kind := range listFaults {
		t.Run("a list's lost answer, "+string(kind), func(t *testing.T) {
			t.Parallel()
			listsNothingBroken(t, harness.past(t), kind)
		})
	}
}

// listFaults are what can become of a page, and what that must not be taken for: the end of the list. A question whose connection breaks
// net/http may ask again by itself, which does no harm.
var listFaults = []sandbox.FaultKind{
	sandbox.FaultErrorBefore, sandbox.FaultErrorAfter, sandbox.FaultGarbageAfter, sandbox.FaultEmptyAfter, sandbox.FaultRateLimited,
}

// apart is how far payments are from one another in time: providers tell whole seconds.
const apart = 10 * time.Second

// pageGuard ends a list that goes round in circles.
const pageGuard = 100

// past is a bench whose sandbox lives some days ago, so that its clock can move on without reaching the adapter's present.
func (h Harness) past(t *testing.T) listBench {
	t.Helper()
	adapter, simulated := h.Past(t)
	lister, ok := adapter.(Lister)
	if !ok {
		t.Fatalf("%s does not list", adapter.Name())
	}
	return listBench{bench: bench{Adapter: adapter, Harness: h, sandbox: simulated}, Lister: lister}
}

// listBench is a bench of an adapter that lists.
type listBench struct {
	bench
	Lister
}

// plant has somebody else do something at the provider, and gives the provider's id of it.
func (b listBench) plant(t *testing.T, divergence map[string]any) string {
	t.Helper()
	divergence["provider"] = b.Name()
	body, err := json.Marshal(divergence)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	b.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sandbox/divergence", bytes.NewReader(body)))
	var planted struct {
		Charge sandbox.Charge `json:"charge"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &planted); err != nil || answer.Code != http.StatusCreated {
		t.Fatalf("plant %s: %d %s", body, answer.Code, answer.Body)
	}
	return planted.Charge.ID
}

// clock is the sandbox's time.
func (b listBench) clock(t *testing.T) time.Time {
	t.Helper()
	answer := httptest.NewRecorder()
	b.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sandbox/clock", bytes.NewReader([]byte(`{}`))))
	var told struct {
		Now time.Time `json:"now"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	return told.Now
}

// listed reads a list to its end. Nothing may stand in it twice, and nothing that was not asked for.
func (b listBench) listed(t *testing.T, from, until time.Time) (all []providers.Transaction, pages int) {
	t.Helper()
	seen := make(map[string]bool)
	request := providers.ListRequest{From: from, Until: until}
	for pages = 1; ; pages++ {
		page, err := b.List(t.Context(), request)
		if err != nil || pages > pageGuard {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, transaction := range page.Transactions {
			id := string(transaction.Kind) + transaction.Reference
			if seen[id] || transaction.At.Before(from) || !transaction.At.Before(until) {
				t.Errorf("listed twice, or out of time: %+v", transaction)
			}
			seen[id] = true
		}
		all = append(all, page.Transactions...)
		if page.Next == "" {
			return all, pages
		}
		request.Cursor = page.Next
	}
}

// listsAll: whatever became of payments, and whoever did it, the list tells the same as the ledger.
func listsAll(t *testing.T, b listBench) {
	t.Helper()
	from := b.clock(t)
	stories := listed()
	for i := range stories {
		b.sandbox.AdvanceClock(apart)
		stories[i].sagaKey = uuid.NewString()
		stories[i].live(t, b, stories[i].order(b.Methods.Succeeds))
	}
	b.sandbox.AdvanceClock(b.ListLimits().Delay + apart)
	all, _ := b.listed(t, from, b.clock(t).Add(-b.ListLimits().Delay))
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) { story.expect(t, all, b.sandbox.Ledger()) })
	}
}

// listsPages: others' payments have no key of ours. There are more of them, in one second, than a page holds.
func listsPages(t *testing.T, b listBench) {
	t.Helper()
	const others = 520
	from := b.clock(t)
	b.sandbox.AdvanceClock(apart)
	planted := make(map[string]bool, others)
	for range others {
		planted[b.plant(t, map[string]any{"kind": "charge_without_order", "amount": 777, "currency": "USD"})] = true
	}
	b.sandbox.AdvanceClock(b.ListLimits().Delay + apart)
	all, pages := b.listed(t, from, b.clock(t).Add(-b.ListLimits().Delay))
	if len(all) != len(planted) || pages < 2 {
		t.Errorf("%d transactions on %d pages, want %d on several", len(all), pages, len(planted))
	}
	for _, transaction := range all {
		if transaction.Kind != providers.TransactionPayment || transaction.Status != providers.Succeeded ||
			transaction.Key != "" || transaction.SagaKey != "" || transaction.Money != dollars(777) {
			t.Fatalf("%+v", transaction)
		}
	}
}

// listsWindows: windows that touch give each transaction once, wherever in a second they touch.
func listsWindows(t *testing.T, b listBench) {
	t.Helper()
	const payments = 4
	from := b.clock(t)
	for range payments {
		b.sandbox.AdvanceClock(apart)
		b.charged(t, story{sagaKey: uuid.NewString()}.order(b.Methods.Succeeds), providers.Succeeded)
	}
	b.sandbox.AdvanceClock(b.ListLimits().Delay + 2*apart)
	until := b.clock(t).Add(-b.ListLimits().Delay)
	whole, _ := b.listed(t, from, until)
	if len(whole) != payments {
		t.Fatalf("%d listed, want %d", len(whole), payments)
	}
	for _, middle := range whole {
		for _, beside := range []time.Duration{0, 1, -1, 500 * time.Millisecond, -500 * time.Millisecond, time.Second} {
			before, _ := b.listed(t, from, middle.At.Add(beside))
			after, _ := b.listed(t, middle.At.Add(beside), until)
			inBefore := slices.ContainsFunc(before, func(each providers.Transaction) bool { return each.Reference == middle.Reference })
			if inBefore != (beside > 0) || len(before)+len(after) != payments {
				t.Errorf("%s beside a payment: %d before, %d after it; with the payment before: %t", beside, len(before), len(after), inBefore)
			}
		}
	}
}

// refusesLists: what cannot be right is refused without a call.
func refusesLists(t *testing.T, b listBench) {
	t.Helper()
	now := b.clock(t)
	requests := map[string]providers.ListRequest{
		"no time":      {From: now, Until: now},
		"backwards":    {From: now, Until: now.Add(-time.Hour)},
		"bad cursor":   {From: now.Add(-time.Hour), Until: now, Cursor: "../x"},
		"empty cursor": {From: now.Add(-time.Hour), Until: now, Cursor: " "},
	}
	if span := b.ListLimits().Span; span != 0 {
		requests["too long"] = providers.ListRequest{From: now.Add(-span - time.Second), Until: now}
	}
	for name, request := range requests {
		page, err := b.List(t.Context(), request)
		if failure, ok := errors.AsType[*providers.ListError](err); !ok || !failure.Refused || failure.Code != providers.CodeListRequest {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	if sent := b.requests(t); len(sent) != 0 {
		t.Errorf("sent: %+v", sent)
	}
}

// listsLate: a list that does not reach up to the end of what is asked for says so, and one that always does is whole.
func listsLate(t *testing.T, b listBench) {
	t.Helper()
	from := b.clock(t)
	b.sandbox.AdvanceClock(apart)
	b.charged(t, story{sagaKey: uuid.NewString()}.order(b.Methods.Succeeds), providers.Succeeded)
	b.sandbox.AdvanceClock(apart)
	b.setSearchDelay(t, time.Hour)
	page, err := b.List(t.Context(), providers.ListRequest{From: from, Until: b.clock(t)})
	failure, refused := errors.AsType[*providers.ListError](err)
	switch {
	case b.ListLags && (!refused || failure.Code != providers.CodeListBehind || failure.Refused):
		t.Errorf("behind: %+v, %v", page, err)
	case !b.ListLags && (err != nil || len(page.Transactions) != 1):
		t.Errorf("%+v, %v", page, err)
	}
	b.sandbox.AdvanceClock(time.Hour)
	if all, _ := b.listed(t, from, from.Add(2*apart)); len(all) != 1 {
		t.Errorf("an hour later: %+v", all)
	}
}

// listsNothingBroken: no fault is taken for an empty list, and the same page can be had again.
func listsNothingBroken(t *testing.T, b listBench, kind sandbox.FaultKind) {
	t.Helper()
	from := b.clock(t)
	b.sandbox.AdvanceClock(apart)
	b.charged(t, story{sagaKey: uuid.NewString()}.order(b.Methods.Succeeds), providers.Succeeded)
	b.sandbox.AdvanceClock(b.ListLimits().Delay + apart)
	b.fault(t, sandbox.CallList, kind)
	page, err := b.List(t.Context(), providers.ListRequest{From: from, Until: from.Add(2 * apart)})
	if failure, ok := errors.AsType[*providers.ListError](err); !ok || failure.Refused || failure.Code == "" {
		t.Errorf("%+v, %v", page, err)
	}
	if all, _ := b.listed(t, from, from.Add(2*apart)); len(all) != 1 {
		t.Errorf("again: %+v", all)
	}
}

func (b listBench) setSearchDelay(t *testing.T, delay time.Duration) {
	t.Helper()
	body, err := json.Marshal(map[string]int64{"search_delay_ms": delay.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	b.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sandbox/settings", bytes.NewReader(body)))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Body)
	}
}
