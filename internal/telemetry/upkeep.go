package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Upkeep records what the upkeep worker does and measures. Its gauges keep their last value: one that is never set is not on the
// endpoint at all, so that "none" and "not measured" cannot be taken for each other.
type Upkeep struct {
	storeSize         metric.Int64Gauge
	processingOverdue metric.Int64Gauge
	partitionsAhead   metric.Int64Gauge
	lastSuccess       metric.Int64Gauge
	openSagas         metric.Int64Gauge
	keysCleaned       metric.Int64Counter
	partitionsDropped metric.Int64Counter
}

var (
	tables     = allowed{"idempotency_keys", "idempotency_answers", "key_limits"}
	openStates = allowed{"charging", "awaiting", "compensating", "refunding", "needs_review"} // in which a saga rests, and not at its end
)

func newUpkeep(made *instruments) *Upkeep {
	u := &Upkeep{
		storeSize:         made.gauge(storeSize),
		processingOverdue: made.gauge(processingOverdue),
		partitionsAhead:   made.gauge(partitionsAhead),
		lastSuccess:       made.gauge(upkeepLastSuccess),
		openSagas:         made.gauge(openSagas),
		keysCleaned:       made.counter(keysCleaned),
		partitionsDropped: made.counter(partitionsDropped),
	}
	count(u.keysCleaned, 0)
	count(u.partitionsDropped, 0)
	return u
}

// SetStoreSize tells about how many rows a table has; a partitioned one is one table.
func (u *Upkeep) SetStoreSize(table string, rows int64) {
	u.storeSize.Record(context.Background(), rows, metric.WithAttributes(attribute.String(labelTable, tables.label(table))))
}

// SetProcessingOverdue tells how many keys are PROCESSING though their lease ended more than five minutes ago.
func (u *Upkeep) SetProcessingOverdue(keys int64) {
	u.processingOverdue.Record(context.Background(), keys)
}

// SetPartitionsAhead tells for how many days new answers will still find a partition: the end of the last one, less the retention.
func (u *Upkeep) SetPartitionsAhead(days int64) { u.partitionsAhead.Record(context.Background(), days) }

// SetOpenSagas tells how many sagas rest in a state that is no end. States with none are to be set to 0, else they keep their last value.
func (u *Upkeep) SetOpenSagas(state string, sagas int64) {
	u.openSagas.Record(context.Background(), sagas, metric.WithAttributes(attribute.String(labelState, openStates.label(state))))
}

// KeysCleaned counts keys that were deleted after their window.
func (u *Upkeep) KeysCleaned(keys int64) { count(u.keysCleaned, keys) }

// PartitionsDropped counts partitions of answers that were dropped after their week.
func (u *Upkeep) PartitionsDropped(partitions int64) { count(u.partitionsDropped, partitions) }

// Succeeded tells when upkeep last went through without an error.
func (u *Upkeep) Succeeded(at time.Time) { u.lastSuccess.Record(context.Background(), at.Unix()) }
