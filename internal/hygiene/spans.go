package hygiene

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Tracers makes spans that go into the book as they end, whole: names, attributes, events, links and states.
func (b *Book) Tracers() *sdk.TracerProvider {
	return sdk.NewTracerProvider(sdk.WithSyncer(exporter{b}))
}

type exporter struct{ book *Book }

// ExportSpans writes what a collector would get.
func (e exporter) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	for _, span := range spans {
		context := span.SpanContext()
		fmt.Fprintf(e.book, "span %q %v %v %v %v %q %q %v\n", span.Name(), span.Attributes(), span.Events(), span.Links(), span.Status(),
			context.TraceState().String(), span.Parent().TraceState().String(), span.Resource())
	}
	return nil
}

// Shutdown has nothing to end.
func (exporter) Shutdown(context.Context) error { return nil }

// Scrape takes what a handler of metrics shows.
func (b *Book) Scrape(metrics http.Handler) {
	recorder := httptest.NewRecorder()
	metrics.ServeHTTP(recorder, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", http.NoBody))
	_, _ = b.Write(recorder.Body.Bytes())
}
