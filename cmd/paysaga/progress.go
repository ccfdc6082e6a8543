package main

import "io"

// bar is a progress that leaps: it is told how far things are. Of little there is none.
type bar struct {
	*progress

	at int64
}

// fewRows take less than a second.
const fewRows = 1000

func newBar(errOut io.Writer, what string, total int64) *bar {
	if total <= fewRows {
		return &bar{}
	}
	return &bar{progress: newScreen(io.Discard, errOut, false).progress(what, int(total))}
}

func (b *bar) to(done int64) {
	for ; b.progress != nil && b.at < min(done, b.total); b.at++ {
		b.step()
	}
}

func (b *bar) close() {
	if b.progress != nil {
		b.end()
	}
}
