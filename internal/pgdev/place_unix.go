//go:build unix

package pgdev

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// rootsPlaces is where root's clusters live whose own folder their account cannot reach. Only root can write there,
	// so nobody can put a folder of his in the way.
	rootsPlaces = "/var/lib/paysaga"
	// initialiseLimit is how long initdb may take on a slow, busy machine; usually it is a second.
	initialiseLimit = 60 * time.Second
	// logTailBytes is how much of the server's log goes into an error: its last lines.
	logTailBytes = 2_000
	// stagingPrefix marks clusters in the making.
	stagingPrefix = "new-"
)

// place is where the cluster is and whose. Its home belongs to this process's user and holds
//
//	data/       the cluster, the account's own; appears complete or not at all
//	new-…/      one in the making
//	password    of the role
//	server.log  of the last start
type place struct {
	dir     string // what the caller asked for, absolute
	home    string
	account account
}

func (p place) data() string         { return filepath.Join(p.home, "data") }
func (p place) log() string          { return filepath.Join(p.home, "server.log") }
func (p place) passwordFile() string { return filepath.Join(p.home, "password") }
func (p place) locationFile() string { return filepath.Join(p.dir, "postgres.location") }

// prepareFolder makes the folder and gives its absolute path without symbolic links: one folder, one name, one lock.
func prepareFolder(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no folder given for the private PostgreSQL")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	//nolint:gosec // others pass through, as the account must; what is worth protecting lies in folders of its own
	if err := os.MkdirAll(absolute, 0o755); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return resolved, nil
}

// choosePlace puts the cluster into dir/postgres, or where the account can reach it when it cannot reach that.
func choosePlace(ctx context.Context, dir string) (place, error) {
	near, err := newPlace(dir, filepath.Join(dir, "postgres"))
	if err != nil {
		return place{}, err
	}
	if near.account.canEnter(ctx, near.home) {
		return near, nil
	}
	_ = os.Remove(near.home) // just made, most likely; a folder with content stays

	sum := sha256.Sum256([]byte(dir))
	far, err := newPlace(dir, filepath.Join(rootsPlaces, hex.EncodeToString(sum[:8])))
	if err != nil {
		return place{}, err
	}
	if !far.account.canEnter(ctx, far.home) {
		return place{}, fmt.Errorf("user %s, as whom PostgreSQL must run, reaches neither %s nor %s", far.account.name, dir, far.home)
	}
	return far, nil
}

func newPlace(dir, home string) (place, error) {
	found := place{dir: dir, home: home}
	runner, err := accountFor(found.data())
	if err != nil {
		return place{}, err
	}
	found.account = runner
	if err := os.MkdirAll(home, 0o755); err != nil { //nolint:gosec // the account passes through; its data is 0700
		return place{}, fmt.Errorf("folder of the cluster: %w", err)
	}
	return found, nil
}

func (p place) isFar() bool { return filepath.Dir(p.home) != p.dir }

// discardUnusable clears away what no server can be started from: half-made clusters, and the far cluster of a folder
// that was deleted and made anew since.
func (p place) discardUnusable(logger *slog.Logger) error {
	unfinished, err := filepath.Glob(filepath.Join(p.home, stagingPrefix+"*"))
	if err != nil {
		return fmt.Errorf("look for half-made clusters: %w", err)
	}
	if _, err := os.Stat(p.data()); err == nil && (!p.isComplete() || p.isOrphaned()) {
		unfinished = append(unfinished, p.data())
	}
	for _, folder := range unfinished {
		logger.Warn("removing an unfinished or abandoned PostgreSQL cluster", "folder", folder)
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove an unusable cluster: %w", err)
		}
	}
	return nil
}

// isComplete reports whether a server could start: the control file is the last thing without which none can.
func (p place) isComplete() bool {
	for _, name := range []string{"PG_VERSION", "global/pg_control"} {
		if info, err := os.Stat(filepath.Join(p.data(), name)); err != nil || info.Size() == 0 {
			return false
		}
	}
	_, err := os.Stat(p.passwordFile())
	return err == nil
}

