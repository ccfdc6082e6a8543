package idempotency

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"paysaga/saga"
)

// Route is what the guard must know about an ordinary handler.
type Route struct {
	Endpoint string // method and route pattern, "PUT /v1/stock/{sku}"
	Optional bool   // a request without a key passes as if there were no guard
	// Read tells whose a request is and what it means. It checks what can be checked before the key is claimed, and leaves the body to be
	// read once more.
	Read func(w http.ResponseWriter, r *http.Request) (account string, meant Fingerprint, err error)
	// Keep tells which answers are stored for the key's window; see Run.
	Keep func(status int) bool
	// Tell writes the result, or what the error means.
	Tell func(w http.ResponseWriter, r *http.Request, result Result, err error)
}

// KeepSuccess keeps what was done, and nothing else.
func KeepSuccess(status int) bool { return 200 <= status && status < 300 }

// Handler is the middleware for ordinary handlers, whatever they do: next is called once for a key, and its answer, status, headers and
// body, is what every repeat gets. It is called again only where it was left in the middle or has failed. A handler that writes to the
// database asks HeldBy for the key and makes it a condition of its write: then a process that was stopped in the middle, and
// taken over, cannot write any more. If the same transaction stores the answer as well, the write happens once whatever dies.
func (g *Guard) Handler(route Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values("Idempotency-Key")
		if len(values) == 0 && route.Optional {
			next.ServeHTTP(w, r)
			return
		}
		key, err := g.ReadKey(values)
		if err != nil {
			route.Tell(w, r, Result{}, err)
			return
		}
		account, meant, err := route.Read(w, r)
		if err != nil {
			route.Tell(w, r, Result{}, err)
			return
		}
		body, err := io.ReadAll(r.Body) // Read has bounded it
		if err != nil {
			route.Tell(w, r, Result{}, fmt.Errorf("read the body once more: %w", err))
			return
		}
		call := Call{AccountID: account, Endpoint: route.Endpoint, Key: key, Fingerprint: meant}
		var tooLong error // an answer that cannot be stored is not given either
		result, err := g.Run(r.Context(), call, route.Keep, func(ctx context.Context, held *Held) saga.Answer {
			recorder := &recorder{header: http.Header{}, status: http.StatusOK}
			again := r.WithContext(context.WithValue(ctx, heldKey{}, held))
			again.Body = io.NopCloser(bytes.NewReader(body)) // it may be carried out a second time, after it has lost its lease
			next.ServeHTTP(recorder, again)
			tooLong = recorder.tooLong
			return recorder.answer()
		})
		if err == nil && !result.Replayed {
			err = tooLong
		}
		route.Tell(w, r, result, err)
	})
}

type heldKey struct{}

// HeldBy is the key that a handler behind the guard holds; nil where there is none.
func HeldBy(ctx context.Context) *Held {
	if held, ok := ctx.Value(heldKey{}).(*Held); ok {
		return held
	}
	return nil
}

// maxRecorded bounds an answer, in bytes: the most that is sealed and stored.
const maxRecorded = 1 << 20

// recorder keeps an answer that is not given before it is stored.
type recorder struct {
	header  http.Header
	status  int
	written bool
	body    bytes.Buffer
	tooLong error
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if !r.written && status >= 200 { // of the informational ones none is the answer
		r.status, r.written = status, true
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.tooLong == nil && r.body.Len()+len(p) > maxRecorded {
		r.tooLong = fmt.Errorf("an answer of more than %d bytes cannot be kept", maxRecorded)
	}
	if r.tooLong != nil {
		return 0, r.tooLong
	}
	return r.body.Write(p) //nolint:wrapcheck // never fails
}

// answer leaves out what belongs to one transmission, not to the answer. An answer that is too long counts as a failure.
func (r *recorder) answer() saga.Answer {
	if r.tooLong != nil {
		return saga.Answer{Status: http.StatusInternalServerError}
	}
	answer := saga.Answer{Status: r.status, Headers: map[string]string{}, Body: r.body.Bytes()}
	for name, values := range r.header {
		switch name {
		case "Date", "Content-Length", "Connection", "Transfer-Encoding":
		default:
			answer.Headers[name] = strings.Join(values, ", ") // as good as several lines for all but cookies (RFC 9110, 5.3)
		}
	}
	return answer
}
