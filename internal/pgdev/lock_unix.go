//go:build unix

package pgdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folderLock says that this process uses the folder. The kernel drops it with the process, however that ends.
type folderLock struct{ file *os.File }

// lockFolder takes the folder, or tells with ErrInUse who has it.
func lockFolder(dir string) (*folderLock, error) {
	path := filepath.Join(dir, "postgres.lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // readable: others shall see who holds it
	if err != nil {
		return nil, fmt.Errorf("lock the folder (was it made by another user?): %w", err)
	}
	descriptor := int(file.Fd())
	if err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: process %s runs a PostgreSQL in %s", ErrInUse, holder(path), dir)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	lock := &folderLock{file: file}
	if err := lock.sign(); err != nil {
		lock.release()
		return nil, err
	}
	return lock, nil
}

func (l *folderLock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	if _, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

// release leaves the file: removing it would let two processes hold a lock on two files of the same name.
func (l *folderLock) release() { _ = l.file.Close() }

func holder(path string) string {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return "(unknown)"
	}
	return strings.TrimSpace(string(content))
}
