package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"paysaga/internal/telemetry"
)

// answers is a provider that always answers with this status.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// fails is a provider that is not reached.
type fails struct{ err error }

func (f fails) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func recorded(t *testing.T) (*telemetry.Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracers := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return newTelemetry(t, telemetry.Config{Tracers: tracers}), spans
}

func pattern(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() }

// shown is what a span says, all of it.
func shown(span sdk.ReadOnlySpan) string {
	return fmt.Sprintf("%s|%s|%v|%v|%v|%v|%s", span.Name(), span.SpanKind(), span.Attributes(), span.Status(), span.Events(), span.Links(),
		span.SpanContext().TraceState())
}

func attributes(span sdk.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, each := range span.Attributes() {
		found[string(each.Key)] = each.Value.String()
	}
	return found
}

// TestServerSpanTellsNothingOfTheRequest puts a secret wherever a request has a place for one.
func TestServerSpanTellsNothingOfTheRequest(t *testing.T) {
	t.Parallel()
	const secret = "first-order-0000001"
	made, spans := recorded(t)
	var inside trace.SpanContext
	router := chi.NewRouter()
	router.Use(made.Middleware(pattern))
	router.Get("/v1/idempotency-keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		inside = trace.SpanContextFromContext(r.Context())
		w.Header().Set("Location", secret)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, secret)
	})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/idempotency-keys/"+secret+"?endpoint="+secret, strings.NewReader(secret))
	request.RemoteAddr, request.Host = secret, secret
	for _, name := range []string{"Idempotency-Key", "Authorization", "User-Agent", "X-Forwarded-For", "Baggage"} {
		request.Header.Set(name, secret)
	}
	request.Header.Set("Tracestate", "shop="+secret)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	router.ServeHTTP(httptest.NewRecorder(), request)

	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans, not one", len(ended))
	}
	if got := shown(ended[0]); strings.Contains(got, secret) {
		t.Errorf("the span tells of the request: %s", got)
	}
	want := map[string]string{
		"http.request.method": "GET", "http.route": "/v1/idempotency-keys/{key}", "http.response.status_code": "502",
	}
	if diff := cmp.Diff(want, attributes(ended[0])); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if got := shown(ended[0]); !strings.HasPrefix(got, "GET /v1/idempotency-keys/{key}|server|") || ended[0].Status().Code != codes.Error {
		t.Errorf("name, kind or status: %s", got)
	}
	if got := ended[0].Parent().SpanID().String(); got != "b7ad6b7169203331" || inside.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("parent %s, trace %s: not the caller's", got, inside.TraceID())
	}
	if all := strings.Join(scrape(t, made, ""), "\n"); strings.Contains(all, secret) {
		t.Errorf("a metric tells of the request:\n%s", all)
	}
}

func TestUnknownRequestsHaveFixedNames(t *testing.T) {
	t.Parallel()
	made, spans := recorded(t)
	handler := made.Middleware(func(*http.Request) string { return "none" })(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
		w.WriteHeader(http.StatusTeapot) // too late
	}))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
	request.Method = "STEAL-4242424242424242"
	request.Header.Set("Traceparent", "nonsense")
	handler.ServeHTTP(httptest.NewRecorder(), request)
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "_OTHER none" || ended[0].Parent().IsValid() {
		t.Fatalf("spans %v", ended)
	}
	if got := scrape(t, made, "http_server_request_duration_seconds_count"); len(got) != 1 ||
		got[0] != `http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="200",http_route="none"} 1` {
		t.Errorf("metric %v", got)
	}
}

func TestClientSpanTellsNothingOfTheCall(t *testing.T) {
	t.Parallel()
	const secret = "pi_3PXwbv2eZvKYlo2C"
	cases := map[string]struct {
		provider http.RoundTripper
		status   codes.Code
		want     map[string]string
	}{
		"taken":    {answers(http.StatusOK), codes.Unset, map[string]string{"http.response.status_code": "200"}},
		"declined": {answers(http.StatusPaymentRequired), codes.Error, map[string]string{"http.response.status_code": "402"}},
		"no answer": {
			fails{fmt.Errorf("dial %s: %w", secret, context.DeadlineExceeded)}, codes.Error, map[string]string{"error.type": "timeout"},
		},
		"timed out by the network": {fails{os.ErrDeadlineExceeded}, codes.Error, map[string]string{"error.type": "timeout"}},
		"cut off":                  {fails{errors.New(secret)}, codes.Error, map[string]string{"error.type": "_OTHER"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, spans := recorded(t)
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.stripe.com:443/v1/payment_intents/"+secret, strings.NewReader(secret))
			before := request.Header.Clone()
			_, _ = made.Transport(c.provider).RoundTrip(request) //nolint:bodyclose // none
			ended := spans.Ended()
			if len(ended) != 1 || ended[0].Name() != "provider POST api.stripe.com" || ended[0].SpanKind() != trace.SpanKindClient {
				t.Fatalf("spans %v", ended)
			}
			if got := shown(ended[0]); strings.Contains(got, secret) {
				t.Errorf("the span tells of the call: %s", got)
			}
			c.want["http.request.method"], c.want["server.address"] = "POST", "api.stripe.com"
			if diff := cmp.Diff(c.want, attributes(ended[0])); diff != "" || ended[0].Status().Code != c.status {
				t.Errorf("status %v, attributes (-want +got):\n%s", ended[0].Status(), diff)
			}
			if diff := cmp.Diff(before, request.Header); diff != "" {
				t.Errorf("the provider is told more:\n%s", diff)
			}
		})
	}
}

// TestTracesAreSentToTheCollector sets the environment, so it runs alone.
func TestTracesAreSentToTheCollector(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "paysaga-eu")
	provider, end, err := telemetry.NewTracerProvider(t.Context(), telemetry.Build{Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "GET /healthz")
	span.End()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := <-got
	for _, want := range []string{"POST /v1/traces ", "GET /healthz", "paysaga-eu", "v1.2.3"} {
		if !strings.Contains(sent, want) {
			t.Errorf("%q is not in what was sent: %q", want, sent)
		}
	}
}

// TestWithoutCollectorNoTraces sets the environment, so it runs alone.
func TestWithoutCollectorNoTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	provider, end, err := telemetry.NewTracerProvider(t.Context(), telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "GET /healthz")
	if span.IsRecording() || span.SpanContext().IsValid() {
		t.Error("a span is recorded though nobody is there to get it")
	}
	if err := end(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFailuresAreLogged changes a setting of the process, so it runs alone.
func TestFailuresAreLogged(t *testing.T) { //nolint:paralleltest // see above
	var log strings.Builder
	telemetry.LogErrors(slog.New(slog.NewTextHandler(&log, nil)))
	otel.Handle(errors.New("collector is away" + strings.Repeat("!", 1000)))
	if got := log.String(); !strings.Contains(got, "collector is away") || len(got) > 500 {
		t.Errorf("logged %d bytes: %s", len(got), got)
	}
}
