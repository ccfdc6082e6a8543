package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"paysaga/api"
	"paysaga/internal/httpapi/pages"
	"paysaga/saga"
)

// pageCache holds the pages for people, which never change while the process runs.
type pageCache struct {
	docs     []byte
	problems []byte
	problem  map[string][]byte // by slug
}

func renderPages(document *openapi3.T) (pageCache, error) {
	cache := pageCache{problem: map[string][]byte{}}
	var err error
	if cache.docs, err = pages.Docs(document); err != nil {
		return pageCache{}, fmt.Errorf("render the reference: %w", err)
	}
	var list []pages.ProblemType
	for slug, kind := range problemTypes {
		list = append(list, kind)
		if cache.problem[slug], err = pages.Problem(kind); err != nil {
			return pageCache{}, fmt.Errorf("render a problem's page: %w", err)
		}
	}
	slices.SortFunc(list, func(a, b pages.ProblemType) int {
		if a.Status != b.Status {
			return a.Status - b.Status
		}
		return strings.Compare(a.Slug, b.Slug)
	})
	if cache.problems, err = pages.Problems(list); err != nil {
		return pageCache{}, fmt.Errorf("render the list of problems: %w", err)
	}
	return cache, nil
}

func (s *server) sendPage(w http.ResponseWriter, r *http.Request, page []byte) {
	w.Header().Set("Content-Security-Policy", pages.ContentSecurityPolicy)
	s.send(w, r, http.StatusOK, "text/html; charset=utf-8", page)
}

// GetDocs shows the reference.
func (s *server) GetDocs(w http.ResponseWriter, r *http.Request) { s.sendPage(w, r, s.pages.docs) }

// GetDocument gives the contract itself.
func (s *server) GetDocument(w http.ResponseWriter, r *http.Request) {
	s.send(w, r, http.StatusOK, "application/yaml", api.Document)
}

// ListProblemPages shows all problem types.
func (s *server) ListProblemPages(w http.ResponseWriter, r *http.Request) {
	s.sendPage(w, r, s.pages.problems)
}

// GetProblemPage shows one problem type.
func (s *server) GetProblemPage(w http.ResponseWriter, r *http.Request, slug string) {
	page, ok := s.pages.problem[slug]
	if !ok {
		s.fail(w, r, saga.ErrNotFound)
		return
	}
	s.sendPage(w, r, page)
}

// GetHealth tells that the process runs.
func (s *server) GetHealth(w http.ResponseWriter, r *http.Request) {
	s.sendJSON(w, r, api.Health{Status: "ok"})
}

// GetReadiness tells that requests can be served: the database answers and has its schema.
func (s *server) GetReadiness(w http.ResponseWriter, r *http.Request) {
	if err := s.Store.Ping(r.Context()); err != nil {
		s.Logger.WarnContext(r.Context(), "not ready", "error", err)
		s.fail(w, r, &problem{kind: unavailable, detail: "The database does not answer or has no schema.", retryAfter: defaultRetryAfter})
		return
	}
	s.sendJSON(w, r, api.Health{Status: "ok"})
}
