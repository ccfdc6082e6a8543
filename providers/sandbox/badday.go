package sandbox

import (
	"maps"
	"slices"
)

// BadDay is how providers misbehave at their worst: about every fourth charge meets one of these faults, each repeat anew, and so does
// every fourth capture, void and refund. Which ones is drawn from the seed. Those that let a call time out are rare, as each costs a
// server's slot for seconds.
//
// Adyen gives no 500 for a call that it did not carry out: it asks not to repeat those and cannot be asked, so that only the long wait
// for a notice would tell. What it did carry out it announces.
func BadDay(seed int64) []Fault {
	everywhere := map[FaultKind]float64{
		FaultTimeoutBefore: 0.005, FaultTimeoutAfter: 0.01, FaultErrorAfter: 0.03, FaultErrorSaved: 0.01,
		FaultResetBefore: 0.02, FaultResetAfter: 0.03, FaultRateLimited: 0.03, FaultInProgress: 0.01,
		FaultGarbageAfter: 0.03, FaultEmptyAfter: 0.02,
	}
	unhandled := map[string]FaultKind{stripeName: FaultErrorBefore, adyenName: FaultKeyStoreDown, paypalName: FaultErrorBefore}
	var faults []Fault
	for _, call := range []CallType{CallCharge, CallCapture, CallVoid, CallRefund} {
		for _, kind := range slices.Sorted(maps.Keys(everywhere)) {
			faults = append(faults, Fault{Call: call, Kind: kind, Probability: everywhere[kind], Seed: seed})
		}
		for _, provider := range knownProviders {
			faults = append(faults, Fault{Provider: provider, Call: call, Kind: unhandled[provider], Probability: 0.03, Seed: seed})
		}
	}
	return append(faults,
		Fault{Call: CallCharge, Kind: FaultSlow, DelayMS: 300, Probability: 0.03, Seed: seed},
		Fault{Call: CallLookup, Kind: FaultErrorBefore, Probability: 0.1, Seed: seed},
		Fault{Call: CallToken, Kind: FaultErrorBefore, Probability: 0.1, Seed: seed})
}
