package stage

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"paysaga/saga"
)

// Written is one change of a saga that a server wrote.
type Written struct {
	Saga     uuid.UUID
	From, To saga.State
	At       time.Time // by the clock of the stage
	Event    string    // what the shop is told
}

// history is what the servers of a play wrote, in order.
type history struct {
	mu      sync.Mutex
	written []Written
}

func (h *history) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = nil
}

func (h *history) add(one Written) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = append(h.written, one)
}

// Written are the changes of a saga that were written so far, in order.
func (s *Stage) Written(key uuid.UUID) (all []Written) {
	for _, one := range s.history.all() {
		if one.Saga == key {
			all = append(all, one)
		}
	}
	return all
}

func (h *history) all() []Written {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.written)
}
