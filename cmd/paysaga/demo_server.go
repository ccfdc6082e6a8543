package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"paysaga/internal/serverlog"
)

const (
	// serverStartLimit is how long a server may take to listen; usually it is a tenth of a second.
	serverStartLimit = 30 * time.Second
	// serverStopLimit is how long it may take to drain before it is killed: longer than its drain timeout.
	serverStopLimit = 10 * time.Second
)

// demoSettings are far shorter than a real server's, so that the tour shows in seconds what would otherwise take a minute.
func demoSettings() []string {
	return []string{
		"PAYSAGA_LEASE=2s", // a killed server's orders are taken up after this
		"PAYSAGA_CALL_TIMEOUT=2s",
		"PAYSAGA_DRAIN_TIMEOUT=2s", // an interrupted demo does not wait for a provider that hangs
		"PAYSAGA_RECOVERY_INTERVAL=100ms",
		"PAYSAGA_LOG_FORMAT=json", // the line that tells the address is read from it
	}
}

// anyAddress is the first server's: one that is free.
const anyAddress = "127.0.0.1:0"

// serverProcess is "paysaga serve" as a child. Its log goes through a pipe of this process: should this one be killed, the
// next line that the server logs ends it too.
type serverProcess struct {
	url     string
	command *exec.Cmd
	cancel  context.CancelFunc
	ending  atomic.Bool   // it was told to end
	done    chan struct{} // closed when it has ended
	failed  error         // how it ended; readable once done is closed
}

// launchServer returns when the server listens. When it ends later without having been told to, fail is called.
func launchServer(ctx context.Context, environ []string, address string, log io.Writer, fail func(error)) (*serverProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &serverProcess{cancel: cancel, done: make(chan struct{})}
	s.command = exec.CommandContext(lifetime, program, "serve") //nolint:gosec // this very program
	s.command.Env = slices.Concat(inheritedEnviron(), demoSettings(), environ, []string{"PAYSAGA_ADDR=" + address})
	s.command.Cancel = func() error { return s.command.Process.Signal(syscall.SIGTERM) }
	s.command.WaitDelay = serverStopLimit
	output := serverlog.NewFinder(log)
	s.command.Stdout, s.command.Stderr = output, output
	if err := s.command.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		s.failed = s.command.Wait()
		close(s.done)
		if !s.ending.Load() {
			fail(fmt.Errorf("the server ended by itself (%s); its log is in %s", s.command.ProcessState, serverLog))
		}
	}()
	if err := s.awaitAddress(ctx, output.Found); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *serverProcess) awaitAddress(ctx context.Context, found <-chan string) error {
	ctx, cancel := context.WithTimeout(ctx, serverStartLimit)
	defer cancel()
	select {
	case s.url = <-found:
		return nil
	case <-s.done:
		return fmt.Errorf("the server did not start (%s); its log is in %s", s.command.ProcessState, serverLog)
	case <-ctx.Done():
		return fmt.Errorf("wait for the server to listen: %w", context.Cause(ctx))
	}
}

func (s *serverProcess) pid() int { return s.command.Process.Pid }

// stop lets the server drain. The error tells that it did not end as it should.
func (s *serverProcess) stop() error {
	select {
	case <-s.done: // killed in a scene, or by itself, which fail has told
		s.cancel()
		return nil
	default:
	}
	s.ending.Store(true)
	s.cancel()
	<-s.done
	if s.command.ProcessState.ExitCode() != 0 {
		return fmt.Errorf("the server did not stop as it should: %w", s.failed)
	}
	return nil
}

// kill ends the server as a crash would: it gets to do nothing more.
func (s *serverProcess) kill() error {
	s.ending.Store(true)
	if err := s.command.Process.Kill(); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-s.done
	return nil
}

// inheritedEnviron is what the server gets of this process's environment: nothing that is a setting, and no proxy.
func inheritedEnviron() []string {
	var kept []string
	for _, name := range []string{"PATH", "HOME", "USER", "TMPDIR", "LANG", "TZ", "SYSTEMROOT", "GOCOVERDIR"} {
		if value, set := os.LookupEnv(name); set {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// logPath is where a person finds the server's log.
func (s *stage) logPath() string { return filepath.Join(s.dir, serverLog) }
