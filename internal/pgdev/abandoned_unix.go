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
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("abandoned folder: %w", err)
	}
	// In a shared place such as /tmp anybody can make a link or a folder of that name, and root would follow it.
	status, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("abandoned folder %s: not a folder of this user", dir)
	}
	if dir, err = prepareFolder(dir); err != nil {
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
