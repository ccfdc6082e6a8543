//go:build unix

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxConnections is the size of a server's pool, as cmd/paysaga has it.
	maxConnections = 32
	// leakLimit is how long connections and goroutines may take to end when nobody needs them any more.
	leakLimit = 30 * time.Second
	// few is what may be open more than at the beginning: the connection that asks, and an upkeep that is just at work.
	few = 4
)

// level is what a server has open when nobody asks it for anything.
type level struct {
	goroutines  int
	descriptors int // those that are no connection to the database
}

// hangUpAll ends all idle connections but those to the database, so that what is left is the servers' own.
func (s *system) hangUpAll(customers *shops) {
	customers.street.http.CloseIdleConnections()
	s.webhooks.hangUp()
	for _, one := range s.servers {
		one.front.hangUp()
		one.provider.hangUp()
	}
}

// look measures a server.
func (s *server) look(ctx context.Context) (level, error) {
	now := s.process()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+now.address+"/metrics", http.NoBody)
	if err != nil {
		return level{}, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return level{}, err
	}
	defer response.Body.Close()
	found := level{goroutines: -1, descriptors: len(now.descriptors()) - s.wire.open()}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			if found.goroutines, err = strconv.Atoi(text); err != nil {
				return level{}, err
			}
		}
	}
	if found.goroutines < 0 {
		return level{}, fmt.Errorf("%s does not tell its goroutines", now.name)
	}
	return found, nil
}

// wantNoLeaks: no server that lives has more open than when it began, and the database knows the servers' pools and nobody else.
func (s *system) wantNoLeaks(customers *shops) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), leakLimit)
	defer cancel()
	var leaks []string
	for {
		s.hangUpAll(customers)
		leaks = s.leaks(ctx)
		if len(leaks) == 0 || ctx.Err() != nil {
			break
		}
		sleep(ctx, 250*time.Millisecond)
	}
	for _, leak := range leaks {
		s.t.Errorf("%s after all is at rest: %s", leakLimit, leak)
	}
}

func (s *system) leaks(ctx context.Context) []string {
	var found []string
	for _, one := range s.servers {
		now, err := one.look(ctx)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		if now.goroutines > one.idle.goroutines+few {
			found = append(found, fmt.Sprintf("%s has %d goroutines, and had %d", one.process().name, now.goroutines, one.idle.goroutines))
		}
		if now.descriptors > one.idle.descriptors+few {
			found = append(found, fmt.Sprintf("%s has %d descriptors open that lead to no database, and had %d: %s", one.process().name,
				now.descriptors, one.idle.descriptors, strings.Join(one.process().descriptors(), " ")))
		}
	}
	return append(found, s.databaseLeaks()...)
}

// databaseLeaks are connections of the database beyond those that the servers' wires lead to it, which end with their servers, wires that
// carry more than a pool, and connections that stand in the middle of a transaction.
func (s *system) databaseLeaks() []string {
	s.t.Helper()
	type backends struct{ All, Idle int }
	there := read[backends](s, `
		SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '1 second')
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)[0]
	var found []string
	pools := 0
	for _, one := range s.servers {
		pools += one.wire.open()
		if count := one.wire.open(); count > maxConnections {
			found = append(found, fmt.Sprintf("%s has %d connections to the database", one.process().name, count))
		}
	}
	if there.All > pools {
		found = append(found, fmt.Sprintf("the database has %d connections, the servers' pools %d", there.All, pools))
	}
	if there.Idle > 0 {
		found = append(found, fmt.Sprintf("%d connections of the database are idle in a transaction", there.Idle))
	}
	return found
}
