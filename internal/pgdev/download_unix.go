//go:build unix

package pgdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	// downloadLimit is for some 10 to 30 MB over a slow line.
	downloadLimit = 5 * time.Minute
	// downloadMajor is taken when any release will do.
	downloadMajor = 17
	// repository is where the builds are: Maven's central one, with checksums that the library compares.
	repository = "https://repo1.maven.org/maven2"
	// rootsDownloads is where root keeps programs, as the account that runs them cannot look into root's own cache.
	rootsDownloads = "/var/cache/paysaga"
)

// download fetches the programs of a release (0: any) into the user's cache, once, and gives their folder.
//
// The library knows how to fetch and unpack builds for this machine, but only as a part of starting a server of its
// own. So it starts a throw-away one; that part may fail (as it does for root): what counts is a complete folder.
func download(ctx context.Context, major int, logger *slog.Logger) (string, error) {
	if major == 0 {
		major = downloadMajor
	}
	version, err := downloadVersion(major)
	if err != nil {
		return "", err
	}
	cache, err := downloadCache()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "postgresql-"+string(version))
	bin := filepath.Join(target, "bin")
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err == nil {
		return bin, nil
	}
	logger.InfoContext(ctx, "downloading PostgreSQL, once", "version", string(version), "to", target)
	if err := fetch(ctx, repository, version, cache, target); err != nil {
		return "", err
	}
	return bin, nil
}

func downloadVersion(major int) (embeddedpostgres.PostgresVersion, error) {
	versions := map[int]embeddedpostgres.PostgresVersion{
		14: embeddedpostgres.V14, 15: embeddedpostgres.V15, 16: embeddedpostgres.V16,
		17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
	}
	version, ok := versions[major]
	if !ok {
		return "", fmt.Errorf("release %d is not offered", major)
	}
	return version, nil
}

func downloadCache() (string, error) {
	if os.Geteuid() == 0 {
		return makeCache(rootsDownloads)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache for the download: %w", err)
	}
	return makeCache(filepath.Join(user, "paysaga"))
}

func makeCache(folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // public programs, run under another account
		return "", fmt.Errorf("cache for the download: %w", err)
	}
	return folder, nil
}

// fetch unpacks beside the target and moves it there when it is complete; a process that was faster wins.
func fetch(ctx context.Context, from string, version embeddedpostgres.PostgresVersion, cache, target string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return fmt.Errorf("cache for the download: %w", err)
	}
	finished := make(chan error, 1)
	go func() { // the library knows no context: when ctx ends first, it is left to its own end
		err := unpack(ctx, from, version, work, target)
		_ = os.RemoveAll(work)
		finished <- err
	}()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the download took too long: %w", ctx.Err())
	}
}

func unpack(ctx context.Context, from string, version embeddedpostgres.PostgresVersion, work, target string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	programs, runtimeFolder := filepath.Join(work, "programs"), filepath.Join(work, "runtime")
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		Port(uint32(port)). //nolint:gosec // a port fits
		BinaryRepositoryURL(from).
		CachePath(work).
		BinariesPath(programs).
		RuntimePath(runtimeFolder).
		Logger(io.Discard))
	startErr := server.Start()
	if startErr == nil {
		if err := server.Stop(); err != nil {
			return fmt.Errorf("stop the throw-away server: %w", err)
		}
	}
	// The library makes this folder when everything is unpacked.
	if _, err := os.Stat(runtimeFolder); err != nil {
		return fmt.Errorf("unpack: %w", cmp.Or(startErr, err))
	}
	if err := os.Rename(programs, target); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("keep the download: %w", err)
	}
	return nil
}
