package telemetry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// methods are those of OpenTelemetry's conventions; any other is "_OTHER" there.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	http.MethodTrace, http.MethodConnect,
}

const otherByConvention = "_OTHER"

// Middleware records each request: its time in the metric, and a span "METHOD route" with method, route and status. Nothing else of
// a request is recorded, since addresses hold keys and orders' ids, and headers secrets.
//
// The route is asked for after the request was served. It must give one of the router's patterns, not the address.
func (t *Telemetry) Middleware(route func(*http.Request) string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun, method := time.Now(), methodLabel(r.Method)
			ctx, span := t.tracer.Start(caller(r), method, trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
			recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
			next.ServeHTTP(recorder, r.WithContext(ctx))
			pattern := route(r)
			labels := []attribute.KeyValue{
				attribute.String(labelRequestMethod, method), attribute.String(labelRoute, pattern),
				attribute.Int(labelResponseStatus, recorder.status),
			}
			span.SetName(method + " " + pattern)
			span.SetAttributes(labels...)
			if recorder.status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
			t.server.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(labels...))
		})
	}
}

// caller is the request's context with the trace of whoever sent it, by the W3C's traceparent. Its tracestate is dropped: a client could
// write anything there, and it would be kept with every span. So is baggage.
func caller(r *http.Request) context.Context {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	remote := trace.SpanContextFromContext(ctx)
	if !remote.IsRemote() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, remote.WithTraceState(trace.TraceState{}))
}

// Transport records each call to a provider: its time in the metric, and a span "provider METHOD host" with its status. The path is left
// out as it holds identifiers, and no trace is announced to the provider. A nil base is http.DefaultTransport.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, telemetry: t}
}

type transport struct {
	base      http.RoundTripper
	telemetry *Telemetry
}

// RoundTrip is one call.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	begun, method, host := time.Now(), methodLabel(request.Method), t.telemetry.hosts.label(request.URL.Hostname())
	ctx, span := t.telemetry.tracer.Start(request.Context(), "provider "+method+" "+host, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	response, err := t.base.RoundTrip(request.WithContext(ctx))
	outcome, failed := outcomeOf(response, err)
	labels := []attribute.KeyValue{attribute.String(labelRequestMethod, method), attribute.String(labelServerAddress, host), outcome}
	span.SetAttributes(labels...)
	if failed {
		span.SetStatus(codes.Error, "") // an error's text can hold addresses
	}
	t.telemetry.client.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(labels...))
	return response, err //nolint:wrapcheck // a RoundTripper is transparent
}

func outcomeOf(response *http.Response, err error) (outcome attribute.KeyValue, failed bool) {
	if err == nil {
		return attribute.Int(labelResponseStatus, response.StatusCode), response.StatusCode >= http.StatusBadRequest
	}
	network, ok := errors.AsType[net.Error](err)
	if errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout() {
		return attribute.String(labelErrorType, "timeout"), true
	}
	return attribute.String(labelErrorType, otherByConvention), true
}

// CloseIdleConnections passes through, as http.Client looks for it on its transport.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return otherByConvention
}

// statusRecorder keeps the final status; those below 200 only announce one.
type statusRecorder struct {
	http.ResponseWriter

	status  int
	written bool
}

// WriteHeader passes the status on.
func (w *statusRecorder) WriteHeader(status int) {
	if !w.written && status >= http.StatusOK {
		w.status, w.written = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write passes the bytes on.
func (w *statusRecorder) Write(body []byte) (int, error) {
	w.written = true                    // as 200, unless a status was written before
	return w.ResponseWriter.Write(body) //nolint:wrapcheck // transparent
}

// Unwrap lets http.ResponseController find what the writer below can do.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
