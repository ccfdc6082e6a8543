package sandbox

import (
	"sync"
	"time"
)

// paypalView is how an object is shown: where its links lead, and whether whole or in PayPal's minimal form.
type paypalView struct {
	base string
	full bool
}

// requestRecord is what is remembered of one PayPal-Request-Id: how to show what was made under it. show is nil while the
// first call runs.
type requestRecord struct {
	key       string
	claimedAt time.Time
	show      func(paypalView) any
}

// requestMemory remembers request ids. Unlike a memory of answers it brings the object of a call in its latest state.
type requestMemory struct {
	retention time.Duration
	mu        sync.Mutex
	records   map[string]*requestRecord
	order     []*requestRecord // by claimedAt
}

func newRequestMemory(retention time.Duration) *requestMemory {
	return &requestMemory{retention: retention, records: make(map[string]*requestRecord)}
}

// claim takes the id for this call or says how it stands. After claimNew the caller must end with save or release.
func (m *requestMemory) claim(key string, now time.Time) (*requestRecord, claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.order) > 0 && now.Sub(m.order[0].claimedAt) >= m.retention {
		if oldest := m.order[0]; m.records[oldest.key] == oldest {
			if oldest.show == nil {
				break // it still runs
			}
			delete(m.records, oldest.key)
		}
		m.order[0] = nil // let the backing array not keep it
		m.order = m.order[1:]
	}
	record, known := m.records[key]
	switch {
	case !known && len(m.order) >= maxRememberedKeys:
		return nil, claimFull
	case !known:
		record = &requestRecord{key: key, claimedAt: now}
		m.records[key] = record
		m.order = append(m.order, record)
		return record, claimNew
	case record.show == nil:
		return record, claimInFlight
	}
	return record, claimSaved
}

func (m *requestMemory) save(record *requestRecord, show func(paypalView) any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record.show = show
}

// release lets the id be used afresh: nothing was made under it.
func (m *requestMemory) release(record *requestRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[record.key] == record {
		delete(m.records, record.key)
	}
}

func (m *requestMemory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records, m.order = make(map[string]*requestRecord), nil
}
