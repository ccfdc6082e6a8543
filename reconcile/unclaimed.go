package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paysaga/providers"
)

// What a finding names that is about no single payment of a provider.
const (
	// ReferenceStatement is a settlement file; its id follows.
	ReferenceStatement = "statement "
	// ReferenceUntold stands behind a file or a list of which many payments are told as one thing.
	ReferenceUntold = ": unknown payments"
)

// StatementOf gives the settlement file that a finding with this reference is about. ok is false where it is about none.
func StatementOf(reference string) (id int64, ok bool) {
	number, ok := strings.CutPrefix(strings.TrimSuffix(reference, ReferenceUntold), ReferenceStatement)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(number, 10, 64)
	return id, err == nil
}

// unclaimed looks at what the providers have and no order knows.
func (o *once) unclaimed(ctx context.Context) error {
	for {
		batch, err := o.Store.NextUnclaimed(ctx, o.scope(), providedOf(o.run.Cursor), pairBatch)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		judged, err := o.judgeUnclaimed(ctx, batch)
		if err != nil {
			return err
		}
		last := batch[len(batch)-1]
		o.run.Totals.Unclaimed += int64(len(batch))
		o.run.Cursor = Provided{Provider: last.Provider, Reference: last.Reference}.String()
		if err := o.keep(ctx, judged); err != nil {
			return err
		}
	}
	if err := o.judgeUntold(ctx); err != nil {
		return err
	}
	if err := o.compared(ctx); err != nil {
		return err
	}
	return o.next(ctx, StageRepair)
}

// judgeUnclaimed judges a batch. Payments of other systems are findings of their own up to a number; beyond it they are counted.
func (o *once) judgeUnclaimed(ctx context.Context, batch []Unclaimed) (judged Judged, err error) {
	left := make(map[string]int64) // room for findings, by provider
	for _, u := range batch {
		finding, found := MatchUnclaimed(u, o.Policy)
		if found && isForeign(finding) && !u.Open {
			isRoom, err := o.takeRoom(ctx, left, u.Provider)
			if err != nil {
				return judged, err
			}
			if !isRoom {
				o.untold(finding)
				continue
			}
		}
		judged.Unclaimed = append(judged.Unclaimed, Provided{Provider: u.Provider, Reference: u.Reference})
		if found {
			finding.AccountID = o.Account
			judged.Found = append(judged.Found, finding)
		}
	}
	return judged, nil
}

// isForeign tells a payment that bears no key of ours.
func isForeign(f Finding) bool { return f.Kind == MissingLocally && f.Severity != Critical }

// takeRoom takes the room for a finding more about a payment of another system, if there is any left.
func (o *once) takeRoom(ctx context.Context, left map[string]int64, provider string) (bool, error) {
	if _, known := left[provider]; !known {
		open, err := o.Store.CountUnclaimed(ctx, provider)
		if err != nil {
			return false, err
		}
		left[provider] = int64(o.Policy.MostForeign) - open
	}
	left[provider]--
	return left[provider] >= 0, nil
}

// untold counts a finding that is not kept.
func (o *once) untold(f Finding) {
	if o.run.Totals.Untold == nil {
		o.run.Totals.Untold = make(map[string]Sum)
	}
	sum := o.run.Totals.Untold[f.Provider]
	sum.add(f.AtStake)
	o.run.Totals.Untold[f.Provider] = sum
}

// judgeUntold: what is too much to be told one by one is told as one thing.
func (o *once) judgeUntold(ctx context.Context) error {
	if o.run.Reason != "" { // what was not listed may be there still
		return nil
	}
	reference := "list" + ReferenceUntold
	if o.run.StatementID != 0 {
		reference = o.fileReference() + ReferenceUntold
	}
	var judged Judged
	for _, provider := range o.run.Providers {
		judged.Unclaimed = append(judged.Unclaimed, Provided{Provider: provider, Reference: reference})
		if sum := o.run.Totals.Untold[provider]; sum.Findings > 0 {
			judged.Found = append(judged.Found, Finding{
				Kind: MissingLocally, Severity: High, AccountID: o.Account, Provider: provider, Reference: reference, Detail: o.untoldDetail(sum),
			})
		}
	}
	return o.keep(ctx, judged)
}

// untoldDetail says how many payments are told as one thing. Their money is said, and not counted as at stake: whose it is nobody knows.
func (o *once) untoldDetail(sum Sum) string {
	money := make([]string, 0, len(sum.AtStake))
	for currency, amount := range sum.AtStake {
		money = append(money, providers.Money{Amount: amount, Currency: currency}.String())
	}
	slices.Sort(money)
	if len(money) > mostCurrencies {
		money = append(money[:mostCurrencies], "others")
	}
	of := ""
	if file := o.request.Statement; file != nil {
		of = "Settlement file " + file.kept.Name + ": "
	}
	return fmt.Sprintf("%s%d more payments that no order knows (%s) are no findings of their own, as so many are open already: they are "+
		"another account's, or another system's on the same account. With PAYSAGA_RECONCILE_FOREIGN=ignore those without a key of ours are "+
		"left out.", of, sum.Findings, strings.Join(money, ", "))
}

// mostCurrencies is in how many currencies money is said in a sentence.
const mostCurrencies = 5

func (s *Sum) add(money providers.Money) {
	if s.AtStake == nil {
		s.AtStake = make(map[string]int64)
	}
	s.Findings++
	s.AtStake[money.Currency] = plus(s.AtStake[money.Currency], money.Amount)
}
