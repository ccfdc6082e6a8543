package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tally counts what runs have met: a simulation in which nothing happens finds nothing.
type tally struct {
	mutex  sync.Mutex
	counts map[string]map[string]int // by group and name
}

func newTally() *tally { return &tally{counts: map[string]map[string]int{}} }

func (t *tally) add(group, name string) { t.addMany(group, name, 1) }

func (t *tally) addMany(group, name string, n int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.counts[group] == nil {
		t.counts[group] = map[string]int{}
	}
	t.counts[group][name] += n
}

func (t *tally) addAll(other *tally) {
	for group, counts := range other.counts {
		for name, n := range counts {
			t.addMany(group, name, n)
		}
	}
}

func (t *tally) count(group, name string) int { return t.counts[group][name] }

// String is a table of all that was counted.
func (t *tally) String() string {
	var text strings.Builder
	for _, group := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(&text, "%s\n", group)
		for _, name := range slices.Sorted(maps.Keys(t.counts[group])) {
			fmt.Fprintf(&text, "  %-44s %9d\n", name, t.counts[group][name])
		}
	}
	return text.String()
}
