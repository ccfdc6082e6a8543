//go:build unix

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// launchLimit is how long a start may take with a crash recovery on a slow, busy machine; usually it is a second.
	launchLimit = 60 * time.Second
	// retryPause lies between two launches that failed for a passing reason.
	retryPause = 100 * time.Millisecond
	// pollPause is how often the state of a process is looked at: short beside the second that a start takes.
	pollPause = 10 * time.Millisecond
	// patience is how long a server gets to follow one signal before the next, stronger one.
	patience = 10 * time.Second
)

// shutdowns are PostgreSQL's ways to stop, from kind to brutal: fast (checkpoint, then exit), immediate (recovery at the
// next start), and the one that no process can refuse.
var shutdowns = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}

// passingTroubles are PostgreSQL's words for a failed start that another try may cure: somebody took the port between
// our look and the bind, or the children of a killed server are still on their way out.
var passingTroubles = []string{
	"could not bind", "could not create any TCP/IP sockets", "is still in use",
}

// Server is a PostgreSQL to work with: a private one that lives as long as this process at most, or a given one.
type Server struct {
	url      string
	place    place
	programs programs
	durable  bool
	running  *process
	lock     *folderLock
	logger   *slog.Logger

	stopOnce sync.Once
	stopErr  error
}

// Start runs a private cluster and returns when it takes connections. The first start in a folder makes the cluster;
// later ones find its data again. What a killed process left over (a running server, a half-made cluster) is cleared
// away first. Cancelling ctx ends the starting, not the started server: that runs until Stop, or until this process
// ends in whatever way (on Linux; elsewhere the next Start stops it).
//
// Errors: ErrInUse, ErrNoPrograms, ErrUnsupported.
func Start(ctx context.Context, options Options) (*Server, error) {
	return startWith(ctx, options, systemSearch())
}

func startWith(ctx context.Context, options Options, where search) (*Server, error) {
	began := time.Now()
	dir, err := prepareFolder(options.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	server := &Server{durable: options.Durable, lock: lock, logger: options.logger()}
	if err := server.open(ctx, dir, where); err != nil {
		lock.release()
		return nil, fmt.Errorf("start a private PostgreSQL in %s: %w", dir, err)
	}
	server.logger.InfoContext(ctx, "PostgreSQL started", "dir", server.place.home, "pid", server.running.pid(),
		"took", time.Since(began).Round(time.Millisecond))
	return server, nil
}

// open brings the server up in a folder that this process holds.
func (s *Server) open(ctx context.Context, dir string, where search) error {
	found, err := choosePlace(ctx, dir)
	if err != nil {
		return err
	}
	s.place = found
	if err := stopLeftover(ctx, s.place.data(), s.logger); err != nil {
		return err
	}
	if err := s.place.discardUnusable(s.logger); err != nil {
		return err
	}
	major, err := s.place.major()
	if err != nil {
		return err
	}
	if s.programs, err = where.find(ctx, s.place.account, major, s.logger); err != nil {
		return err
	}
	if major == 0 {
		if err := s.place.initialise(ctx, s.programs, s.durable); err != nil {
			return err
		}
	}
	return s.launch(ctx)
}

// launch starts the server process and waits until it is ready, again with another port when the reason for a failure
// passes.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, launchLimit)
	defer cancel()
	password, err := s.place.password()
	if err != nil {
		return err
	}
	for {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		err = s.launchOnce(ctx, port)
		if err == nil {
			return s.connectFirst(ctx, port, password)
		}
		if ctx.Err() != nil || !s.place.logMentions(passingTroubles) {
			return fmt.Errorf("%w; its log ends:\n%s", err, s.place.logTail())
		}
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

func (s *Server) launchOnce(ctx context.Context, port int) error {
	log, err := s.place.truncateLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	arguments := append([]string{"-D", s.place.data()}, settings(port, s.durable)...)
	command := s.place.account.command(context.WithoutCancel(ctx), s.place.home, s.programs.path("postgres"), arguments...)
	command.Stdout, command.Stderr = log, log
	running, err := launchProcess(command, syscall.SIGINT)
	if err != nil {
		return err
	}
	if err := waitReady(ctx, running, s.place.data()); err != nil {
		return errors.Join(err, running.stop(ctx))
	}
	s.running = running
	return nil
}

// settings are the server's, as arguments. They are not in the data folder, so that every start has today's.
func settings(port int, durable bool) []string {
	values := map[string]string{
		"port":                    strconv.Itoa(port),
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200", // serve's pool, the workers' and a test suite's many small ones
		"shared_buffers":          "64MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_error_verbosity":     "terse", // no DETAIL lines: they would quote keys and customers' data
	}
	if !durable { // synchronous_commit stays on: a commit must outlive a kill of the server
		values["fsync"] = "off"
		values["full_page_writes"] = "off"
	}
	arguments := make([]string, 0, 2*len(values))
	for name, value := range values {
		arguments = append(arguments, "-c", name+"="+value)
	}
	return arguments
}

// freePort asks the system for a port. Somebody may take it before the server does: launch tries again then.
func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: unexpected address %s", listener.Addr())
	}
	return address.Port, nil
}

