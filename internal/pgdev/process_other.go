//go:build unix && !linux

package pgdev

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux has such a signal. The next Start in the folder stops the left-over server.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// isServerOf reports whether the process is a PostgreSQL server of the data folder, by its command line.
func isServerOf(pid int, data string) bool {
	output, err := exec.CommandContext(context.Background(), "ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	return strings.Contains(string(output), "postgres -D "+data+" ")
}
