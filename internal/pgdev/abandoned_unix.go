//go:build unix

package pgdev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
)

// RemoveAbandoned deletes a folder that was some process's Options.Dir, with its cluster, and stops what still runs
// there. ErrInUse when that process lives; a folder of another user is an error too.
func RemoveAbandoned(ctx context.Context, dir string) error {
	// In a shared place such as /tmp anybody can make a link or a folder of that name, and root would follow it.
	if !isOwnFolder(dir) {
		return fmt.Errorf("abandoned folder %s: not a folder of this user", dir)
	}
	dir, err := prepareFolder(dir)
	if err != nil {
		return err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer lock.release()
	found, err := choosePlace(ctx, dir)
	if err != nil {
		return err
	}
	if err := stopLeftover(ctx, found.data(), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := found.remove(); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("abandoned folder: %w", err)
	}
	return nil
}

func isOwnFolder(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == os.Geteuid()
}
