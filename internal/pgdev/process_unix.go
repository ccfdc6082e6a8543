//go:build unix

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a child that was started by launchProcess.
type process struct {
	command *exec.Cmd
	done    chan struct{} // closed when the child has ended
	err     error         // of Wait; readable once done is closed
}

// launchProcess starts a child that gets deathSignal when this process dies (on Linux; see dieWithParent).
//
// The kernel ties that signal to the thread that started the child, and Go ends threads as it likes. So one goroutine
// keeps one thread for the whole life of the child: it starts it, waits for it, and never unlocks.
func launchProcess(command *exec.Cmd, deathSignal syscall.Signal) (*process, error) {
	// Its own process group: Ctrl-C on the terminal is for this process, which stops the child when its own work is done.
	command.SysProcAttr.Setpgid = true
	dieWithParent(command.SysProcAttr, deathSignal)
	child := &process{command: command, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		child.err = command.Wait()
		close(child.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s: %w", filepath.Base(command.Path), err)
	}
	return child, nil
}

func (p *process) pid() int { return p.command.Process.Pid }

// exit tells how an ended child ended.
func (p *process) exit() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// stop ends the child with ever stronger signals; an ended ctx skips the patience between them. It returns when the
// child has ended, with an error when that took more than the first signal.
func (p *process) stop(ctx context.Context) error {
	for _, signal := range shutdowns {
		if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		if p.wait(ctx, signal) {
			if signal == shutdowns[0] {
				return nil
			}
			return fmt.Errorf("PostgreSQL had to be stopped by %s", signal)
		}
	}
	return errors.New("PostgreSQL does not stop")
}

// wait reports whether the child ended within the patience that its signal gets. Only the first, kind one is cut short
// by the caller's ctx: the others are there for when that has ended.
func (p *process) wait(ctx context.Context, signal syscall.Signal) bool {
	if signal != shutdowns[0] {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopLeftover stops a server that still runs in the data folder although its parent is gone: the caller holds the
// folder's lock, so nobody alive can be using it.
func stopLeftover(ctx context.Context, data string, logger *slog.Logger) error {
	pid := readPIDFile(data).pid
	if pid == 0 {
		return nil
	}
	if !isServerOf(pid, data) {
		return dropForeignPIDFile(pid, data)
	}
	logger.WarnContext(ctx, "stopping a PostgreSQL that a killed process left over", "pid", pid)
	for _, signal := range shutdowns {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the left-over PostgreSQL (pid %d): %w", pid, err)
		}
		gone, err := waitGone(ctx, pid, data)
		if err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("the left-over PostgreSQL (pid %d) does not stop", pid)
}

func waitGone(ctx context.Context, pid int, data string) (bool, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if !isServerOf(pid, data) {
			return true, nil
		}
		if err := pause(ctx, pollPause); err != nil {
			return false, err
		}
	}
	return false, nil
}

// dropForeignPIDFile removes a pid file whose pid now means another process, or one that is dead but was not yet
// reaped: PostgreSQL would take it for a running server and refuse to start. A pid that means nothing it clears itself,
// with more care for shared memory than we could take.
func dropForeignPIDFile(pid int, data string) error {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a stale pid file: %w", err)
	}
	return nil
}
