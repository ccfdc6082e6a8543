//go:build unix

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakePrograms makes a folder whose postgres only tells its release.
func fakePrograms(t *testing.T, parent string, major int) string {
	t.Helper()
	folder := filepath.Join(parent, strconv.Itoa(major), "bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %d.4 (made up)'\n", major)
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var errNoNetwork = errors.New("no network")

func noDownload(context.Context, int, *slog.Logger) (string, error) { return "", errNoNetwork }

func TestFind(t *testing.T) {
	t.Parallel()
	root := newDir(t)
	folders := make(map[int]string)
	for _, major := range []int{9, 13, 14, 16} {
		folders[major] = fakePrograms(t, root, major)
	}
	elsewhere := fakePrograms(t, newDir(t), 17)
	usual := []string{filepath.Join(root, "*", "bin")}
	tests := map[string]struct {
		path       []string
		major      int
		downloaded string
		want       string
	}{
		"the newest of the usual folders":       {want: folders[16]},
		"PATH before the usual folders":         {path: []string{"/nonexistent", folders[14]}, want: folders[14]},
		"a too old one in PATH does not count":  {path: []string{folders[13]}, want: folders[16]},
		"the release of the data":               {path: []string{folders[16]}, major: 14, want: folders[14]},
		"the release of the data by download":   {major: 17, downloaded: elsewhere, want: elsewhere},
		"no release that is too old, ever":      {major: 13},
		"a release that is nowhere to be found": {major: 17},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := search{path: test.path, usual: usual, download: noDownload, advice: "Install it"}
			if test.downloaded != "" {
				where.download = func(context.Context, int, *slog.Logger) (string, error) { return test.downloaded, nil }
			}
			got, err := where.find(t.Context(), account{}, test.major, slog.New(slog.DiscardHandler))
			if got.folder != test.want {
				t.Errorf("folder = %q, %v; want %q", got.folder, err, test.want)
			}
			if missing := test.want == ""; missing != errors.Is(err, ErrNoPrograms) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestStartWithoutPrograms(t *testing.T) {
	t.Parallel()
	release := "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"
	where := search{download: noDownload, advice: installAdvice("linux", release)}
	_, err := startWith(t.Context(), Options{Dir: newDir(t)}, where)
	if !errors.Is(err, ErrNoPrograms) || !errors.Is(err, errNoNetwork) {
		t.Fatalf("error = %v, want ErrNoPrograms with the download's", err)
	}
	for _, want := range []string{"14 or newer", "apt-get install postgresql", "DATABASE_URL", "no network"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %q", err, want)
		}
	}
}

func TestDataOfAnotherRelease(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	for name, content := range map[string]string{
		"data/PG_VERSION": "14\n", "data/global/pg_control": "not empty", "password": "secret",
	} {
		path := filepath.Join(dir, "postgres", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	where := search{path: []string{fakePrograms(t, newDir(t), 16)}, download: noDownload, advice: "Install it"}
	_, err := startWith(t.Context(), Options{Dir: dir}, where)
	if !errors.Is(err, ErrNoPrograms) || !strings.Contains(err.Error(), "14, which made the data") ||
		!strings.Contains(err.Error(), "release 16 in") {
		t.Errorf("error = %v, want one that names both releases", err)
	}
}

func TestInstallAdvice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ goos, release, want string }{
		"macOS":    {"darwin", "", "brew install postgresql@17"},
		"Debian":   {"linux", "ID=debian\n", "apt-get install postgresql"},
		"Ubuntu":   {"linux", "ID=ubuntu\nID_LIKE=debian\n", "apt-get install postgresql"},
		"Rocky":    {"linux", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf install postgresql-server"},
		"Alpine":   {"linux", "ID=alpine\n", "apk add postgresql"},
		"a stray":  {"linux", "ID=plan9\n", "Install PostgreSQL's server package"},
		"no file":  {"linux", "", "Install PostgreSQL's server package"},
		"openSUSE": {"linux", "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "zypper install postgresql-server"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := installAdvice(test.goos, test.release); !strings.Contains(got, test.want) {
				t.Errorf("advice = %q, want %q in it", got, test.want)
			}
		})
	}
}
