package sandbox

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Bounds of a key memory. They are refused at, never forgotten at: a forgotten key is a second charge.
const (
	maxRememberedKeys  = 500_000
	maxRememberedBytes = 512 << 20
)

// claim is how a key stands when a call arrives with it.
type claim int

const (
	claimNew           claim = iota // ours to execute
	claimSaved                      // executed before: replay
	claimInFlight                   // the first call still runs
	claimOtherEndpoint              // used before for another path
	claimOtherRequest               // used before with other parameters
	claimFull                       // no room for another key
)

// keyRecord is what is remembered of one key.
type keyRecord struct {
	key         string
	path        string
	fingerprint [sha256.Size]byte
	claimedAt   time.Time
	saved       *answer // nil while the first call runs
	requestID   string  // of the first call
}

// keyMemory remembers keys and the answers given under them for a retention time.
type keyMemory struct {
	retention time.Duration
	mu        sync.Mutex
	records   map[string]*keyRecord
	order     []*keyRecord // by claimedAt; released ones stay until their time, unreachable through records
	bytes     int
}

func newKeyMemory(retention time.Duration) *keyMemory {
	return &keyMemory{retention: retention, records: make(map[string]*keyRecord)}
}

// claim takes the key for this call or says why not. For claimSaved the record holds the saved answer. After claimNew the caller
// must end with save or release.
func (m *keyMemory) claim(key, path string, fingerprint [sha256.Size]byte, requestID string, now time.Time) (*keyRecord, claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	record, known := m.records[key]
	switch {
	case !known && (len(m.order) >= maxRememberedKeys || m.bytes >= maxRememberedBytes):
		return nil, claimFull
	case !known:
		record = &keyRecord{key: key, path: path, fingerprint: fingerprint, claimedAt: now, requestID: requestID}
		m.records[key] = record
		m.order = append(m.order, record)
		return record, claimNew
	case record.path != path:
		return record, claimOtherEndpoint
	case record.fingerprint != fingerprint:
		return record, claimOtherRequest
	case record.saved == nil:
		return record, claimInFlight
	}
	return record, claimSaved
}

func (m *keyMemory) save(record *keyRecord, given answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record.saved = &given
	if m.records[record.key] == record { // else the memory was emptied meanwhile
		m.bytes += len(given.body)
	}
}

// release lets the key be used afresh: nothing was executed under it.
func (m *keyMemory) release(record *keyRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[record.key] != record {
		return
	}
	delete(m.records, record.key)
	if last := len(m.order) - 1; m.order[last] == record {
		m.order = m.order[:last]
	}
}

// forget drops what is older than the retention. A call still in flight keeps its key.
func (m *keyMemory) forget(now time.Time) {
	for len(m.order) > 0 {
		oldest := m.order[0]
		current := m.records[oldest.key] == oldest
		if now.Sub(oldest.claimedAt) < m.retention || (current && oldest.saved == nil) {
			return
		}
		m.order[0] = nil // let the backing array not keep it
		m.order = m.order[1:]
		if current {
			delete(m.records, oldest.key)
			m.bytes -= len(oldest.saved.body)
		}
	}
}

func (m *keyMemory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records, m.order, m.bytes = make(map[string]*keyRecord), nil, 0
}
