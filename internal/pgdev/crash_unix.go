//go:build unix

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// What befalls a server in production, for tests: it dies, and comes back, with all that was committed or with an older state. None of
// these may be called while another of the server's methods runs.

// errGiven refuses to break a server that somebody else runs.
var errGiven = errors.New("not a private server")

// Crash ends a private server at once, as pg_ctl stop -m immediate does: connections break, nothing is finished, and the next start
// recovers from the log. The folder stays taken; Restart or Stop follows.
func (s *Server) Crash() error {
	if s.running == nil {
		return errGiven
	}
	if err := s.running.command.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("crash PostgreSQL: %w", err)
	}
	<-s.running.done
	return nil
}

// Restart starts a server that has ended again, with the data that is there. URL is another one then, as the port is.
func (s *Server) Restart(ctx context.Context) error {
	if s.running == nil {
		return errGiven
	}
	select {
	case <-s.running.done:
	default:
		return errors.New("restart PostgreSQL: it runs")
	}
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	return nil
}

// Backup is a copy of a cluster, in the server's own place. It goes with that.
type Backup struct{ folder string }

// Backup copies the cluster of a server that has ended: what is in it is what the next start would find.
func (s *Server) Backup(ctx context.Context) (Backup, error) {
	if err := s.ended(); err != nil {
		return Backup{}, err
	}
	folder, err := os.MkdirTemp(s.place.home, "backup-")
	if err == nil {
		err = s.place.account.own(folder)
	}
	if err != nil {
		return Backup{}, fmt.Errorf("make room for a backup: %w", err)
	}
	return Backup{folder}, s.copyCluster(ctx, s.place.data(), filepath.Join(folder, "data"))
}

// Restore puts a backup in the place of the cluster of a server that has ended. All that was committed since is lost. The backup can
// be restored again.
func (s *Server) Restore(ctx context.Context, from Backup) error {
	if err := s.ended(); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(s.place.home, stagingPrefix)
	if err == nil {
		err = s.place.account.own(staging)
	}
	if err != nil {
		return fmt.Errorf("make room for the restored cluster: %w", err)
	}
	restored := filepath.Join(staging, "data")
	if err := s.copyCluster(ctx, filepath.Join(from.folder, "data"), restored); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.place.data()), os.Rename(restored, s.place.data()), os.Remove(staging)); err != nil {
		return fmt.Errorf("put the restored cluster in its place: %w", err)
	}
	return nil
}

func (s *Server) ended() error {
	if s.running == nil {
		return errGiven
	}
	select {
	case <-s.running.done:
		return nil
	default:
		return errors.New("the server runs: what it has in memory would be missing")
	}
}

// copyCluster copies under the account that the cluster belongs to, so that the copy does too.
func (s *Server) copyCluster(ctx context.Context, from, to string) error {
	if err := s.place.run(ctx, "/bin/cp", "-Rp", from, to); err != nil {
		return fmt.Errorf("copy the cluster: %w", err)
	}
	return nil
}
