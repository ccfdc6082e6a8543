package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
)

// asProgram makes the test binary be paysaga itself.
const asProgram = "PAYSAGA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}

// programLimit is far longer than any command takes; only one that hangs meets it.
const programLimit = time.Minute

// ending is how a run of the program ended.
type ending struct {
	code           int
	stdout, stderr string
}

// paysaga runs the program with these settings and no others. What it says beside its output is searched for secrets.
func paysaga(t *testing.T, environ []string, arguments ...string) ending {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programLimit)
	defer cancel()
	command := program(t, ctx, environ, arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || !exit.Exited()) {
		t.Fatalf("paysaga %q: %v\n%s", arguments, err, stderr.String())
	}
	book := hygiene.New(t)
	_, _ = book.Write(stderr.Bytes())
	nameSecrets(book, environ)
	if database, set := lookUp(environ, "DATABASE_URL"); set {
		nameStored(t, book, database)
	}
	return ending{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// program is a run of the program that is not started yet, in an empty folder.
func program(t *testing.T, ctx context.Context, environ []string, arguments ...string) *exec.Cmd { //nolint:revive // t first, as everywhere
	t.Helper()
	self, err := os.Executable()
	noError(t, err)
	command := exec.CommandContext(ctx, self, arguments...)
	command.Dir = t.TempDir()
	command.Env = append([]string{asProgram + "=1"}, environ...)
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		command.Env = append(command.Env, name+"="+os.Getenv(name))
	}
	return command
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wellDone fails the test unless the run went well, and gives its output.
func (e ending) wellDone(t *testing.T) string {
	t.Helper()
	if e.code != 0 {
		t.Fatalf("exit code %d: %s", e.code, e.stderr)
	}
	return e.stdout
}

// refused fails the test unless the run ended with this code, no output, and exactly these lines of complaint: each must
// begin with "paysaga: " and hold the given words.
func (e ending) refused(t *testing.T, code int, words ...string) {
	t.Helper()
	if e.code != code || e.stdout != "" {
		t.Errorf("exit code %d, want %d; output %q", e.code, code, e.stdout)
	}
	lines := strings.Split(strings.TrimSuffix(e.stderr, "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return code == exitUsage && strings.HasPrefix(line, "See: paysaga") })
	if len(lines) != len(words) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(words), e.stderr)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "paysaga: ") || !strings.Contains(line, words[i]) {
			t.Errorf("line %d is %q, want one about %q", i+1, line, words[i])
		}
	}
}

func readJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	noError(t, json.Unmarshal([]byte(text), &value))
	return value
}

func TestHelp(t *testing.T) {
	t.Parallel()
	help := paysaga(t, nil).wellDone(t)
	for _, command := range []string{"demo", "dev", "serve", "migrate", "keys", "orders", "sandbox", "contract", "upkeep", "reseal"} {
		if !strings.Contains(help, "  "+command+" ") {
			t.Errorf("%s is not in the help", command)
		}
		if text := paysaga(t, nil, command, "--help").wellDone(t); len(text) < 100 {
			t.Errorf("the help of %s teaches nothing: %s", command, text)
		}
	}
	if text := paysaga(t, nil, "serve", "--help").wellDone(t); !strings.Contains(text, "STRIPE_API_KEY") {
		t.Error("serve does not tell its settings")
	}
}

// Wrong calls end with 2, and say where the help is.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	for call, words := range map[string]string{
		"nonsense":                            "unknown command",
		"--nonsense":                          "unknown flag",
		"serve more":                          "unknown command",
		"serve --role chef":                   "chef",
		"keys nonsense":                       "unknown command",
		"keys create":                         "account",
		"keys create --account Big_Shop":      "Big_Shop",
		"keys create --account a --role boss": "boss",
		"keys create --account a --name=":     "name",
		"keys revoke":                         "accepts 1 arg",
		"keys revoke 4711":                    "4711",
		"migrate sideways":                    "unknown command",
		"orders get":                          "accepts 1 arg",
		"orders get 4711":                     "4711",
		"orders list --limit=many":            "many",
		"dev more":                            "unknown command",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			got := paysaga(t, nil, strings.Fields(call)...)
			got.refused(t, exitUsage, words)
			if !strings.Contains(got.stderr, "See: paysaga") {
				t.Errorf("does not say where the help is: %s", got.stderr)
			}
		})
	}
}

// Commands that need a database or a server and know none say how to name one.
func TestNothingToTalkTo(t *testing.T) {
	t.Parallel()
	for call, words := range map[string]string{
		"keys list": "DATABASE_URL", "keys create --account a": "DATABASE_URL", "migrate up": "DATABASE_URL", "migrate status": "DATABASE_URL",
		"orders list": "PAYSAGA_SERVER", "orders get 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71": "PAYSAGA_SERVER",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			paysaga(t, nil, strings.Fields(call)...).refused(t, exitFailed, words)
		})
	}
}

// A database that cannot be reached is one line, without the password.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	for _, call := range []string{"keys list", "migrate up", "migrate status", "migrate down"} {
		for url, words := range map[string]string{
			"postgres://shop:" + password + "@127.0.0.1:1/shop?sslmode=disable": "127.0.0.1", "mysql://shop:" + password + "@h/shop": "DATABASE_URL",
		} {
			t.Run(call+" "+url[:5], func(t *testing.T) {
				t.Parallel()
				got := paysaga(t, []string{"DATABASE_URL=" + url}, strings.Fields(call)...)
				got.refused(t, exitFailed, words)
				if strings.Contains(got.stderr, password) {
					t.Errorf("the password is told: %s", got.stderr)
				}
			})
		}
	}
}
