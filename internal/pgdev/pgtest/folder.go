package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"paysaga/internal/pgdev"
)

// folderPrefix begins the names of test processes' folders; the process's pid follows.
const folderPrefix = "paysaga-test-"

// maxAbandoned bounds how many folders one test process cleans up.
const maxAbandoned = 100

// makeFolder makes this process's folder for a private server, where every account can pass through.
func makeFolder() (string, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("folder for the tests' PostgreSQL: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the account that runs the server must pass through
		return "", fmt.Errorf("folder for the tests' PostgreSQL: %w", err)
	}
	return dir, nil
}

// removeAbandoned deletes the folders of test processes that are gone: most packages have no hook at the end of their
// tests, so a process's folder is left to its successors. What cannot be deleted is another user's, or in use.
func removeAbandoned(ctx context.Context) {
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range folders[:min(len(folders), maxAbandoned)] {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		pid, err := strconv.Atoi(text)
		if err != nil || isAlive(pid) { // alive: it may be between making the folder and locking it
			continue
		}
		_ = pgdev.RemoveAbandoned(ctx, folder)
	}
}

func isAlive(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = process.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