func (p place) isOrphaned() bool {
	if !p.isFar() {
		return false
	}
	_, err := os.Stat(p.locationFile())
	return errors.Is(err, os.ErrNotExist)
}

// major is the release that made the data, 0 when there is none.
func (p place) major() (int, error) {
	content, err := os.ReadFile(filepath.Join(p.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("release of the data: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("release of the data: %w", err)
	}
	return major, nil
}

// initialise makes the cluster beside its final place and moves it there when it is complete, so that a kill at any
// moment leaves nothing that looks like one.
func (p place) initialise(ctx context.Context, programs programs, durable bool) error {
	ctx, cancel := context.WithTimeout(ctx, initialiseLimit)
	defer cancel()
	if err := p.writePassword(); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(p.home, stagingPrefix)
	if err != nil {
		return fmt.Errorf("make the cluster: %w", err)
	}
	if err := p.account.own(staging); err != nil {
		return err
	}
	arguments := []string{
		"-D", staging, "-U", role, "--pwfile", p.passwordFile(), "-A", "scram-sha-256",
		"-E", "UTF8", "--locale=C", "--no-instructions", // C: the same order of text on every machine
	}
	if !durable {
		arguments = append(arguments, "--no-sync")
	}
	if err := p.run(ctx, programs.path("initdb"), arguments...); err != nil {
		return errors.Join(err, os.RemoveAll(staging))
	}
	if err := os.Rename(staging, p.data()); err != nil {
		return fmt.Errorf("make the cluster: %w", err)
	}
	return p.recordLocation()
}

// run runs a program to its end, with its output in the log; it ends with ctx and with this process.
func (p place) run(ctx context.Context, program string, arguments ...string) error {
	log, err := p.truncateLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := p.account.command(ctx, p.home, program, arguments...)
	command.Stdout, command.Stderr = log, log
	child, err := launchProcess(command, syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-child.done
	if child.err != nil {
		return fmt.Errorf("%s: %w; its output ends:\n%s", filepath.Base(program), errors.Join(child.err, ctx.Err()), p.logTail())
	}
	return nil
}

func (p place) writePassword() error {
	if err := os.Remove(p.passwordFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("password of the cluster: %w", err)
	}
	if err := os.WriteFile(p.passwordFile(), []byte(rand.Text()), 0o600); err != nil {
		return fmt.Errorf("password of the cluster: %w", err)
	}
	return p.account.own(p.passwordFile()) // initdb reads it
}

func (p place) password() (string, error) {
	content, err := os.ReadFile(p.passwordFile())
	if err != nil {
		return "", fmt.Errorf("password of the cluster: %w", err)
	}
	return string(content), nil
}

func (p place) recordLocation() error {
	if !p.isFar() {
		return nil
	}
	//nolint:gosec // no secret: people shall find the place
	if err := os.WriteFile(p.locationFile(), []byte(p.home+"\n"), 0o644); err != nil {
		return fmt.Errorf("record where the cluster is: %w", err)
	}
	return nil
}

// remove deletes the cluster and every trace of it but the lock.
func (p place) remove() error {
	if err := errors.Join(os.RemoveAll(p.home), os.RemoveAll(p.locationFile())); err != nil {
		return fmt.Errorf("remove the cluster: %w", err)
	}
	return nil
}

// truncateLog opens the log empty, which keeps it bounded: it holds one start and what followed.
func (p place) truncateLog() (*os.File, error) {
	file, err := os.OpenFile(p.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	return file, nil
}

// logTail is the end of the log, for people: without a log it says why.
func (p place) logTail() string {
	file, err := os.Open(p.log())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-logTailBytes), logTailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(tail))
}

func (p place) logMentions(phrases []string) bool {
	tail := p.logTail()
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(tail, phrase) })
}
