package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"paysaga/internal/postgres"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
	"paysaga/saga"
)

// compareAgain: the second run with --apply changes no row of the database, and no payment at a provider.
func compareAgain(before, after map[string][]string, ledger, ledgerAfter []sandbox.Charge) []check {
	var changed int
	var problems []string
	for _, table := range slices.Sorted(maps.Keys(before)) {
		was, is := before[table], after[table]
		for _, row := range is {
			if _, kept := slices.BinarySearch(was, row); !kept {
				changed++
				problems = append(problems, "of "+table+": "+row)
			}
		}
		if gone := len(was) - len(is); gone > 0 {
			changed += gone
			problems = append(problems, fmt.Sprintf("of %s %d rows are gone", table, gone))
		}
	}
	calls := func(charges []sandbox.Charge) int { return total(charges).Calls }
	return []check{
		newCheck(count("rows that the second --apply changed", changed), count("allowed", 0), problems),
		newCheck(count("calls that change something, before it", calls(ledger)), count("after it", calls(ledgerAfter)), nil),
	}
}

// maxFindings is far more than are planted.
const maxFindings = 500

// compareAll finds each thing that was planted among the findings, and counts the money.
func (t *reconcileTour) compareAll(ctx context.Context) error {
	store, err := postgres.Open(ctx, t.mischief.URL(), 1, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.ReadFindings(ctx, reconcile.FindingFilter{Limit: maxFindings})
	if err != nil {
		return err
	}
	left, names := slices.Clone(found), []string(nil)
	for _, p := range t.planted {
		i := slices.IndexFunc(left, p.isFoundAs)
		if i < 0 {
			p.wantf(false, "it was not found")
			continue
		}
		p.judge(left[i])
		p.OK = len(p.Problems) == 0
		left = slices.Delete(left, i, i+1)
	}
	for _, f := range left {
		names = append(names, fmt.Sprintf("%s at %s of order %s: %s", f.Kind, f.Provider, f.OrderID, f.Detail))
	}
	t.all.Table = slices.Concat([]check{
		newCheck(count("things that went wrong", len(t.planted)), count("of them found as what they are", t.found()), nil),
		newCheck(count("findings about anything else", len(left)), count("allowed", 0), names),
	}, t.compareLedgers(t.ledger, t.place.sandbox.Ledger()), t.again)
	return nil
}

// isFoundAs tells that a finding is the one about what was planted. What no order knows is told by the provider.
func (p *planted) isFoundAs(f reconcile.Kept) bool {
	if f.Kind != p.want.kind || f.Provider != "" && f.Provider != p.Provider {
		return false
	}
	if f.Kind == reconcile.MissingLocally || f.Kind == reconcile.StatementMismatch {
		return f.OrderID == uuid.Nil
	}
	return f.OrderID == p.orderID()
}

// judge holds a finding, and what came of it, against what is to come of it.
func (p *planted) judge(f reconcile.Kept) {
	p.Kind, p.Severity, p.Repair, p.Detail, p.Note = f.Kind, f.Severity, f.Repair, f.Detail, f.Note
	// What a repair lets go on ends with the word of that.
	done := []string{reconcile.ResolutionRepaired, string(saga.ResolveRetry)}
	p.Mended = f.State == reconcile.FindingResolved && slices.Contains(done, f.Resolution)
	p.wantf(f.Severity == p.want.severity, "it is %s, not %s", f.Severity, p.want.severity)
	p.wantf(f.Repair == p.want.repair, "what mends it is %q, not %q", f.Repair, p.want.repair)
	fits := f.State == reconcile.FindingOpen
	if p.want.outcome == isMended {
		fits = p.Mended
	}
	p.wantf(fits, "it is %s %s: %s", f.State, f.Resolution, f.Note)
}

func (t *reconcileTour) found() (found int) {
	for _, p := range t.planted {
		if p.Kind != "" {
			found++
		}
	}
	return found
}

// compareLedgers: since the morning nothing was charged, and what was given back is what the repairs were to give back.
func (t *reconcileTour) compareLedgers(morning, now []sandbox.Charge) []check {
	var above []string
	var wanted int64
	for _, charge := range now {
		if charge.Refunded > charge.Captured {
			above = append(above, fmt.Sprintf("%s of %s has %d refunded of %d", charge.ID, charge.Provider, charge.Refunded, charge.Captured))
		}
	}
	for _, p := range t.planted {
		wanted += p.back
	}
	was, is := total(morning), total(now)
	money := func(what string, amount int64) figure { return figure{What: what, Amount: amount, money: true} }
	return []check{
		newCheck(count("payments at the providers in the morning", len(morning)), count("after all repairs", len(now)), nil),
		newCheck(money("taken there in the morning", was.Captured), money("after all repairs", is.Captured), nil),
		newCheck(money("given back by repairs", is.Refunded-was.Refunded), money("taken twice, or for nothing", wanted), nil),
		newCheck(count("payments with more given back than taken", len(above)), count("allowed", 0), above),
	}
}

// cameTo is what came of it, for the table.
func (p *planted) cameTo() string {
	switch p.want.outcome {
	case isMended:
		return "repaired: " + string(p.Repair)
	case isHalted:
		return "stopped, a person decides"
	case isTold:
	}
	return "a person reads it"
}
