package telemetry

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what a metric does with what it is told.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"   // grows; a process starts it anew
	Gauge     Kind = "gauge"     // the latest value
	Histogram Kind = "histogram" // how often each length came
)

// Metric describes one metric, for the instruments and for the documents that are made from it.
type Metric struct {
	Name        string // OpenTelemetry's
	Kind        Kind
	Unit        string // in UCUM as OpenTelemetry wants it; what is counted stands in braces
	Description string
	Labels      []string  // OpenTelemetry's attributes
	Buckets     []float64 // upper bounds of a histogram, in its unit
}

// The metrics' names.
const (
	duplicatesBlocked     = "idempotency.duplicates_blocked"
	lockTimeouts          = "idempotency.lock_timeouts"
	fingerprintMismatches = "idempotency.fingerprint_mismatches"
	processingDuration    = "idempotency.processing_duration_ms"
	keysCreated           = "idempotency.keys_created_per_user"
	keysLimited           = "idempotency.keys_limited"
	orphanReclaims        = "idempotency.orphan_reclaims"

	storeSize         = "idempotency.store_size"
	processingOverdue = "idempotency.processing_overdue"
	partitionsAhead   = "idempotency.answer_partitions_ahead_days"
	keysCleaned       = "idempotency.keys_cleaned"
	partitionsDropped = "idempotency.partitions_dropped"
	upkeepLastSuccess = "idempotency.upkeep_last_success_timestamp_seconds"
	openSagas         = "saga.open"

	findingsOpen              = "findings.open"
	findingsOldestAge         = "findings.oldest_age_seconds"
	findingsAtStake           = "findings.at_stake"
	findingsMeasured          = "findings.measured_timestamp_seconds"
	reconciliationRuns        = "reconciliation.runs"
	reconciliationRunDuration = "reconciliation.run_duration"
	reconciliationLastSuccess = "reconciliation.last_success_timestamp_seconds"
	reconciliationInterval    = "reconciliation.interval_seconds"
	reconciliationRepairs     = "reconciliation.repairs"

	httpServerDuration = "http.server.request.duration"
	httpClientDuration = "http.client.request.duration"
	paysagaBuild       = "paysaga.build_info"
)

// The labels' names.
const (
	labelAccount        = "account"
	labelBy             = "by"
	labelCurrency       = "currency"
	labelEndpoint       = "endpoint"
	labelHow            = "how"
	labelKind           = "kind"
	labelMode           = "mode"
	labelProvider       = "provider"
	labelRepair         = "repair"
	labelResult         = "result"
	labelSeverity       = "severity"
	labelState          = "state"
	labelStatus         = "status"
	labelTable          = "table"
	labelErrorType      = "error.type"
	labelRequestMethod  = "http.request.method"
	labelRoute          = "http.route"
	labelResponseStatus = "http.response.status_code"
	labelServerAddress  = "server.address"
	labelVersion        = "version"
	labelRevision       = "revision"
	labelGoVersion      = "go_version"
)

// Metrics lists all metrics in the order of the documentation.
func Metrics() []Metric {
	return slices.Concat(guardMetrics(), upkeepMetrics(), reconciliationMetrics(), houseMetrics())
}

