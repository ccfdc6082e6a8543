package saga

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var allStates = []State{Started, Reserved, Charging, Awaiting, Charged, Completed, Compensating, RolledBack, Refunding, NeedsReview}

// edges are the table's ways in the notation of the picture.
func edges() []string {
	var all []string
	for _, event := range transitions {
		for _, from := range event.Src {
			all = append(all, from+" --> "+event.Dst+": "+event.Name)
		}
	}
	return all
}

// picture is the block that docs/ARCHITECTURE.md has to hold.
func picture() string {
	lines := []string{"```mermaid", "stateDiagram-v2", "    [*] --> started"}
	for _, edge := range edges() {
		lines = append(lines, "    "+edge)
	}
	for _, state := range allStates {
		if state.Ended() && state != NeedsReview {
			lines = append(lines, "    "+string(state)+" --> [*]")
		}
	}
	return strings.Join(append(lines, "```"), "\n")
}

func TestPictureOfStatesIsTheTable(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatalf("docs/ARCHITECTURE.md cannot be read (%v); it needs this block:\n%s", err, picture())
	}
	_, after, found := strings.Cut(string(document), "stateDiagram-v2")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatalf("docs/ARCHITECTURE.md has no picture of the states; it needs this block:\n%s", picture())
	}
	var drawn []string
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "-->") && !strings.Contains(line, "[*]") {
			drawn = append(drawn, line)
		}
	}
	want := edges()
	slices.Sort(drawn)
	slices.Sort(want)
	if diff := cmp.Diff(want, drawn); diff != "" {
		t.Errorf("the picture in docs/ARCHITECTURE.md differs from the table (-table +picture):\n%s\nIt should be:\n%s", diff, picture())
	}
}

func TestEveryStateCanBeReached(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{string(Started): true}
	for range allStates { // the longest way has fewer turns than there are states
		for _, event := range transitions {
			if slices.ContainsFunc(event.Src, func(from string) bool { return reached[from] }) {
				reached[event.Dst] = true
			}
		}
	}
	for _, state := range allStates {
		if !reached[string(state)] {
			t.Errorf("state %s cannot be reached", state)
		}
	}
	if len(reached) != len(allStates) {
		t.Errorf("the table reaches %d states, there are %d", len(reached), len(allStates))
	}
}

func TestOnlyEndedStatesHaveNoWayOut(t *testing.T) {
	t.Parallel()
	for _, state := range allStates {
		var ways []string
		for _, event := range transitions {
			if slices.Contains(event.Src, string(state)) {
				ways = append(ways, event.Name)
			}
		}
		late := func(way string) bool { // what a provider announces after the end, and what a person decides in review
			byPerson := strings.HasPrefix(way, "retry_") || strings.HasPrefix(way, "settle_")
			return way == fireReview || way == fireReturn || way == fireLate || byPerson && state == NeedsReview
		}
		if state.Ended() != (len(slices.DeleteFunc(slices.Clone(ways), late)) == 0) {
			t.Errorf("state %s: ended is %t, ways out are %v", state, state.Ended(), ways)
		}
	}
}

func TestFireFollowsTheTable(t *testing.T) {
	t.Parallel()
	for _, event := range transitions {
		for _, from := range allStates {
			got, err := fire(from, event.Name)
			if slices.Contains(event.Src, string(from)) {
				if err != nil || string(got) != event.Dst {
					t.Errorf("fire(%s, %s) = %s, %v; want %s", from, event.Name, got, err, event.Dst)
				}
				continue
			}
			if err == nil || got != from {
				t.Errorf("fire(%s, %s) = %s, %v; want an error and no move", from, event.Name, got, err)
			}
		}
	}
}

// Nobody takes a saga back from where its money is decided: only an operator leaves needs_review. From awaiting, it is the next
// attempt after a decline.
func TestMoneyIsNeverTakenTwiceByTheTable(t *testing.T) {
	t.Parallel()
	for _, event := range transitions {
		if event.Dst == string(Charging) && !slices.Equal(event.Src, []string{string(Reserved), string(Awaiting)}) {
			t.Errorf("charging is entered from %v; want reserved and awaiting only", event.Src)
		}
	}
}
