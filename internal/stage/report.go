package stage

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Reporter is told what goes wrong. *testing.T and *rapid.T are reporters, and so is a Recorder.
type Reporter interface {
	Helper()
	Context() context.Context
	Error(arguments ...any)
	Errorf(format string, arguments ...any)
	// Fatalf ends the goroutine that it is called in.
	Fatalf(format string, arguments ...any)
	Log(arguments ...any)
	Logf(format string, arguments ...any)
	// Cleanup has something done at the end, what was asked for last first.
	Cleanup(do func())
}

// Book is told what must not appear in logs, metrics and traces.
type Book interface {
	Secret(what, text string)
	Request(header http.Header, body string)
	Body(of, body string)
}

// noBook takes no notes.
type noBook struct{}

func (noBook) Secret(string, string)       {}
func (noBook) Request(http.Header, string) {}
func (noBook) Body(string, string)         {}

// Recorder is a Reporter outside of tests. Its zero value is not usable; Record makes them.
type Recorder struct {
	ctx      context.Context //nolint:containedctx // a reporter hands it out, as testing.T does
	mu       sync.Mutex
	failures []string
	logs     []string
	cleanups []func()
}

// Record does work that reports, waits for its end and its clean-up, and gives what failed and what was logged.
func Record(ctx context.Context, work func(r *Recorder)) (failures, logs []string) {
	r := &Recorder{ctx: ctx}
	r.alone(func() { work(r) })
	r.Close()
	return r.failures, r.logs
}

// NewRecorder is for what outlives one piece of work, such as a stage that several plays use. Close cleans up.
func NewRecorder(ctx context.Context) *Recorder { return &Recorder{ctx: ctx} }

// Close does what Cleanup was asked for.
func (r *Recorder) Close() {
	r.mu.Lock()
	cleanups := r.cleanups
	r.cleanups = nil
	r.mu.Unlock()
	for _, do := range slices.Backward(cleanups) {
		r.alone(do)
	}
}

// Err is what failed so far; nil if nothing did.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(r.failures, "\n"))
}

// Do does work that may end its goroutine by Fatalf, and waits for it.
func (r *Recorder) Do(work func()) error {
	r.alone(work)
	return r.Err()
}

func (*Recorder) alone(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
}

// Helper does nothing.
func (*Recorder) Helper() {}

// Context is the recorder's.
func (r *Recorder) Context() context.Context { return r.ctx }

// Error records a failure.
func (r *Recorder) Error(arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprint(arguments...))
}

// Errorf records a failure.
func (r *Recorder) Errorf(format string, arguments ...any) {
	r.Error(fmt.Sprintf(format, arguments...))
}

// Fatalf records a failure and ends the goroutine.
func (r *Recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

// Log records a line for whoever looks into a failure.
func (r *Recorder) Log(arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprint(arguments...))
}

// Logf records a line.
func (r *Recorder) Logf(format string, arguments ...any) { r.Log(fmt.Sprintf(format, arguments...)) }

// Cleanup has something done by Close.
func (r *Recorder) Cleanup(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, do)
}