func guardMetrics() []Metric {
	return []Metric{
		{
			Name: duplicatesBlocked, Kind: Counter, Unit: "{request}", Labels: []string{labelEndpoint, labelHow},
			Description: "Repeats that were not carried out again: answered from store (how=replayed), or refused while the first one " +
				"was at work (how=in_progress). In log_only: those that would have been.",
		},
		{
			Name: lockTimeouts, Kind: Counter, Unit: "{request}", Labels: []string{labelEndpoint},
			Description: "Holders that came to store their answer and found their request taken over: their process hung, or was cut off from " +
				"the database. One that died does not come back: it shows as `orphan_reclaims` alone.",
		},
		{
			Name: fingerprintMismatches, Kind: Counter, Unit: "{request}", Labels: []string{labelEndpoint},
			Description: "Requests refused as their key stands for another intent: a client makes its keys wrongly, or changes what it repeats. " +
				"In log_only: those that would have been.",
		},
		{
			Name: processingDuration, Kind: Histogram, Unit: "ms", Labels: []string{labelEndpoint, labelStatus}, Buckets: processingBuckets(),
			Description: "Time from claiming a key to its answer (status=COMPLETED or FAILED), or to leaving it to its repeat (released).",
		},
		{
			Name: keysCreated, Kind: Counter, Unit: "{key}", Labels: []string{labelAccount},
			Description: fmt.Sprintf(
				"New keys. The first %d accounts that a process meets have their own label, all others share `other`.", maxAccounts),
		},
		{
			Name: keysLimited, Kind: Counter, Unit: "{request}", Labels: []string{labelAccount},
			Description: fmt.Sprintf(
				"Requests refused for too many new keys, 429. The first %d accounts that it meets have their own label.", maxAccounts),
		},
		{
			Name: orphanReclaims, Kind: Counter, Unit: "{key}", Labels: []string{labelEndpoint, labelBy},
			Description: "Keys taken over from a holder whose lease had run out, by=retry of the client or by=recovery.",
		},
	}
}

func upkeepMetrics() []Metric {
	return []Metric{
		{
			Name: storeSize, Kind: Gauge, Unit: "{row}", Labels: []string{labelTable},
			Description: "Rows of a table as the database's statistics estimate them; measured by upkeep, never by a scrape.",
		},
		{
			Name: processingOverdue, Kind: Gauge, Unit: "{key}",
			Description: "Keys still PROCESSING whose lease ended more than five minutes ago: neither a retry nor recovery took them up.",
		},
		{
			Name: partitionsAhead, Kind: Gauge, Unit: "d",
			Description: "Days for which the answers of new keys find a partition; at 0 or less a request makes it.",
		},
		{
			Name: keysCleaned, Kind: Counter, Unit: "{key}",
			Description: "Keys deleted after their window.",
		},
		{
			Name: partitionsDropped, Kind: Counter, Unit: "{partition}",
			Description: "Partitions of answers dropped after their week.",
		},
		{
			Name: upkeepLastSuccess, Kind: Gauge, Unit: "s",
			Description: "When upkeep last went through without an error, as Unix time. Absent until then.",
		},
		{
			Name: openSagas, Kind: Gauge, Unit: "{saga}", Labels: []string{labelState},
			Description: "Sagas that are not at an end, by state; those in needs_review wait for a person. Measured by upkeep.",
		},
	}
}

func reconciliationMetrics() []Metric {
	return []Metric{
		{
			Name: findingsOpen, Kind: Gauge, Unit: "{finding}", Labels: []string{labelKind, labelSeverity},
			Description: "Findings that are open and not ignored. Measured every minute by the processes with the worker's role.",
		},
		{
			Name: findingsOldestAge, Kind: Gauge, Unit: "s",
			Description: "How long ago the oldest of these was first found; 0 when none is open.",
		},
		{
			Name: findingsAtStake, Kind: Gauge, Labels: []string{labelCurrency},
			Description: "How much money these are about, in the currency's minor units, as far as it is known.",
		},
		{
			Name: findingsMeasured, Kind: Gauge, Unit: "s",
			Description: "When they were last measured, as Unix time.",
		},
		{
			Name: reconciliationRuns, Kind: Counter, Unit: "{run}", Labels: []string{labelMode, labelState},
			Description: "Runs that this process has ended: state=done, stopped at the limit of money, or failed.",
		},
		{
			Name: reconciliationRunDuration, Kind: Histogram, Unit: "s", Labels: []string{labelMode, labelState}, Buckets: runBuckets(),
			Description: "How long these runs took.",
		},
		{
			Name: reconciliationLastSuccess, Kind: Gauge, Unit: "s", Labels: []string{labelProvider},
			Description: "Up to when all that the provider has was compared, plus what its list is behind by itself, as Unix time: when the last " +
				"run began that listed all of it and compared it, whoever made it. Until one has: when this process began to wait for it.",
		},
		{
			Name: reconciliationInterval, Kind: Gauge, Unit: "s",
			Description: "How far apart the turns of PAYSAGA_RECONCILE_SCHEDULE are at most; 0 while it is off.",
		},
		{
			Name: reconciliationRepairs, Kind: Counter, Unit: "{repair}", Labels: []string{labelRepair, labelResult},
			Description: "Repairs that this process has tried, result=done or refused.",
		},
	}
}

