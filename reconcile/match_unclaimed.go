package reconcile

import (
	"slices"

	"paysaga/providers"
)

// isOurs tells the sub-keys of sagas, whose keys are derived: UUIDs of version 5, as hardly anybody's else are.
func isOurs(key providers.SubKey) bool {
	sagaKey, ok := key.SagaKey()
	return ok && sagaKey.Version() == 5
}

// MatchUnclaimed judges what a provider tells of and no order knows. What came to nothing is no finding.
func MatchUnclaimed(u Unclaimed, policy Policy) (Finding, bool) {
	all := groups(Pair{There: u.There, Settled: u.Settled})
	finding := Finding{Kind: MissingLocally, Severity: High, Provider: u.Provider, Reference: u.Reference}
	live, ours := false, false
	for _, g := range all {
		ours = ours || slices.ContainsFunc(g.keys, isOurs)
		if !g.live() {
			continue
		}
		live = true
		finding.AtStake = add(finding.AtStake, providers.Money{Amount: max(g.kept(), g.holds()), Currency: g.currency})
		finding.There = g.facts()
	}
	switch {
	case !live, !ours && policy.IgnoreForeign:
		return Finding{}, false
	case ours:
		finding.Severity = Critical
		finding.Detail = "The provider has a payment under a key of ours, and no order knows it: " +
			"the database may have been restored from an older state."
	default:
		finding.Detail = "The provider has a payment that no order knows: it was made by hand, or by another system on the same account."
	}
	return finding, true
}

func add(a, b providers.Money) providers.Money {
	if a.Currency == "" || a.Currency == b.Currency {
		return providers.Money{Amount: plus(a.Amount, b.Amount), Currency: b.Currency}
	}
	return a
}
