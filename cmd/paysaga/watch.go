package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"paysaga/internal/httpapi"
	"paysaga/internal/telemetry"
)

// watch is what a process tells of itself: metrics, and traces where the environment names a collector.
type watch struct {
	telemetry *telemetry.Telemetry
	endTraces func(context.Context) error
}

func newWatch(ctx context.Context, logger *slog.Logger) (watch, error) {
	telemetry.LogErrors(logger)
	build := buildOf()
	tracers, end, err := telemetry.NewTracerProvider(ctx, build)
	if err != nil {
		return watch{}, fmt.Errorf("set up traces: %w", err)
	}
	metrics, err := telemetry.New(telemetry.Config{Build: build, Endpoints: httpapi.Endpoints(), Tracers: tracers})
	if err != nil {
		return watch{}, fmt.Errorf("set up metrics: %w", err)
	}
	return watch{telemetry: metrics, endTraces: end}, nil
}

// end sends what is left.
func (w watch) end(ctx context.Context, logger *slog.Logger) {
	if err := w.endTraces(ctx); err != nil {
		logger.WarnContext(ctx, "traces not sent", "error", err)
	}
	if err := w.telemetry.Shutdown(ctx); err != nil {
		logger.WarnContext(ctx, "metrics not ended", "error", err)
	}
}

// buildOf is what Go has written into the program.
func buildOf() telemetry.Build {
	build := telemetry.Build{Version: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build
	}
	build.Version = info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			build.Revision = setting.Value
		}
	}
	return build
}