// waitReady waits until the server itself says that it is ready: in the status line of its pid file, together with its
// pid, so that no other server on the same port can be taken for it.
func waitReady(ctx context.Context, running *process, data string) error {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		select {
		case <-running.done:
			return fmt.Errorf("the server ended while it started: %w", running.exit())
		case <-ctx.Done():
			return fmt.Errorf("wait for the server to be ready: %w", ctx.Err())
		case <-ticker.C:
			file := readPIDFile(data)
			if file.pid == running.pid() && file.status == "ready" {
				return nil
			}
		}
	}
}

// connectFirst proves that the server takes connections, makes the database when it is missing, and fills the URL.
func (s *Server) connectFirst(ctx context.Context, port int, password string) error {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable", // a cluster on loopback has no certificate; some drivers insist on one
	}
	if err := makeDatabase(ctx, address.String()); err != nil {
		return errors.Join(err, s.running.stop(ctx))
	}
	address.Path = "/" + database
	s.url = address.String()
	return nil
}

func makeDatabase(ctx context.Context, maintenanceURL string) error {
	connection, err := pgx.Connect(ctx, maintenanceURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = connection.Close(ctx) }()
	var exists bool
	const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := connection.QueryRow(ctx, query, database).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := connection.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}

// URL is where to connect, postgres://…, as pgx, libpq (psql) and every other driver take it. It holds a password.
func (s *Server) URL() string { return s.url }

// Done is closed when a private server's process has ended, asked for or not. For a given server it is nil.
func (s *Server) Done() <-chan struct{} {
	if s.running == nil {
		return nil
	}
	return s.running.done
}

// Stop ends a private server and waits for it; when ctx ends before, it is ended by force, which loses no committed
// data. Further calls do nothing and give the same error.
func (s *Server) Stop(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	s.stopOnce.Do(func() {
		defer s.lock.release()
		s.stopErr = s.running.stop(ctx)
	})
	return s.stopErr
}

// Remove stops a private server and deletes its cluster, wherever it lives. Dir itself stays.
func (s *Server) Remove(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.place.remove()
}

// pidFile is what the server writes about itself into its data folder.
type pidFile struct {
	pid    int
	status string // "starting", "ready", "stopping", …
}

// statusLine is the place of the status in postmaster.pid (PostgreSQL's LOCK_FILE_LINE_PM_STATUS, counted from 0).
const statusLine = 7

// readPIDFile gives the zero value when there is no file, or it is half-written.
func readPIDFile(data string) pidFile {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}
	}
	lines := strings.Split(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 || len(lines) <= 1 {
		return pidFile{}
	}
	file := pidFile{pid: pid}
	if len(lines) > statusLine {
		file.status = strings.TrimSpace(lines[statusLine])
	}
	return file
}

func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	}
}
