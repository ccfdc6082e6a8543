package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/config"
	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
)

// nameSecrets has a book searched for the secrets among settings, each in whole and, where it is a list, its parts.
func nameSecrets(book *hygiene.Book, environ []string) {
	for _, setting := range config.Settings() {
		value, set := lookUp(environ, setting.Name)
		if !setting.Secret || !set {
			continue
		}
		book.Secret(setting.Name, value)
		if address, err := url.Parse(value); err == nil && address.User != nil { // its host and its name may be told
			password, _ := address.User.Password()
			book.Secret("the password in "+setting.Name, password)
			continue
		}
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ':' }) {
			book.Secret("a part of "+setting.Name, part)
		}
	}
}

// lookUp gives the last value of a variable, which is the one that counts.
func lookUp(environ []string, name string) (value string, set bool) {
	for _, variable := range environ {
		if found, ok := strings.CutPrefix(variable, name+"="); ok {
			value, set = found, true
		}
	}
	return value, set
}

// nameStored has a book searched for the keys and fingerprints of a database that still runs.
func nameStored(t *testing.T, book *hygiene.Book, databaseURL string) {
	t.Helper()
	if pool, err := pgxpool.New(t.Context(), databaseURL); err == nil { // some tests name one that cannot be there
		defer pool.Close()
		pgtest.NameKeys(book, pool)
	}
}

// tell writes a server's metrics into its book, and has that searched for what its database holds. A program that is no server has neither.
func (r *running) tell(t *testing.T) {
	t.Helper()
	if r.database != "" {
		nameStored(t, r.book, r.database)
	}
	if r.url == "" {
		return
	}
	status, metrics := call(t, http.MethodGet, r.url+"/metrics", "", "", "")
	if status != http.StatusOK || !strings.Contains(metrics, "paysaga_build") {
		t.Errorf("metrics: %d %s", status, metrics)
	}
	_, _ = r.book.Write([]byte(metrics))
}

// collector takes traces as they come by OTLP; text in them is not encoded.
func collector(t *testing.T) (address string, traces *watched) {
	t.Helper()
	traces = newWatched()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(traces, r.Body) }))
	t.Cleanup(server.Close)
	return server.URL, traces
}
