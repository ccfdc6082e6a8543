//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"paysaga/internal/serverlog"
)

const (
	// startLimit is how long a server may take to listen on a busy machine; usually it is a tenth of a second.
	startLimit = 30 * time.Second
	// stopLimit is how long a server may take to drain: several times its drain timeout.
	stopLimit = 20 * time.Second
)

// process is one life of a server: "paysaga serve" as a child.
type process struct {
	name    string // "server 2, life 5"
	address string // where it listens
	command *exec.Cmd
	output  *os.File
	done    chan struct{} // closed when it has ended
}

// startProcess returns when the server listens. Its log goes into a file of its own.
func startProcess(ctx context.Context, program, dir, name string, environ []string, arguments ...string) (*process, error) {
	path := filepath.Join(dir, logName(name))
	output, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, output: output, done: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(ctx), program, append([]string{"serve"}, arguments...)...)
	p.command.Dir, p.command.Env = dir, environ
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test, which ends its servers itself
	log := serverlog.NewFinder(output)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(err, output.Close())
	}
	go func() {
		_ = p.command.Wait() // how it ended is in its state
		_ = output.Close()
		close(p.done)
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case url := <-log.Found:
		p.address = strings.TrimPrefix(url, "http://")
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s did not start (%s); its log:\n%s", name, p.command.ProcessState, tail(path))
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("%s did not listen in time: %w; its log:\n%s", name, ctx.Err(), tail(path))
	}
}

func logName(process string) string {
	name := []rune(process)
	for i, r := range name {
		if r == ' ' || r == ',' {
			name[i] = '-'
		}
	}
	return string(name) + ".log"
}

// tail is the end of a log, for people.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const shown = 2000
	return string(content[max(0, len(content)-shown):])
}

func (p *process) pid() int { return p.command.Process.Pid }

// signal is for a process that runs. One that has just ended does not mind.
func (p *process) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// kill ends it as a crash does: it gets to do nothing more.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// terminate lets it drain. The error tells that it did not end as it should.
func (p *process) terminate() error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.signal(syscall.SIGQUIT) // its goroutines, into its log
		<-p.done
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, stopLimit)
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %s after SIGTERM", p.name, p.command.ProcessState)
	}
	return nil
}

// ended tells whether it has ended by whatever.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// descriptors are what a process has open, as far as this operating system tells.
func (p *process) descriptors() []string {
	dir := filepath.Join("/proc", strconv.Itoa(p.pid()), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	open := make([]string, 0, len(entries))
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil {
			open = append(open, target)
		}
	}
	return open
}
