// Package pgdev gives paysaga a PostgreSQL without ceremony, for development, the demo and tests: a private cluster in a
// data folder, run from the PostgreSQL programs of the machine (or from downloaded ones) as a child of this process.
//
// It works as root too: PostgreSQL refuses root, so the cluster then belongs to an unprivileged account (see account).
//
// The server listens on 127.0.0.1 only, on a port that was free, and asks for a random password (scram-sha-256). TCP
// rather than a unix socket because the URL is handed to other processes: every driver takes it as it is, it has no
// limit of path length, and the folder need not be reachable for whoever connects. A password because every account of
// the machine can reach 127.0.0.1.
//
// The package knows nothing of paysaga's schema; package pgtest builds test databases on top of it. Production does not
// use it: there DATABASE_URL names the server.
package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Errors of Start, for errors.Is.
var (
	// ErrInUse: another living process holds the folder.
	ErrInUse = errors.New("the folder is in use")
	// ErrNoPrograms: no PostgreSQL programs that could run the cluster, found or downloaded.
	ErrNoPrograms = errors.New("no usable PostgreSQL")
	// ErrUnsupported: this operating system is not supported; name a server with DATABASE_URL.
	ErrUnsupported = errors.New("a private PostgreSQL is not supported on this operating system")
)

const (
	// oldestMajor is the oldest release that paysaga's schema supports, and whose development community still repairs.
	oldestMajor = 14
	// role and database are what URL connects with and to.
	role     = "paysaga"
	database = "paysaga"
	// pingLimit is how long Resolve waits for a given server: enough for a far one, short for a person who mistyped.
	pingLimit = 10 * time.Second
)

// Options say where and how a private cluster lives.
type Options struct {
	// Dir is the folder to keep the cluster in, absolute or relative; it is made when missing. pgdev uses the names in it
	// that begin with "postgres" and touches no other. When this process is root and the account that runs the cluster
	// cannot pass through Dir or its parents (mode 0711 suffices), the cluster lives in /var/lib/paysaga instead, and
	// Dir/postgres.location names the place; without that file the cluster starts empty again.
	Dir string
	// Durable keeps commits through a crash of the machine. Without it only a crash of PostgreSQL or of this process is
	// survived, which is enough for tests and faster.
	Durable bool
	// Logger may be nil.
	Logger *slog.Logger
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Resolve gives the server that databaseURL names, after checking that it answers; when databaseURL is empty it starts
// a private one. Stop leaves a server alone that Resolve did not start.
func Resolve(ctx context.Context, databaseURL string, options Options) (*Server, error) {
	if databaseURL == "" {
		return Start(ctx, options)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if _, err := pgx.ParseConfig(databaseURL); err != nil {
		return nil, errors.New("the given database's URL cannot be read") // the parser's own text can hold the password
	}
	connection, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connect to the given database: %w", err)
	}
	if err := connection.Close(ctx); err != nil {
		return nil, fmt.Errorf("close the trial connection: %w", err)
	}
	return &Server{url: databaseURL}, nil
}
