package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The variables of OpenTelemetry that say where traces go. The exporter reads these and the others of their kind (headers, timeout,
// certificate) by itself, the sampler OTEL_TRACES_SAMPLER, the resource OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
const (
	endpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// NewTracerProvider makes what sends traces by OTLP over HTTP where the environment names an endpoint, and else one that makes none.
// Spans are sent in the background, from a queue of 2,048; when the collector is slower, spans are lost and no request waits.
// The function that comes with it sends what is left and ends it.
func NewTracerProvider(ctx context.Context, build Build) (trace.TracerProvider, func(context.Context) error, error) {
	if os.Getenv(endpointVariable) == "" && os.Getenv(tracesEndpointVariable) == "" {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the exporter of traces: %w", err)
	}
	named := resource.NewSchemaless(attribute.String("service.name", "paysaga"), attribute.String("service.version", build.Version))
	// The environment's names go before ours: operators run one program as several services.
	whole, err := resource.Merge(named, resource.Environment())
	if err != nil {
		return nil, nil, fmt.Errorf("describe the service: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(whole))
	return provider, provider.Shutdown, nil
}

// maxErrorText bounds what a collector can put into the log.
const maxErrorText = 300

// LogErrors sends OpenTelemetry's own failures, such as a collector that does not answer, to the logger. It is a setting of the whole
// process, the only one here, as OpenTelemetry knows no other way; without it they go to standard error in a format of their own.
func LogErrors(logger *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		text := err.Error()
		logger.Warn("telemetry failed", "error", text[:min(len(text), maxErrorText)])
	}))
}