func houseMetrics() []Metric {
	return []Metric{
		{
			Name: httpServerDuration, Kind: Histogram, Unit: "s", Buckets: requestBuckets(),
			Labels:      []string{labelRequestMethod, labelRoute, labelResponseStatus},
			Description: "Requests to the API and how long they took, by route pattern; `none` where no route fits.",
		},
		{
			Name: httpClientDuration, Kind: Histogram, Unit: "s", Buckets: requestBuckets(),
			Labels: []string{labelRequestMethod, labelServerAddress, labelResponseStatus, labelErrorType},
			Description: "Calls to providers until the head of the answer, by host. Without an answer the status is empty and error.type " +
				"is `timeout` or `_OTHER`.",
		},
		{
			Name: paysagaBuild, Kind: Gauge, Labels: []string{labelVersion, labelRevision, labelGoVersion},
			Description: "Always 1; its labels tell what runs.",
		},
	}
}

// processingBuckets: a request that needs no provider takes two commits, some milliseconds; one provider call 200 ms to 3 s; a call
// that is given up 20 s (PAYSAGA_CALL_TIMEOUT), to which the commits come, so 20,000 alone would not tell those from the slowest good
// ones; a lease 30 s. What a retry or recovery finishes takes minutes.
func processingBuckets() []float64 {
	return []float64{5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 30_000, 60_000, 300_000}
}

// runBuckets: a run that finds little to list takes seconds, one over a million payments some minutes, and one whose provider has it wait
// an hour.
func runBuckets() []float64 { return []float64{1, 5, 15, 60, 300, 900, 3_600, 14_400} }

// requestBuckets are those of OpenTelemetry's conventions, and above them the provider's timeout and the lease.
func requestBuckets() []float64 {
	return []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 25, 30}
}

// PrometheusName is how the metric is called on the endpoint. A histogram has it before _bucket, _sum and _count.
func (m Metric) PrometheusName() string {
	name := underscored(m.Name)
	switch {
	case m.Kind == Counter:
		return name + "_total"
	case m.instrumentUnit() == "s":
		return name + "_seconds"
	default:
		return name
	}
}

// PrometheusLabels are the labels' names on the endpoint.
func (m Metric) PrometheusLabels() []string {
	labels := make([]string, len(m.Labels))
	for i, label := range m.Labels {
		labels[i] = underscored(label)
	}
	return labels
}

// instrumentUnit is the unit that OpenTelemetry is told: none where the name has it already, as the exporter would append it again.
func (m Metric) instrumentUnit() string {
	if strings.HasSuffix(m.Name, "_ms") || strings.HasSuffix(m.Name, "_days") || strings.HasSuffix(m.Name, "_seconds") {
		return ""
	}
	return m.Unit
}

func underscored(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Table gives all metrics as a Markdown table.
func Table() string {
	var table strings.Builder
	table.WriteString("| Metric | In Prometheus | Kind, unit | Labels | What it tells |\n|---|---|---|---|---|\n")
	for _, m := range Metrics() {
		kind := string(m.Kind)
		if m.Unit != "" {
			kind += ", " + strings.Trim(m.Unit, "{}")
		}
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.PrometheusLabels(), "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s |\n", m.Name, m.PrometheusName(), kind, labels, m.Description)
	}
	return table.String()
}
