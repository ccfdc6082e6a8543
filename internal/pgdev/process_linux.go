package pgdev

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent lets the kernel send the signal to the child when the thread that starts it ends.
func dieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

// isServerOf reports whether the process is a PostgreSQL server of the data folder, in which the server always works. A
// dead process that waits to be reaped has no working folder any more.
func isServerOf(pid int, data string) bool {
	process := filepath.Join("/proc", strconv.Itoa(pid))
	folder, err := os.Readlink(filepath.Join(process, "cwd"))
	if err != nil || folder != data {
		return false
	}
	program, err := os.Readlink(filepath.Join(process, "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(program), "postgres") // "postgres (deleted)" after an upgrade
}
