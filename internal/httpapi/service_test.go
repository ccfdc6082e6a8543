package httpapi_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"paysaga/api"
)

func TestPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for path, word := range map[string]string{"/docs": "Idempotency-Key", "/problems": "payment-declined"} {
		page := s.getAs(t, "", path)
		if page.status != http.StatusOK || page.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.body, word) {
			t.Errorf("%s: %d %s", path, page.status, page.header.Get("Content-Type"))
		}
		if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", path, policy)
		}
	}
	document := s.getAs(t, "", "/openapi.yaml")
	if document.status != http.StatusOK || document.body != string(api.Document) {
		t.Errorf("/openapi.yaml: %d, and not the contract as it is written", document.status)
	}
}

// Every problem that any bad request gets has its page, and so has every problem that the list shows.
func TestProblemPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var slugs []string
	for _, b := range badRequests(t, s) {
		slugs = append(slugs, b.slug)
	}
	list := s.getAs(t, "", "/problems")
	for _, link := range regexp.MustCompile(`href="/problems/([^"]+)"`).FindAllStringSubmatch(list.body, -1) {
		slugs = append(slugs, link[1])
	}
	slugs = append(slugs, "idempotency-key-reuse", "request-in-progress", "payment-declined", "payment-rejected", "out-of-stock",
		"stock-reserved", "unavailable")
	slices.Sort(slugs)
	slugs = slices.Compact(slugs)
	const atLeast = 15 // the list alone has more: an empty one would make this test pass
	if len(slugs) < atLeast {
		t.Fatalf("only %q", slugs)
	}
	for _, slug := range slugs {
		page := s.getAs(t, "", "/problems/"+slug)
		if page.status != http.StatusOK || !strings.Contains(page.body, slug) {
			t.Errorf("/problems/%s: %d", slug, page.status)
		}
		if !strings.Contains(list.body, `/problems/`+slug+`"`) {
			t.Errorf("%s is not in the list of problems", slug)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := decoded[api.Health](t, s.getAs(t, "", path), http.StatusOK); got.Status != "ok" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// A database that is away: the process is alive, takes no traffic, and tells every client to come back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.pool.Close()
	if got := decoded[api.Health](t, s.getAs(t, "", "/healthz"), http.StatusOK); got.Status != "ok" {
		t.Errorf("/healthz: %+v", got)
	}
	s.getAs(t, "", "/readyz").problem(t, http.StatusServiceUnavailable, "unavailable")
	s.get(t, "/v1/orders").problem(t, http.StatusServiceUnavailable, "unavailable")
	problem := s.place(t, newKeyText(), theOrder).problem(t, http.StatusServiceUnavailable, "unavailable")
	if strings.Contains(problem.Detail, "pool") || strings.Contains(problem.Detail, "postgres") {
		t.Errorf("the inner error reaches the client: %s", problem.Detail)
	}
	if got := len(s.sandbox.Ledger()); got != 0 {
		t.Errorf("%d charges", got)
	}
}

// A schema that is not there is no readiness either.
func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(t, `ALTER TABLE sagas RENAME TO elsewhere`)
	s.getAs(t, "", "/readyz").problem(t, http.StatusServiceUnavailable, "unavailable")
}

// Each answer has an id by which it is found in the log, and none of them may be cached.
func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	seen := map[string]bool{}
	for _, path := range []string{"/healthz", "/v1/orders", "/v1/none", "/docs"} {
		header := s.get(t, path).header
		id := header.Get("Request-Id")
		if id == "" || seen[id] {
			t.Errorf("%s: Request-Id %q is not new", path, id)
		}
		eventually(t, "the request is in the log", func() bool { return s.log.Contains(id) })
		seen[id] = true
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, header)
		}
	}
}
