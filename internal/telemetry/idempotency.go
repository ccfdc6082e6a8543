package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Idempotency records what the guard of idempotency keys does. Its labels are an endpoint of Config.Endpoints, an account, or one of a few
// words; anything else is counted as "other".
type Idempotency struct {
	duplicatesBlocked     metric.Int64Counter
	fingerprintMismatches metric.Int64Counter
	keysCreated           metric.Int64Counter
	keysLimited           metric.Int64Counter
	lockTimeouts          metric.Int64Counter
	orphanReclaims        metric.Int64Counter
	processingDuration    metric.Float64Histogram

	endpoints allowed
	creators  *firstSeen
	limited   *firstSeen // apart from the creators: those who flood are to be seen, however late they came
}

var (
	hows     = allowed{"replayed", "in_progress"}
	takers   = allowed{"retry", "recovery"}
	statuses = allowed{"COMPLETED", "FAILED", "released"}
)

func newIdempotency(made *instruments, endpoints []string) *Idempotency {
	i := &Idempotency{
		duplicatesBlocked:     made.counter(duplicatesBlocked),
		fingerprintMismatches: made.counter(fingerprintMismatches),
		keysCreated:           made.counter(keysCreated),
		keysLimited:           made.counter(keysLimited),
		lockTimeouts:          made.counter(lockTimeouts),
		orphanReclaims:        made.counter(orphanReclaims),
		processingDuration:    made.histogram(processingDuration),

		endpoints: endpoints,
		creators:  newFirstSeen(maxAccounts),
		limited:   newFirstSeen(maxAccounts),
	}
	i.startAtZero()
	return i
}

// startAtZero makes the series whose labels are known. Prometheus cannot see the first event of a series that begins with it.
func (i *Idempotency) startAtZero() {
	for _, endpoint := range i.endpoints {
		for _, how := range hows {
			count(i.duplicatesBlocked, 0, attribute.String(labelEndpoint, endpoint), attribute.String(labelHow, how))
		}
		for _, by := range takers {
			count(i.orphanReclaims, 0, attribute.String(labelEndpoint, endpoint), attribute.String(labelBy, by))
		}
		count(i.fingerprintMismatches, 0, attribute.String(labelEndpoint, endpoint))
		count(i.lockTimeouts, 0, attribute.String(labelEndpoint, endpoint))
	}
	count(i.keysCreated, 0, attribute.String(labelAccount, other))
	count(i.keysLimited, 0, attribute.String(labelAccount, other))
}

// DuplicateBlocked counts a repeat that was not carried out again: "replayed" or "in_progress".
func (i *Idempotency) DuplicateBlocked(endpoint, how string) {
	count(i.duplicatesBlocked, 1, i.endpoint(endpoint), attribute.String(labelHow, hows.label(how)))
}

// FingerprintMismatch counts a request whose key stands for another intent.
func (i *Idempotency) FingerprintMismatch(endpoint string) {
	count(i.fingerprintMismatches, 1, i.endpoint(endpoint))
}

// KeyCreated counts a new key. The endpoint is not recorded: accounts times endpoints would be too many series.
func (i *Idempotency) KeyCreated(account, _ string) {
	count(i.keysCreated, 1, attribute.String(labelAccount, i.creators.label(account)))
}

// KeyLimited counts a request that was refused for too many new keys. The endpoint is not recorded, as the limit is the account's.
func (i *Idempotency) KeyLimited(account, _ string) {
	count(i.keysLimited, 1, attribute.String(labelAccount, i.limited.label(account)))
}

// LockTimeout counts a lease that ran out before its holder had stored an answer.
func (i *Idempotency) LockTimeout(endpoint string) { count(i.lockTimeouts, 1, i.endpoint(endpoint)) }

// OrphanReclaimed counts a key that was taken over: by "retry" or "recovery".
func (i *Idempotency) OrphanReclaimed(endpoint, by string) {
	count(i.orphanReclaims, 1, i.endpoint(endpoint), attribute.String(labelBy, takers.label(by)))
}

// Processed records how long a key was worked on and how that ended: "COMPLETED", "FAILED" or "released".
func (i *Idempotency) Processed(endpoint, status string, took time.Duration) {
	i.processingDuration.Record(context.Background(), float64(took)/float64(time.Millisecond),
		metric.WithAttributes(i.endpoint(endpoint), attribute.String(labelStatus, statuses.label(status))))
}

func (i *Idempotency) endpoint(name string) attribute.KeyValue {
	return attribute.String(labelEndpoint, i.endpoints.label(name))
}

func count(counter metric.Int64Counter, n int64, labels ...attribute.KeyValue) {
	counter.Add(context.Background(), n, metric.WithAttributes(labels...))
}
