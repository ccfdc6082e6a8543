package httpapi

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
)

// keyHeader carries the client's key.
const keyHeader = "Idempotency-Key"

// GetIdempotencyKey shows how one of the account's own keys stands, without its answer.
func (s *server) GetIdempotencyKey(w http.ResponseWriter, r *http.Request, key api.KeyText, params api.GetIdempotencyKeyParams) {
	endpoint := cmp.Or(string(params.Endpoint), createOrderEndpoint)
	record, used, err := s.Store.LookupKey(r.Context(), accountOf(r.Context()), endpoint, key)
	switch {
	case err != nil:
		s.fail(w, r, err)
	case !used:
		s.fail(w, r, newProblem(notFound, "Your account has used no such key at %q.", endpoint))
	default:
		s.sendJSON(w, r, showKey(record))
	}
}

func showKey(record idempotency.Record) api.KeyRecord {
	shown := api.KeyRecord{
		Endpoint: record.Endpoint, Status: api.KeyStatus(record.Status), Generation: record.Generation, Expired: record.Expired,
		ResponseStatus: record.Answer.Status, CreatedAt: record.CreatedAt.UTC(), CompletedAt: utc(record.CompletedAt),
		ExpiresAt: record.ExpiresAt.UTC(),
	}
	if record.SagaKey != uuid.Nil {
		shown.SagaKey = &record.SagaKey
	}
	return shown
}

// limitProblem also says what the limit is, in the words of draft-ietf-httpapi-ratelimit-headers.
func limitProblem(limit *idempotency.LimitError) *problem {
	wait := max(limit.RetryAfter, time.Second)
	seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
	p := newProblem(tooManyKeys, "An account may begin %d new requests in a minute.", limit.PerMinute)
	p.retryAfter = wait
	p.headers = map[string]string{
		"RateLimit-Policy": `"new-keys";q=` + strconv.Itoa(limit.PerMinute) + `;w=60`,
		"RateLimit":        `"new-keys";r=0;t=` + seconds,
	}
	return p
}
