package sandbox

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestKeyMemoryRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	memory := newKeyMemory(time.Hour)
	start := time.Unix(0, 0)
	print1, print2 := sha256.Sum256([]byte("1")), sha256.Sum256([]byte("2"))
	record, state := memory.claim("k1", "/a", print1, "req_1", start)
	if state != claimNew {
		t.Fatalf("first claim: %v", state)
	}
	memory.save(record, answer{status: 200, body: make([]byte, maxRememberedBytes)})
	for name, test := range map[string]struct {
		key, path string
		print     [sha256.Size]byte
		at        time.Time
		want      claim
	}{
		"saved":          {"k1", "/a", print1, start, claimSaved},
		"other request":  {"k1", "/a", print2, start, claimOtherRequest},
		"other endpoint": {"k1", "/b", print1, start, claimOtherEndpoint},
		"no room":        {"k2", "/a", print1, start.Add(time.Hour - 1), claimFull},
	} {
		if _, got := memory.claim(test.key, test.path, test.print, "req_2", test.at); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if _, got := memory.claim("k2", "/a", print1, "req_3", start.Add(time.Hour)); got != claimNew {
		t.Errorf("after the retention: %v", got)
	}
}

func TestKeyMemoryKeepsAKeyInFlightPastItsTime(t *testing.T) {
	t.Parallel()
	memory := newKeyMemory(time.Hour)
	start := time.Unix(0, 0)
	print1 := sha256.Sum256([]byte("1"))
	record, _ := memory.claim("k1", "/a", print1, "req_1", start)
	if _, got := memory.claim("k1", "/a", print1, "req_2", start.Add(2*time.Hour)); got != claimInFlight {
		t.Errorf("in flight: %v", got)
	}
	memory.release(record)
	if _, got := memory.claim("k1", "/a", print1, "req_3", start.Add(2*time.Hour)); got != claimNew {
		t.Errorf("released: %v", got)
	}
	if len(memory.order) != 1 {
		t.Errorf("%d records kept, want 1: a released key must leave nothing", len(memory.order))
	}
}
