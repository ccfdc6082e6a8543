package telemetry

import "sync"

// other stands for all values that have no label of their own.
const other = "other"

// maxAccounts is how many accounts have a label of their own, per metric and process. A hundred shops fit on a dashboard; each is one
// series per metric, so even a dozen processes stay at a few thousand.
const maxAccounts = 100

// maxHosts is how many hosts of providers have one. They come from the settings, a handful; this only guards against a fault there.
const maxHosts = 16

// firstSeen gives the first values that it meets a label of their own, and all others "other". Values keep what they got, so that
// a counter never runs backwards.
type firstSeen struct {
	most int

	mu   sync.RWMutex
	seen map[string]struct{}
}

func newFirstSeen(most int) *firstSeen { return &firstSeen{most: most, seen: map[string]struct{}{}} }

func (f *firstSeen) label(value string) string {
	f.mu.RLock()
	_, known := f.seen[value]
	full := len(f.seen) >= f.most
	f.mu.RUnlock()
	if known {
		return value
	}
	if full {
		return other
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known = f.seen[value]; !known && len(f.seen) >= f.most {
		return other
	}
	f.seen[value] = struct{}{}
	return value
}

// allowed are the only values of a label.
type allowed []string

func (a allowed) label(value string) string {
	for _, known := range a {
		if value == known {
			return known
		}
	}
	return other
}
