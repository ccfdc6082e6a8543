package sandbox

import (
	"net/http"
	"sync"
	"time"
)

// Charge is one payment in the ledger. Money is in ISO 4217 minor units, whatever units the provider's API uses.
type Charge struct {
	Provider   string `json:"provider"`
	ID         string `json:"id"`         // the provider's id: "pi_…", a pspReference, PayPal's order
	Identifier string `json:"identifier"` // the idempotency key of the call that made the payment; empty when it had none
	// Reference is what the caller filed it under. Stripe: metadata saga_key, else order_id; Adyen: reference; PayPal: custom_id,
	// else invoice_id.
	Reference  string `json:"reference"`
	Amount     int64  `json:"amount"`
	Currency   string `json:"currency"`   // upper case
	Status     string `json:"status"`     // the provider's own word; at PayPal that of capture or authorization, if any
	Authorized int64  `json:"authorized"` // held now: approved by the bank, neither taken nor released
	Captured   int64  `json:"captured"`   // taken in all; refunds do not lower it
	Refunded   int64  `json:"refunded"`   // given back, or on its way back
	// ChargedBack is what the customer's bank took back. Captured and Refunded know nothing of it.
	ChargedBack int64 `json:"charged_back,omitempty"`
	// Calls is how often Identifier was sent with a changing call: repeats, replays, faulted and refused calls included; only
	// calls that could not be read (bad credentials, broken body) are not.
	Calls int `json:"calls"`
}

// Limits of what is remembered about requests: enough for a long demonstration (about 50 MB at worst), too little to fill
// a laptop.
const (
	maxRecordedRequests  = 10_000
	maxRecordedBody      = 4 << 10
	maxCountedIdentifier = 1_000_000
)

// RequestRecord is one request as it came in, less its secrets.
type RequestRecord struct {
	Sequence   int64             `json:"sequence"`
	At         time.Time         `json:"at"` // by the sandbox's clock
	Provider   string            `json:"provider"`
	Call       CallType          `json:"call"`
	Identifier string            `json:"identifier,omitempty"`
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Query      string            `json:"query,omitempty"`
	Header     map[string]string `json:"headers"`
	Body       string            `json:"body,omitempty"`
	Truncated  bool              `json:"body_truncated,omitempty"`
	Status     int               `json:"status"` // 0: no answer was sent (yet)
	Fault      FaultKind         `json:"fault,omitempty"`
}

// journal keeps the last requests in a ring.
type journal struct {
	mu   sync.Mutex
	ring []RequestRecord
	next int64 // sequence of the next record
}

func newJournal() *journal { return &journal{} }

func (j *journal) add(record RequestRecord) (sequence int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	record.Sequence = j.next
	j.next++
	if len(j.ring) < maxRecordedRequests {
		j.ring = append(j.ring, record)
	} else {
		j.ring[record.Sequence%maxRecordedRequests] = record
	}
	return record.Sequence
}

// amend changes a record that may have left the ring already.
func (j *journal) amend(sequence int64, change func(*RequestRecord)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	position := sequence % maxRecordedRequests
	if position < int64(len(j.ring)) && j.ring[position].Sequence == sequence {
		change(&j.ring[position])
	}
}

// last is up to limit records, oldest first.
func (j *journal) last(limit int) []RequestRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	count := min(limit, len(j.ring))
	records := make([]RequestRecord, 0, count)
	for sequence := j.next - int64(count); sequence < j.next; sequence++ {
		records = append(records, j.ring[sequence%maxRecordedRequests])
	}
	return records
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.next = nil, 0
}

// secretHeaders are shown only as present.
var secretHeaders = map[string]bool{"Authorization": true, "Cookie": true, "Proxy-Authorization": true, "X-Api-Key": true}

func newRequestRecord(r *http.Request, at time.Time, body []byte) RequestRecord {
	header := make(map[string]string, len(r.Header))
	for name := range r.Header {
		header[name] = r.Header.Get(name)
		if secretHeaders[name] {
			header[name] = "[redacted]"
		}
	}
	shown := body[:min(len(body), maxRecordedBody)]
	return RequestRecord{
		At: at, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: header,
		Body: string(shown), Truncated: len(shown) < len(body),
	}
}

// callKey names a counter. Look-ups are counted apart from changing calls, as Charge.Calls speaks of the latter only.
type callKey struct {
	provider   string
	lookup     bool
	identifier string
}

// callCounter counts how often each identifier was sent.
type callCounter struct {
	mu     sync.Mutex
	counts map[callKey]int
}

func newCallCounter() *callCounter { return &callCounter{counts: make(map[callKey]int)} }

// increment gives the number of this call, from 1. Identifiers past the bound are not remembered and always count as 1.
func (c *callCounter) increment(key callKey) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count, known := c.counts[key]
	if !known && len(c.counts) >= maxCountedIdentifier {
		return 1
	}
	c.counts[key] = count + 1
	return count + 1
}

func (c *callCounter) count(key callKey) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[key]
}

func (c *callCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = make(map[callKey]int)
}
