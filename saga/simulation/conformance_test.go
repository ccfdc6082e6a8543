package simulation

import (
	"testing"
	"time"

	"paysaga/saga/storetest"
)

// What the simulation runs over does what the real store does: that passes the same suite.
func TestMemoryKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Store {
		now := time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC)
		return newMemory(func() time.Time {
			now = now.Add(time.Millisecond) // no two transactions come at the same time
			return now
		})
	})
}
