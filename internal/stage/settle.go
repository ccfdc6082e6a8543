package stage

import (
	"slices"
	"time"

	"paysaga/providers/sandbox"
)

const (
	// mostRounds bounds settle. A hold of 29 days takes some seventy, as the steps grow to half a day.
	mostRounds = 400
	firstStep  = time.Second
	mostStep   = 12 * time.Hour
)

// Settle brings all webhooks that are not lost, and lets the time go by until nothing is open any more. The bank is asked in between.
func (f *Flow) Settle(bank func()) {
	f.Helper()
	f.Sandbox.ClearFaults()
	f.Server.DieAt(0, false)
	step := firstStep
	for range mostRounds {
		for _, one := range f.Letters() {
			if one.Copies == 0 && !one.Lost {
				f.Stage.Bring(one)
			}
		}
		f.Server.Apply()
		f.Server.Recover()
		if f.undelivered() {
			continue // webhooks take seconds, and all that could follow by itself takes longer
		}
		due, open := f.nextDue()
		if !open && !f.holds() {
			return
		}
		bank()
		f.Pass(max(due, step))
		step = min(step*3/2, mostStep)
	}
	f.Fatalf("not settled after %d rounds: %s", mostRounds, f.Report())
}

// holds tells whether a provider still holds money. Adyen does so after a last partial capture, until the hold expires.
func (f *Flow) holds() bool {
	f.Helper()
	return slices.ContainsFunc(f.Sandbox.Ledger(), func(charge sandbox.Charge) bool { return charge.Authorized > 0 })
}

func (f *Flow) undelivered() bool {
	f.Helper()
	return slices.ContainsFunc(f.Letters(), func(one *Letter) bool { return one.Copies == 0 && !one.Lost })
}

// nextDue is how long nothing happens by itself; open is false when nothing ever will.
func (f *Flow) nextDue() (pause time.Duration, open bool) {
	f.Helper()
	var due *time.Duration
	err := f.Pool.QueryRow(f.Context(), `SELECT min(at) - now() FROM (
		SELECT greatest(next_attempt_at, locked_until) AS at FROM sagas WHERE next_attempt_at IS NOT NULL
		UNION ALL SELECT next_attempt_at FROM webhook_events WHERE status = 'waiting') AS open`).Scan(&due)
	f.Must(err)
	if due == nil {
		return 0, false
	}
	return *due, true
}
