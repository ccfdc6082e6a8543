package statement

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// maxFaults is how many lines that cannot be read are told one by one; the others are counted.
	maxFaults = 100
	// maxSums is how many payouts or batches are summed up: some thirty years of daily ones. Those beyond it are not held against their
	// lines, which the controls tell.
	maxSums = 10_000
	// maxControls is how many control figures are told, those that do not hold first.
	maxControls = 1000
)

// add never wraps around: a sum that has no place stays at the end of the range, where it equals no figure that a file can tell.
func add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	default:
		return a + b
	}
}

// tally counts what is handed out.
type tally struct {
	lines       int64
	malformed   int64
	faults      []Fault
	totals      map[string]Total
	from, until time.Time
}

func newTally() tally { return tally{totals: make(map[string]Total)} }

func (t *tally) line(line *Line) {
	t.lines++
	total := t.totals[line.Currency]
	total.Gross, total.Fee, total.Net = add(total.Gross, line.Gross), add(total.Fee, line.Fee), add(total.Net, line.Net)
	t.totals[line.Currency] = total
	if t.from.IsZero() || line.BookedAt.Before(t.from) {
		t.from = line.BookedAt
	}
	if line.BookedAt.After(t.until) {
		t.until = line.BookedAt
	}
}

func (t *tally) fault(fault Fault) {
	t.malformed++
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, fault)
	}
}

// netControls hold each currency's nets, as the file tells them, against gross less fee.
func (t *tally) netControls() []Control {
	controls := make([]Control, 0, len(t.totals))
	for currency, total := range t.totals {
		controls = append(controls, Control{
			Name: "net of all lines", Currency: currency, Told: total.Net, Counted: add(total.Gross, -total.Fee),
		})
	}
	return controls
}

// batch is a payout, or a batch that ends with one.
type batch struct {
	name     string // "batch 4 of TestMerchant"
	currency string
}

// batches sum up what is paid out together.
type batches struct {
	sums   map[batch]*batchSum
	beyond int64 // lines of batches that there was no room for
}

type batchSum struct {
	paid bool
	told int64 // that was paid
	sum  int64 // of the net of its lines
}

func newBatches() *batches { return &batches{sums: make(map[batch]*batchSum)} }

func (b *batches) of(key batch) *batchSum {
	sum, ok := b.sums[key]
	if !ok {
		if len(b.sums) >= maxSums {
			b.beyond++
			return &batchSum{}
		}
		sum = &batchSum{}
		b.sums[key] = sum
	}
	return sum
}

func (b *batches) line(key batch, net int64) {
	sum := b.of(key)
	sum.sum = add(sum.sum, net)
}

func (b *batches) payout(key batch, net int64) {
	sum := b.of(key)
	sum.paid, sum.told = true, add(sum.told, -net)
}

// controls hold each payout against what it consists of. One that the file has no payout of cannot be judged.
func (b *batches) controls() []Control {
	controls := make([]Control, 0, len(b.sums))
	for key, sum := range b.sums {
		if sum.paid {
			controls = append(controls, Control{Name: key.name, Currency: key.currency, Told: sum.told, Counted: sum.sum})
		}
	}
	if b.beyond > 0 {
		controls = append(controls, Control{Name: "lines of payouts beyond those that could be summed up", Told: 0, Counted: b.beyond})
	}
	return controls
}

// arranged puts the controls that do not hold first, and keeps as many as are told.
func arranged(controls []Control) []Control {
	slices.SortFunc(controls, func(a, b Control) int {
		if a.Holds() != b.Holds() {
			if b.Holds() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Currency, b.Currency))
	})
	return controls[:min(len(controls), maxControls)]
}
