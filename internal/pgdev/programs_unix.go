//go:build unix

package pgdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// usualFolders are where packages put the server's programs when they keep them out of PATH.
var usualFolders = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PostgreSQL's own RPMs
	"/usr/lib/postgresql*/bin",                           // SUSE
	"/usr/libexec/postgresql*",                           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/Library/PostgreSQL/*/bin",                          // EDB's installer
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
}

// programs is a folder with the server's programs.
type programs struct {
	folder string
	major  int
}

func (p programs) path(name string) string { return filepath.Join(p.folder, name) }

// search is where programs are looked for. Tests make their own.
type search struct {
	path     []string // folders, the first one that fits wins
	usual    []string // patterns of folders, the newest release wins
	download func(ctx context.Context, major int, logger *slog.Logger) (folder string, err error)
	advice   string // what to install
}

func systemSearch() search {
	release, _ := os.ReadFile("/etc/os-release") // not there on macOS
	return search{
		path:     filepath.SplitList(os.Getenv("PATH")),
		usual:    usualFolders,
		download: download,
		advice:   installAdvice(runtime.GOOS, string(release)),
	}
}

// find gives programs that the account can run: of the release that made the data, or when there is none (0) of any
// supported one. The download is the last resort.
func (s search) find(ctx context.Context, runner account, major int, logger *slog.Logger) (programs, error) {
	found := append(s.inPath(ctx, runner), s.inUsualFolders(ctx, runner)...)
	fits := func(p programs) bool { return p.major >= oldestMajor && (major == 0 || p.major == major) }
	if i := slices.IndexFunc(found, fits); i >= 0 {
		return found[i], nil
	}
	folder, err := s.download(ctx, major, logger)
	if err == nil {
		downloaded, inspectErr := inspect(ctx, runner, folder)
		if inspectErr == nil {
			return downloaded, nil
		}
		err = inspectErr
	}
	return programs{}, s.notFound(found, major, err)
}

func (s search) notFound(found []programs, major int, download error) error {
	wanted := fmt.Sprintf("%d or newer", oldestMajor)
	if major != 0 {
		wanted = fmt.Sprintf("%d, which made the data in this folder (remove the folder to start empty)", major)
	}
	var unfit strings.Builder
	for _, p := range found {
		fmt.Fprintf(&unfit, ", only release %d in %s", p.major, p.folder)
	}
	return fmt.Errorf("%w %s in PATH or the usual folders%s, and it could not be downloaded (%w). %s, "+
		"or set DATABASE_URL to a server of your own", ErrNoPrograms, wanted, unfit.String(), download, s.advice)
}

func (s search) inPath(ctx context.Context, runner account) []programs {
	var found []programs
	for _, folder := range s.path {
		// Only a link in PATH, perhaps: the other programs and the share folder are where it leads to.
		program, err := filepath.EvalSymlinks(filepath.Join(folder, "postgres"))
		if err != nil || !filepath.IsAbs(program) {
			continue
		}
		if p, err := inspect(ctx, runner, filepath.Dir(program)); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func (s search) inUsualFolders(ctx context.Context, runner account) []programs {
	var found []programs
	for _, pattern := range s.usual {
		folders, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, folder := range folders {
			if p, err := inspect(ctx, runner, folder); err == nil {
				found = append(found, p)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b programs) int { return cmp.Compare(b.major, a.major) })
	return found
}

var versionOutput = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect runs the server program under the account to ask for its release: what cannot be run there is of no use.
func inspect(ctx context.Context, runner account, folder string) (programs, error) {
	p := programs{folder: folder}
	if _, err := os.Stat(p.path("initdb")); err != nil {
		return programs{}, fmt.Errorf("inspect the programs: %w", err)
	}
	output, err := runner.command(ctx, "/", p.path("postgres"), "--version").Output()
	if err != nil {
		return programs{}, fmt.Errorf("inspect %s: %w", p.path("postgres"), err)
	}
	match := versionOutput.FindSubmatch(output)
	if match == nil {
		return programs{}, errors.New("inspect the programs: no release in the output of postgres --version")
	}
	p.major, err = strconv.Atoi(string(match[1]))
	if err != nil {
		return programs{}, fmt.Errorf("inspect the programs: %w", err)
	}
	return p, nil
}
