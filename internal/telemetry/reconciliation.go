package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Reconciliation records what reconciliation finds and does. What is open is measured between runs as well, and set as a whole.
type Reconciliation struct {
	findingsOpen metric.Int64Gauge
	oldestAge    metric.Int64Gauge
	atStake      metric.Int64Gauge
	measuredAt   metric.Int64Gauge
	lastSuccess  metric.Int64Gauge
	interval     metric.Int64Gauge
	runs         metric.Int64Counter
	repairs      metric.Int64Counter
	runDuration  metric.Float64Histogram

	kinds      *firstSeen
	currencies *firstSeen
	providers  *firstSeen

	mu       sync.Mutex
	told     map[OpenFindings]bool // of which a gauge was set, by kind and severity: what is gone is set to 0
	toldOf   map[string]bool       // as told, by currency
	repaired *firstSeen
}

// Bounds of the labels: they guard against a fault elsewhere. There are some forty kinds of findings, and ten repairs. A shop that
// sells in more currencies sees the others together.
const (
	maxKinds      = 64
	maxRepairs    = 16
	maxCurrencies = 32
	maxProviders  = 16
)

var (
	severities = allowed{"critical", "high", "low"}
	modes      = allowed{"plan", "apply"}
	runStates  = allowed{"done", "stopped", "failed"}
	results    = allowed{"done", "refused"}
)

func newReconciliation(made *instruments) *Reconciliation {
	r := &Reconciliation{
		findingsOpen: made.gauge(findingsOpen), oldestAge: made.gauge(findingsOldestAge), atStake: made.gauge(findingsAtStake),
		measuredAt: made.gauge(findingsMeasured), lastSuccess: made.gauge(reconciliationLastSuccess),
		interval: made.gauge(reconciliationInterval), runs: made.counter(reconciliationRuns), repairs: made.counter(reconciliationRepairs),
		runDuration: made.histogram(reconciliationRunDuration),

		kinds: newFirstSeen(maxKinds), currencies: newFirstSeen(maxCurrencies), providers: newFirstSeen(maxProviders),
		repaired: newFirstSeen(maxRepairs), told: map[OpenFindings]bool{}, toldOf: map[string]bool{},
	}
	for _, mode := range modes {
		for _, state := range runStates {
			count(r.runs, 0, attribute.String(labelMode, mode), attribute.String(labelState, state))
		}
	}
	return r
}

// StartRepairs makes the series of the repairs that there are, so that the first one of each is seen.
func (r *Reconciliation) StartRepairs(repairs []string) {
	for _, repair := range repairs {
		for _, result := range results {
			count(r.repairs, 0, attribute.String(labelRepair, r.repaired.label(repair)), attribute.String(labelResult, result))
		}
	}
}

// OpenFindings counts the findings of a kind and severity that are open and not ignored.
type OpenFindings struct {
	Kind, Severity string
	Findings       int64
}

// SetFindings tells what is open at a time: all of it. Money is in minor units, by currency.
func (r *Reconciliation) SetFindings(open []OpenFindings, oldest time.Duration, atStake map[string]int64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[OpenFindings]int64{} // kinds without a label of their own come together
	for _, one := range open {
		counts[OpenFindings{Kind: r.kinds.label(one.Kind), Severity: severities.label(one.Severity)}] += one.Findings
	}
	for which := range counts {
		r.told[which] = true
	}
	for which := range r.told {
		r.findingsOpen.Record(context.Background(), counts[which], metric.WithAttributes(
			attribute.String(labelKind, which.Kind), attribute.String(labelSeverity, which.Severity)))
	}
	r.setAtStake(atStake)
	r.oldestAge.Record(context.Background(), int64(oldest/time.Second))
	r.measuredAt.Record(context.Background(), at.Unix())
}

// setAtStake does not sum up what has no label of its own: those are different currencies.
func (r *Reconciliation) setAtStake(atStake map[string]int64) {
	for currency := range atStake {
		r.toldOf[currency] = true
	}
	for currency := range r.toldOf {
		if label := r.currencies.label(currency); label != other {
			r.atStake.Record(context.Background(), atStake[currency], metric.WithAttributes(attribute.String(labelCurrency, label)))
		}
	}
}

// SetLastSuccess tells up to when what a provider has was compared, plus what its list is behind by itself.
func (r *Reconciliation) SetLastSuccess(provider string, at time.Time) {
	r.lastSuccess.Record(context.Background(), at.Unix(), metric.WithAttributes(attribute.String(labelProvider, r.providers.label(provider))))
}

// SetInterval tells how far apart the schedule's turns are at most; 0 where there is no schedule.
func (r *Reconciliation) SetInterval(interval time.Duration) {
	r.interval.Record(context.Background(), int64(interval/time.Second))
}

// RunEnded counts a run that ended: "done", "stopped" at the limit of money, or "failed".
func (r *Reconciliation) RunEnded(mode, state string, took time.Duration) {
	labels := []attribute.KeyValue{attribute.String(labelMode, modes.label(mode)), attribute.String(labelState, runStates.label(state))}
	count(r.runs, 1, labels...)
	r.runDuration.Record(context.Background(), took.Seconds(), metric.WithAttributes(slices.Clone(labels)...))
}

// RepairEnded counts a repair that was tried.
func (r *Reconciliation) RepairEnded(repair string, done bool) {
	result := "refused"
	if done {
		result = "done"
	}
	count(r.repairs, 1, attribute.String(labelRepair, r.repaired.label(repair)), attribute.String(labelResult, results.label(result)))
}
