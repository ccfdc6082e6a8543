// Package telemetry tells operators how paysaga fares: metrics on OpenTelemetry with an endpoint for Prometheus, and traces over OTLP.
// The others know it through interfaces that they declare; it knows none of them.
//
// No key, fingerprint, secret, body or address with an identifier in it gets into a metric or a trace: what is recorded is listed here
// and in Metrics, nothing is taken over from a request by default. Every label has a bounded set of values.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names the code that records, in traces.
const scope = "paysaga"

// Bounds of the endpoint, which asks for no API key. One scrape takes some milliseconds; two servers of Prometheus and a person with a
// browser are all that ask.
const (
	maxScrapes    = 4
	scrapeTimeout = 5 * time.Second
)

// maxSeries bounds the series of one metric whatever its labels are: the largest, requests by method, route and status, has some
// hundred. What comes after is recorded under otel_metric_overflow="true".
const maxSeries = 2000

// Config sets telemetry up.
type Config struct {
	Build Build
	// Endpoints are those that take idempotency keys, method and route pattern. Any other is counted as "other".
	Endpoints []string
	// Tracers makes the spans, see NewTracerProvider; nil: none are made.
	Tracers trace.TracerProvider
}

// Build tells what runs.
type Build struct{ Version, Revision string }

// Telemetry records what a process does. It is safe for concurrent use.
type Telemetry struct {
	registry    *prometheus.Registry
	provider    *sdk.MeterProvider
	tracer      trace.Tracer
	idempotency *Idempotency
	upkeep      *Upkeep
	reconciled  *Reconciliation
	server      metric.Float64Histogram
	client      metric.Float64Histogram
	hosts       *firstSeen
}

// New makes the metrics, on a registry of their own: nothing is global, several can live in one process.
func New(c Config) (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("set up the exporter for Prometheus: %w", err)
	}
	provider := sdk.NewMeterProvider(
		sdk.WithReader(reader), sdk.WithCardinalityLimit(maxSeries), sdk.WithExemplarFilter(exemplar.AlwaysOffFilter),
	)
	tracers := c.Tracers
	if tracers == nil {
		tracers = noop.NewTracerProvider()
	}
	made := &instruments{meter: provider.Meter(scope)}
	t := &Telemetry{
		registry: registry, provider: provider, tracer: tracers.Tracer(scope),
		idempotency: newIdempotency(made, slices.Clone(c.Endpoints)), upkeep: newUpkeep(made),
		reconciled: newReconciliation(made),
		server:     made.histogram(httpServerDuration), client: made.histogram(httpClientDuration), hosts: newFirstSeen(maxHosts),
	}
	build := made.gauge(paysagaBuild)
	if err := errors.Join(made.errs...); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	build.Record(context.Background(), 1, metric.WithAttributes(attribute.String(labelVersion, c.Build.Version),
		attribute.String(labelRevision, c.Build.Revision), attribute.String(labelGoVersion, runtime.Version())))
	return t, nil
}

// Handler answers scrapes from memory: no request to it reaches the database.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout})
}

// Idempotency records what the guard of idempotency keys does.
func (t *Telemetry) Idempotency() *Idempotency { return t.idempotency }

// Upkeep records what the upkeep worker does and measures.
func (t *Telemetry) Upkeep() *Upkeep { return t.upkeep }

// Reconciliation records what reconciliation finds and does.
func (t *Telemetry) Reconciliation() *Reconciliation { return t.reconciled }

// Shutdown ends the recording. It does not end Config.Tracers.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("end the metrics: %w", err)
	}
	return nil
}

// instruments makes them as Metrics describes them.
type instruments struct {
	meter metric.Meter
	errs  []error
}

func (i *instruments) described(name string, kind Kind) Metric {
	all := Metrics()
	at := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name && m.Kind == kind })
	if at < 0 {
		i.errs = append(i.errs, fmt.Errorf("%s %s is not in the table", kind, name))
		return Metric{}
	}
	return all[at]
}

func (i *instruments) counter(name string) metric.Int64Counter {
	m := i.described(name, Counter)
	made, err := i.meter.Int64Counter(name, metric.WithDescription(m.Description), metric.WithUnit(m.instrumentUnit()))
	i.errs = append(i.errs, err)
	return made
}

func (i *instruments) gauge(name string) metric.Int64Gauge {
	m := i.described(name, Gauge)
	made, err := i.meter.Int64Gauge(name, metric.WithDescription(m.Description), metric.WithUnit(m.instrumentUnit()))
	i.errs = append(i.errs, err)
	return made
}

func (i *instruments) histogram(name string) metric.Float64Histogram {
	m := i.described(name, Histogram)
	made, err := i.meter.Float64Histogram(name, metric.WithDescription(m.Description), metric.WithUnit(m.instrumentUnit()),
		metric.WithExplicitBucketBoundaries(m.Buckets...))
	i.errs = append(i.errs, err)
	return made
}
