package saga

import "context"

// Once makes one look, drives what it claims, and returns how many that were once all of them rest.
func (w *Recovery) Once(ctx context.Context) int {
	claimed := w.runOnce(ctx, w.acquire(ctx))
	for range w.Concurrency {
		w.slots <- struct{}{}
	}
	for range w.Concurrency {
		<-w.slots
	}
	return claimed
}
