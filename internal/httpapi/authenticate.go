package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"paysaga/internal/account"
)

type principalKey struct{}

// accountOf is the account whose key the request carries. Every route under /v1/ has one.
func accountOf(ctx context.Context) string {
	key, _ := keyOf(ctx)
	return key.AccountID // without a key "", an account that nobody has
}

// authenticate guards everything under /v1/; the rest tells nothing of any account. The key is read from the database each
// time, so that a revoked one ends at once.
func (s *server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if len(r.Header.Values("Authorization")) > 1 {
			s.fail(w, r, newProblem(unauthorized, "The request has several Authorization headers; send one."))
			return
		}
		if !strings.EqualFold(scheme, "Bearer") || secret == "" {
			s.fail(w, r, newProblem(unauthorized, "Send the API key as Authorization: Bearer <key>."))
			return
		}
		key, err := s.Store.FindAPIKey(r.Context(), account.HashSecret(strings.TrimSpace(secret)))
		if errors.Is(err, account.ErrUnknownKey) {
			s.fail(w, r, newProblem(unauthorized, "The API key is unknown or revoked."))
			return
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, key)))
	})
}
