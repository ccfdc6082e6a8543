package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"paysaga/internal/pgdev"
)

const (
	// urlVariable names a server to use instead of starting one.
	urlVariable = "PAYSAGA_TEST_DATABASE_URL"
	// startLimit is for pulling an image over a slow line, or downloading the programs.
	startLimit = 8 * time.Minute
	// stopLimit is for a fast shutdown on a busy machine.
	stopLimit = 30 * time.Second
	// dockerPingLimit is how long a Docker engine has to answer: a local one needs milliseconds, and where there is none
	// no test shall wait for it.
	dockerPingLimit = time.Second
	// image of the container.
	image = "postgres:17-alpine"
)

// server is where the test databases are.
type server struct {
	url  string
	stop func(context.Context) error

	templateMutex sync.Mutex
	template      string // once it is made
}

// current is this process's server. It is started by the first test that needs it; an error is for all of them.
var current struct { //nolint:gochecknoglobals // one server per process: packages of tests have no common owner for it
	once   sync.Once
	server *server
	err    error
}

func startServer() (*server, error) {
	current.once.Do(func() {
		// Not the first test's context: the server outlives that test.
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		current.server, current.err = chooseServer(ctx)
	})
	return current.server, current.err
}

func stopServer(ctx context.Context) {
	current.once.Do(func() { current.err = errors.New("the tests are over") })
	if current.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := current.server.stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "stop the tests' PostgreSQL:", err)
	}
}

func chooseServer(ctx context.Context) (*server, error) {
	if given := os.Getenv(urlVariable); given != "" {
		return givenServer(ctx, given)
	}
	if !dockerAnswers(ctx) {
		return privateServer(ctx)
	}
	contained, dockerErr := containerServer(ctx)
	if dockerErr == nil {
		return contained, nil
	}
	private, err := privateServer(ctx) // an engine that may not pull images, perhaps
	if err != nil {
		return nil, errors.Join(dockerErr, err)
	}
	return private, nil
}

func givenServer(ctx context.Context, given string) (*server, error) {
	if address, err := url.Parse(given); err != nil || address.Host == "" {
		return nil, fmt.Errorf("%s is not of the form postgres://user:password@host:port/database", urlVariable)
	}
	if _, err := pgdev.Resolve(ctx, given, pgdev.Options{}); err != nil {
		return nil, fmt.Errorf("%s: %w", urlVariable, err)
	}
	return &server{url: given, stop: func(context.Context) error { return nil }}, nil
}

func dockerAnswers(ctx context.Context) bool {
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return false
	}
	defer func() { _ = engine.Close() }()
	ctx, cancel := context.WithTimeout(ctx, dockerPingLimit)
	defer cancel()
	_, err = engine.Ping(ctx, client.PingOptions{})
	return err == nil
}

func containerServer(ctx context.Context) (*server, error) {
	container, err := postgres.Run(ctx, image,
		postgres.WithDatabase("paysaga"), postgres.WithUsername("paysaga"), postgres.WithPassword("paysaga"),
		testcontainers.WithCmd("postgres", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"),
		postgres.BasicWaitStrategies())
	stop := func(ctx context.Context) error {
		return testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a container: %w", err), stop(ctx))
	}
	address, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("address of the container: %w", err), stop(ctx))
	}
	return &server{url: address, stop: stop}, nil
}

func privateServer(ctx context.Context) (*server, error) {
	removeAbandoned(ctx)
	dir, err := makeFolder()
	if err != nil {
		return nil, err
	}
	private, err := pgdev.Start(ctx, pgdev.Options{Dir: dir})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func(ctx context.Context) error {
		return errors.Join(private.Remove(ctx), os.RemoveAll(dir))
	}
	return &server{url: private.URL(), stop: stop}, nil
}
