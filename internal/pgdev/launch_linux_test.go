package pgdev

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// The kernel's signal of a parent's death comes from the thread that started the child: the end of the thread that
// called Start must not be taken for the end of this process.
func TestServerOutlivesTheCallersThread(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	var server *Server
	var err error
	thread := onDyingThread(func() { server, err = Start(t.Context(), Options{Dir: dir}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, server) })
	await(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return os.IsNotExist(err)
	})
	writeMark(t, server.URL())
	checkMark(t, server.URL())
}

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startHelper(t, dir)
	data, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", first.server))
	if err != nil {
		t.Fatal(err)
	}
	first.kill(t)
	await(t, func() bool { return !isServerOf(first.server, data) })
}

// await polls until the condition holds; the test's own deadline bounds it.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		if err := pause(t.Context(), pollPause); err != nil {
			t.Fatal(err)
		}
	}
}

// onDyingThread runs the function on a thread that ends right after, and gives its id.
func onDyingThread(run func()) int {
	ids := make(chan int)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		id := syscall.Gettid()
		if id == os.Getpid() { // but the main thread never does: keep it busy while another one is used
			id = onDyingThread(run)
		} else {
			run()
		}
		ids <- id
	}()
	return <-ids
}
