//go:build unix

package pgdev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// helperDir makes the test binary a helper process that starts a cluster in the folder and waits to be killed.
const helperDir = "PGDEV_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		runHelper(dir)
		return
	}
	m.Run()
}

// runHelper prints the server's pid and URL and waits until it is killed, or its standard input ends.
func runHelper(dir string) {
	server, err := Start(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(server.running.pid(), server.URL())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// newDir gives a folder that every account can pass through, unlike root's t.TempDir.
func newDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustStart(t *testing.T, dir string) *Server {
	t.Helper()
	server, err := Start(t.Context(), Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, server) })
	return server
}

func mustStop(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func execute(t *testing.T, databaseURL, statement string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(t.Context()) }()
	if _, err := connection.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, databaseURL, statement string) string {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(t.Context()) }()
	var value string
	if err := connection.QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// writeMark and checkMark tell whether a later server has the data of an earlier one.
func writeMark(t *testing.T, databaseURL string) {
	t.Helper()
	execute(t, databaseURL, `CREATE TABLE mark AS SELECT 'kept' AS value`)
}

func checkMark(t *testing.T, databaseURL string) {
	t.Helper()
	if got := query(t, databaseURL, `SELECT value FROM mark`); got != "kept" {
		t.Errorf("mark = %q, want the one of the first server", got)
	}
}

func TestStopAndStartKeepsData(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := mustStart(t, dir)
	writeMark(t, first.URL())
	mustStop(t, first)
	if _, err := pgx.Connect(t.Context(), first.URL()); err == nil {
		t.Fatal("the server answers after Stop")
	}
	checkMark(t, mustStart(t, dir).URL())
}

// One server for everything that only looks at it.
func TestRunningServer(t *testing.T) {
	t.Parallel()
	server := mustStart(t, newDir(t))
	t.Run("settings", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{
			"timezone": "UTC", "max_connections": "200", "server_encoding": "UTF8", "listen_addresses": "127.0.0.1",
			"fsync": "off", "synchronous_commit": "on",
		} {
			if got := query(t, server.URL(), "SHOW "+name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
	t.Run("the password is asked", func(t *testing.T) {
		t.Parallel()
		config, err := pgx.ParseConfig(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		config.Password = "wrong"
		if _, err := pgx.ConnectConfig(t.Context(), config); err == nil {
			t.Error("a wrong password connects")
		}
	})
	t.Run("not root's", func(t *testing.T) {
		t.Parallel()
		if owner, ok := ownerOf(server.place.data()); !ok || owner == 0 {
			t.Errorf("owner of the data = %d, %t; want not root", owner, ok)
		}
	})
	t.Run("resolve takes a given database and leaves it alone", func(t *testing.T) {
		t.Parallel()
		given, err := Resolve(t.Context(), server.URL(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		mustStop(t, given)
		writeMark(t, given.URL())
		checkMark(t, server.URL())
	})
}

func TestDurableServer(t *testing.T) {
	t.Parallel()
	server, err := Start(t.Context(), Options{Dir: newDir(t), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, server) })
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query(t, server.URL(), "SHOW "+name); got != "on" {
			t.Errorf("%s = %q, want on", name, got)
		}
	}
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := mustStart(t, dir)
	writeMark(t, first.URL())
	if err := syscall.Kill(first.running.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	mustStop(t, first)
	checkMark(t, mustStart(t, dir).URL())
}

// helper is another process that runs a cluster.
type helper struct {
	command *exec.Cmd
	server  int // pid
	url     string
}

func startHelper(t *testing.T, dir string) helper {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), helperDir+"="+dir)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command.StdinPipe(); err != nil { // stays open as long as this process lives
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	first, databaseURL, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("helper: %s", line)
	}
	return helper{command: command, server: pid, url: databaseURL}
}

func (h helper) kill(t *testing.T) {
	t.Helper()
	if err := h.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.command.Wait() // "signal: killed"
}

func TestParentKilled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startHelper(t, dir)
	writeMark(t, first.url)
	first.kill(t)
	second := mustStart(t, dir)
	checkMark(t, second.URL())
	if second.running.pid() == first.server {
		t.Error("the server of the killed process is taken over")
	}
	if isServerOf(first.server, second.place.data()) {
		t.Error("the server of the killed process still runs")
	}
}

// A server that nothing tells of its parent's death, as on systems without that signal.
func TestOrphanStopped(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := mustStart(t, dir)
	writeMark(t, first.URL())
	mustStop(t, first)

	programs, err := systemSearch().find(t.Context(), first.place.account, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{"-D", first.place.data()}, settings(port, false)...)
	orphan := first.place.account.command(t.Context(), "/", programs.path("postgres"), arguments...)
	running, err := launchProcess(orphan, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := waitReady(t.Context(), running, first.place.data()); err != nil {
		t.Fatal(err)
	}
	checkMark(t, mustStart(t, dir).URL())
	<-running.done
}

// A pid file whose pid now means another living process must neither stop the start nor that process.
func TestForeignPIDFile(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := mustStart(t, dir)
	mustStop(t, first)
	file := filepath.Join(first.place.data(), "postmaster.pid")
	content := fmt.Sprintf("%d\n%s\n1\n5432\n\n127.0.0.1\n\nready\n", os.Getpid(), first.place.data())
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	mustStart(t, dir)
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startHelper(t, dir)
	defer first.kill(t)
	_, err := Start(t.Context(), Options{Dir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("error = %v, want ErrInUse", err)
	}
	if pid := strconv.Itoa(first.command.Process.Pid); !strings.Contains(err.Error(), pid) {
		t.Errorf("error %q does not name the holder %s", err, pid)
	}
}

func TestHalfMadeCluster(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"interrupted before the move": "postgres/new-1/PG_VERSION",
		"without control file":        "postgres/data/PG_VERSION",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("15\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			server := mustStart(t, dir)
			writeMark(t, server.URL())
			left, err := filepath.Glob(filepath.Join(server.place.home, stagingPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// As root the account cannot pass through a 0700 folder; as an ordinary user it is one's own. Both must work, keep the
// data, and forget it with the folder.
func TestUnreachableFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "closed", "inner")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first := mustStart(t, dir)
	if far := first.place.isFar(); far != (os.Geteuid() == 0) {
		t.Errorf("far = %t as user %d", far, os.Geteuid())
	}
	writeMark(t, first.URL())
	mustStop(t, first)
	second := mustStart(t, dir)
	checkMark(t, second.URL())
	mustStop(t, second)

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	third := mustStart(t, dir)
	if got := query(t, third.URL(), `SELECT count(*)::text FROM pg_tables WHERE tablename = 'mark'`); got != "0" {
		t.Error("the data outlives its folder")
	}
	if err := third.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(third.place.home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cluster's folder after Remove: %v", err)
	}
}

func TestResolveChecksTheGivenDatabase(t *testing.T) {
	t.Parallel()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(t.Context(), fmt.Sprintf("postgres://127.0.0.1:%d/x", port), Options{}); err == nil {
		t.Error("a database that does not answer is accepted")
	}
}

func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startHelper(t, dir)
	if err := RemoveAbandoned(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("folder of a living process: %v, want ErrInUse", err)
	}
	first.kill(t)
	link := filepath.Join(newDir(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAbandoned(t.Context(), link); err == nil {
		t.Error("a link is followed")
	}
	if err := RemoveAbandoned(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder afterwards: %v", err)
	}
	if isServerOf(first.server, filepath.Join(dir, "postgres", "data")) {
		t.Error("its server still runs")
	}
}
