package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestMain(m *testing.M) { Main(m) }

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.WithoutCancel(t.Context())) })
	return connection
}

// exists tells whether the server has a database of that name.
func exists(t *testing.T, name string) bool {
	t.Helper()
	var found bool
	const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := connect(t, mustServer(t).url).QueryRow(t.Context(), query, name).Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDatabasesAreMigratedAndApart(t *testing.T) {
	t.Parallel()
	first, second := New(t), New(t)
	if _, err := first.Exec(t.Context(), `CREATE TABLE mark ()`); err != nil {
		t.Fatal(err)
	}
	for pool, wantMark := range map[*pgxpool.Pool]bool{first: true, second: false} {
		var mark, migrated bool
		const query = `SELECT to_regclass('mark') IS NOT NULL, to_regclass('goose_db_version') IS NOT NULL`
		if err := pool.QueryRow(t.Context(), query).Scan(&mark, &migrated); err != nil {
			t.Fatal(err)
		}
		if mark != wantMark || !migrated {
			t.Errorf("mark = %t, migrated = %t; want %t, true", mark, migrated, wantMark)
		}
	}
}

func TestEmptyURL(t *testing.T) {
	t.Parallel()
	connection := connect(t, EmptyURL(t))
	var tables int
	const query = `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`
	if err := connection.QueryRow(t.Context(), query).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("%d tables in an empty database", tables)
	}
}

// The database goes with its test even while a connection is open.
//
//nolint:paralleltest // its inner test must have ended, clean-up included, before it looks
func TestDroppedAtTheEnd(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		address := URL(t)
		config, err := pgx.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		name = config.Database
		if _, err := pgx.Connect(t.Context(), address); err != nil {
			t.Fatal(err)
		}
	})
	if exists(t, name) {
		t.Errorf("database %s is still there", name)
	}
}

// A template whose maker was killed is made anew; two processes at once make one; a complete one is taken as it is.
func TestTemplate(t *testing.T) {
	t.Parallel()
	running := mustServer(t)
	name := templatePrefix + strings.ToLower(rand.Text())
	if err := running.createDatabase(t.Context(), name+"_unfinished", "template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.dropDatabase(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	makers, failed := 4, make(chan error)
	for range makers {
		go func() { failed <- running.ensureTemplate(t.Context(), name) }()
	}
	for range makers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if !exists(t, name) || exists(t, name+"_unfinished") {
		t.Error("want the template and no unfinished one")
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	fingerprintOf := func(files fstest.MapFS) string {
		fingerprint, err := schemaFingerprint(files)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint
	}
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	base := fingerprintOf(fstest.MapFS{"1.sql": file("a"), "2.sql": file("b")})
	if again := fingerprintOf(fstest.MapFS{"2.sql": file("b"), "1.sql": file("a"), "x.go": file("c")}); again != base {
		t.Errorf("the same migrations: %s and %s", base, again)
	}
	for name, other := range map[string]fstest.MapFS{
		"changed": {"1.sql": file("a"), "2.sql": file("B")},
		"renamed": {"1.sql": file("a"), "3.sql": file("b")},
		"more":    {"1.sql": file("a"), "2.sql": file("b"), "3.sql": file("")},
		"moved":   {"1.sql": file("a2.sql"), "2.sql": file("b")},
	} {
		if fingerprintOf(other) == base {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
}

func TestGivenURL(t *testing.T) {
	t.Parallel()
	given := EmptyURL(t)
	running, err := givenServer(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	if running.url != given {
		t.Error("the given server is not taken")
	}
	for _, wrong := range []string{"host=localhost user=x", strings.Replace(given, "paysaga_test_", "no_such_", 1)} {
		if _, err := givenServer(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), urlVariable) {
			t.Errorf("error = %v, want one that names %s", err, urlVariable)
		}
	}
}

func TestAbandonedFolders(t *testing.T) {
	gone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	for name, wantGone := range map[string]bool{
		folderName(gone.Process.Pid): true,
		folderName(os.Getpid()):      false,
		folderPrefix + "notes":       false,
	} {
		folder := filepath.Join(parent, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		removeAbandoned(t.Context())
		if _, err := os.Stat(folder); os.IsNotExist(err) != wantGone {
			t.Errorf("%s: %v, want it gone: %t", name, err, wantGone)
		}
	}
}

func folderName(pid int) string { return fmt.Sprintf("%s%d-1", folderPrefix, pid) }
