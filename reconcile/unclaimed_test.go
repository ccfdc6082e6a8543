package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// leftovers are what a provider has and no order knows; a store of them keeps what is found.
type leftovers struct {
	Store

	all   []Unclaimed // by reference
	open  map[string]Finding
	saves int
}

func (s *leftovers) NextUnclaimed(_ context.Context, _ Scope, after Provided, limit int) ([]Unclaimed, error) {
	var page []Unclaimed
	for _, u := range s.all {
		if u.Reference > after.Reference && len(page) < limit {
			_, u.Open = s.open[u.Reference]
			page = append(page, u)
		}
	}
	return page, nil
}

func (s *leftovers) CountUnclaimed(context.Context, string) (open int64, err error) {
	return int64(len(s.open)), nil
}

func (s *leftovers) PutFindings(_ context.Context, _ Run, judged Judged) (counts Counts, err error) {
	for _, looked := range judged.Unclaimed {
		if !slices.ContainsFunc(judged.Found, func(f Finding) bool { return f.Reference == looked.Reference }) {
			delete(s.open, looked.Reference)
		}
	}
	for _, f := range judged.Found {
		if _, known := s.open[f.Reference]; known {
			counts.SeenAgain++
		} else {
			counts.Opened++
		}
		s.open[f.Reference] = f
	}
	return counts, nil
}

func (s *leftovers) SaveRun(context.Context, Run, time.Duration) error {
	s.saves++
	return nil
}

// of puts n payments there, and one under a key of ours.
func (s *leftovers) of(n int) *leftovers {
	s.all = nil
	add := func(reference string, key providers.SubKey) {
		s.all = append(s.all, Unclaimed{Provider: "fake", Reference: reference, There: []Told{{Provider: "fake", Transaction: providers.Transaction{
			Kind: providers.TransactionPayment, Reference: reference, Payment: reference, Key: key, Status: providers.Succeeded, Refunded: -1,
			Money: providers.Money{Amount: 150, Currency: "EUR"},
		}}}})
	}
	for i := range n {
		add(fmt.Sprintf("pay_%07d", i), "")
	}
	add("pay_ours", saga.SubKey(uuid.NewSHA1(uuid.NameSpaceOID, []byte("ours")), saga.StepCharge, 1))
	return s
}

// run looks at what is left over, and gives what is open then.
func (s *leftovers) run(t *testing.T, most int) (open []string, run Run) {
	t.Helper()
	o := &once{Worker: &Worker{Config{Store: s, Policy: Policy{MostForeign: most}}}, progress: func(Run) {}}
	o.run = Run{Providers: []string{"fake"}, Stage: StageUnclaimed}
	if err := o.unclaimed(t.Context()); err != nil || o.run.Stage != StageRepair {
		t.Fatalf("%s, %v", o.run.Stage, err)
	}
	for reference := range s.open {
		open = append(open, reference)
	}
	slices.Sort(open)
	return open, o.run
}

// Payments of another system are told one by one up to a number, whatever there are, in however many runs; those under our keys always.
func TestManyPaymentsThatNoOrderKnows(t *testing.T) {
	t.Parallel()
	s := &leftovers{open: map[string]Finding{}}
	many := "list" + ReferenceUntold
	open, run := s.of(60_000).run(t, 3)
	if want := []string{many, "pay_0000000", "pay_0000001", "pay_0000002", "pay_ours"}; !slices.Equal(open, want) {
		t.Fatalf("open are %v, want %v", open, want)
	}
	const detail = "59997 more payments that no order knows (89995.50 EUR) are no findings of their own, as so many are open already: they are another " +
		"account's, or another system's on the same account. With PAYSAGA_RECONCILE_FOREIGN=ignore those without a key of ours are left out."
	if f := s.open[many]; f.Detail != detail || f.Severity != High || s.open["pay_ours"].Severity != Critical {
		t.Errorf("told as %+v", f)
	}
	if run.Totals.Unclaimed != 60_001 || run.Totals.Opened != 5 || run.Totals.Untold["fake"].Findings != 59_997 {
		t.Errorf("the run came to %+v", run.Totals)
	}
	if open, run = s.run(t, 3); len(open) != 5 || run.Totals.Opened != 0 || run.Totals.SeenAgain != 5 {
		t.Errorf("another run finds %v, %+v", open, run.Totals)
	}
	if open, _ = s.of(2).run(t, 9); !slices.Equal(open, []string{"pay_0000000", "pay_0000001", "pay_0000002", "pay_ours"}) {
		t.Errorf("of few, open are %v", open) // the third is not looked at any more by this store, the many are
	}
}
