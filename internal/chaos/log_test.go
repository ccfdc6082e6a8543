//go:build unix

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// eventLog is the file that tells what befell each part, and when.
type eventLog struct {
	begun time.Time
	path  string

	mutex sync.Mutex
	file  *os.File
}

func openEventLog(t testing.TB, dir string) *eventLog {
	t.Helper()
	l := &eventLog{begun: time.Now(), path: filepath.Join(dir, "chaos.log")}
	var err error
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = l.file.Close() })
	return l
}

// notef writes one line, with the time since the beginning.
func (l *eventLog) notef(format string, arguments ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, _ = fmt.Fprintf(l.file, "%8.3f %s\n", time.Since(l.begun).Seconds(), fmt.Sprintf(format, arguments...))
}
