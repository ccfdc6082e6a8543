package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// need is what a scenario needs besides a server and an API key.
type need string

const (
	needNothing      need = ""
	needOtherAccount need = "a second account (--other-api-key)"
	needSandbox      need = "the provider sandbox (--sandbox)"
	needOwnSystem    need = "a system of its own (run it without --server)"
)

// scenario is one promise of the contract.
type scenario struct {
	name  string
	sees  string // what a client sees
	needs need
	play  func(ctx context.Context, r *contractRun, s *sighting) error
}

// contractScenarios are in the order in which docs/contract.md tells them.
var contractScenarios = []scenario{
	{"first-call", "201 with Location, not marked as a repeat; the money is taken once", needNothing, seeFirstCall},
	{"repeat", "the stored answer: same status, same bytes, same headers, marked Idempotency-Replayed", needNothing, seeRepeat},
	{
		"running", "409 request-in-progress with Retry-After meanwhile; of twenty at once one executes, all end with the same bytes",
		needNothing, seeRunning,
	},
	{"other-request", "422 idempotency-key-reuse (409 by setting), which tells nothing of the first request", needNothing, seeOtherRequest},
	{
		"same-request", "blanks, order of fields, spelling of numbers, metadata and headers change nothing: a replay",
		needNothing, seeSameRequest,
	},
	{"other-account", "a request of its own under the same key; what is another account's is 404", needOtherAccount, seeOtherAccount},
	{
		"crash", "no answer; a repeat at any other server resumes once the lease is over, one of many, and the money is taken once",
		needOwnSystem, seeCrash,
	},
	{"transient", "5xx with Retry-After is never stored: the same key works later; 202 when the end is not known", needSandbox, seeTransient},
	{"declined", "402, and out of stock 422: stored, and replayed byte for byte", needNothing, seeDeclined},
	{"invalid", "400, or 422 unknown-sku, before the key is claimed: the mended request may use the same key", needNothing, seeInvalid},
	{"no-key", "422 without a key (or unprotected, and told so, by setting), 400 with a malformed one or several", needNothing, seeNoKey},
	{"expired", "after its window a key is new: another order; by setting 410 instead", needOwnSystem, seeExpired},
	{"retention", "a server that would forget keys before a provider does is refused at start", needOwnSystem, seeRetention},
	{"step-fails", "a failed charge is tried again without reserving again: the timeline and the stock show it", needNothing, seeStepFails},
	{"too-many-keys", "429 with Retry-After for too many new keys, over all processes; repeats are not limited", needOwnSystem, seeLimit},
	{"endpoints", "PATCH, continue, capture, cancel, refunds, stock: first call, repeat and other request each", needNothing, seeEndpoints},
	{"log-only", "everything executes, and the answer tells what would have been held back", needOwnSystem, seeLogOnly},
}

func scenarioNames() []string {
	names := make([]string, len(contractScenarios))
	for i, s := range contractScenarios {
		names[i] = s.name
	}
	return names
}

func chosenScenarios(only []string) []scenario {
	return slices.DeleteFunc(slices.Clone(contractScenarios), func(s scenario) bool {
		return len(only) > 0 && !slices.Contains(only, s.name)
	})
}

// lacks: the run does not have what the scenario needs.
func (r *contractRun) lacks(n need) bool {
	switch n {
	case needOtherAccount:
		return r.other.secret == ""
	case needSandbox:
		return r.sandbox == nil
	case needOwnSystem:
		return r.own == nil
	case needNothing:
	}
	return false
}

// see plays a scenario. An error of it is a promise that did not hold, as a problem is; but not that the server limits new keys.
func (r *contractRun) see(ctx context.Context, s scenario) sighting {
	seen := sighting{Name: s.name, ClientSees: s.sees}
	if r.lacks(s.needs) {
		seen.Result, seen.NotShown = resultNotShown, "needs "+string(s.needs)
		return seen
	}
	begun := time.Now()
	err := s.play(ctx, r, &seen)
	limited := errors.Is(err, errKeysLimited)
	if err != nil && !limited {
		seen.Problems = append(seen.Problems, err.Error())
	}
	seen.DurationMS = time.Since(begun).Milliseconds()
	switch {
	case len(seen.Problems) > 0:
		seen.Result = resultBroken
	case limited:
		seen.Result, seen.NotShown = resultNotShown, errKeysLimited.Error()+"; give it more --timeout"
	default:
		seen.Result = resultHeld
	}
	return seen
}
