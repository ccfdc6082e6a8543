//go:build unix

package pgdev

import "testing"

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was committed outlives a crash; a backup that is restored brings back what was there when it was made, as often as one likes.
func TestCrashAndRestore(t *testing.T) {
	t.Parallel()
	server := mustStart(t, newDir(t))
	execute(t, server.URL(), `CREATE TABLE mark AS SELECT 1 AS n`)
	want := func(when, want string) {
		t.Helper()
		if got := query(t, server.URL(), `SELECT string_agg(n::text, ',' ORDER BY n) FROM mark`); got != want {
			t.Errorf("%s there are the marks %s, want %s", when, got, want)
		}
	}
	if _, err := server.Backup(t.Context()); err == nil {
		t.Error("a running server is copied")
	}
	if err := server.Restart(t.Context()); err == nil {
		t.Error("a running server is started again")
	}
	mustDo(t, server.Crash())
	mustDo(t, server.Crash()) // it has ended already
	backup, err := server.Backup(t.Context())
	mustDo(t, err)
	mustDo(t, server.Restart(t.Context()))
	want("after a crash", "1")
	execute(t, server.URL(), `INSERT INTO mark VALUES (2)`)
	if err := server.Restore(t.Context(), backup); err == nil {
		t.Error("the cluster of a running server is replaced")
	}
	for range 2 {
		mustDo(t, server.Crash())
		mustDo(t, server.Restart(t.Context()))
		want("before the backup is restored", "1,2")
		mustDo(t, server.Crash())
		mustDo(t, server.Restore(t.Context(), backup))
		mustDo(t, server.Restart(t.Context()))
		want("after it is restored", "1")
		execute(t, server.URL(), `INSERT INTO mark VALUES (2)`)
	}
	given := &Server{url: server.URL()}
	if given.Crash() == nil || given.Restart(t.Context()) == nil {
		t.Error("a server that somebody else runs is broken")
	}
}
