package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
)

// TestWhatAnAnswerMeans: which answers are repeated, which are refusals, and which leave the outcome open.
func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	dropped := mishap{Works: true}
	unavailable := mishap{Status: 503, Problem: "unavailable"}
	running := mishap{Status: 409, Problem: "request-in-progress"}
	busy := mishap{Status: 409, Problem: "order-busy"}
	limited := mishap{Status: 429, Problem: "too-many-new-keys"}
	refusal := func(status int, problem string) mishap { return mishap{Status: status, Problem: problem} }
	tests := map[string]struct {
		mishaps []mishap
		known   bool // a ProblemError, else the outcome is not known
		final   bool
	}{
		"declined":                      {[]mishap{refusal(402, "payment-declined")}, true, true},
		"declined after a lost answer":  {[]mishap{dropped, refusal(402, "payment-declined")}, true, true},
		"out of stock":                  {[]mishap{refusal(422, "out-of-stock")}, true, true},
		"key of another request":        {[]mishap{refusal(422, "idempotency-key-reuse")}, true, false},
		"as a conflict":                 {[]mishap{refusal(409, "idempotency-key-reuse")}, true, false},
		"the same after a lost answer":  {[]mishap{dropped, refusal(422, "idempotency-key-reuse")}, true, false},
		"expired key":                   {[]mishap{refusal(410, "idempotency-key-expired")}, true, false},
		"order stands otherwise":        {[]mishap{unavailable, refusal(409, "refund-instead")}, true, false},
		"not valid":                     {[]mishap{refusal(400, "invalid-request")}, true, false},
		"too large":                     {[]mishap{refusal(413, "body-too-large")}, true, false},
		"no such order":                 {[]mishap{refusal(404, "not-found")}, true, false},
		"API key revoked":               {[]mishap{refusal(401, "unauthorized")}, true, false},
		"of tomorrow":                   {[]mishap{refusal(418, "of-tomorrow")}, true, false},
		"revoked after a busy order":    {[]mishap{busy, limited, refusal(401, "unauthorized")}, true, false},
		"revoked after a lost answer":   {[]mishap{dropped, refusal(401, "unauthorized")}, false, false},
		"revoked while it runs":         {[]mishap{running, refusal(401, "unauthorized")}, false, false},
		"not valid after no answer":     {[]mishap{{}, refusal(400, "invalid-request")}, false, false},
		"not found after a 503":         {[]mishap{unavailable, busy, refusal(404, "not-found")}, false, false},
		"refused by something between":  {[]mishap{refusal(403, "")}, false, false},
		"a conflict of something else":  {[]mishap{refusal(409, "")}, false, false},
		"timed out between":             {[]mishap{refusal(408, "")}, false, false},
		"elsewhere, as something says":  {[]mishap{refusal(302, "")}, false, false},
		"lost, then something in there": {[]mishap{dropped, refusal(404, "")}, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop(test.mishaps...)
				c, closeAll := open(t, s, nil)
				defer closeAll()
				result, err := c.CreateOrder(t.Context(), NewKey(), order())
				problem, ok := errors.AsType[*ProblemError](err)
				_, unknown := errors.AsType[*UnknownOutcomeError](err)
				last := test.mishaps[len(test.mishaps)-1]
				if !ok || unknown == test.known || problem.Final() != test.final || problem.Status != last.Status ||
					problem.Type != ProblemType(last.Problem) || result.Order.ID != uuid.Nil {
					t.Errorf("%v, unknown: %t", err, unknown)
				}
				if len(s.requests) != len(test.mishaps) {
					t.Errorf("%d requests, want %d", len(s.requests), len(test.mishaps))
				}
			})
		})
	}
}

// scripted answers requests in turn, by whatever a test wants; the last one again and again.
type scripted []http.HandlerFunc

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	next := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	next(w, r)
}

func answering(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestAnswersThatAreNone: what is no order is not taken for one, and the next answer is.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	right := answering(http.StatusCreated, "application/json", `{"id":"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71","of_tomorrow":1}`)
	for name, wrong := range map[string]http.HandlerFunc{
		"a page":                answering(http.StatusOK, "text/html", "<h1>Welcome to the hotel's network</h1>"),
		"an empty object":       answering(http.StatusOK, "application/json", `{}`),
		"null":                  answering(http.StatusOK, "application/json", `null`),
		"another type":          answering(http.StatusCreated, "application/json", `{"id":7}`),
		"nothing":               answering(http.StatusNoContent, "application/json", ``),
		"two":                   answering(http.StatusCreated, "application/json", `{"id":"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a72"}{}`),
		"a problem that is cut": answering(http.StatusPaymentRequired, "application/problem+json", `{"type":"/problems/payment-dec`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, closeAll := open(t, &scripted{wrong, right}, nil)
				defer closeAll()
				result, err := c.CreateOrder(t.Context(), NewKey(), order())
				if err != nil || result.Order.ID.String() != "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71" {
					t.Errorf("%+v, %v", result, err)
				}
			})
		})
	}
}

// TestAnswerKeptWithoutItsBody: a server may keep the digest of an answer alone. The order is read then.
func TestAnswerKeptWithoutItsBody(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71")
	digest := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotency-Replayed", "true")
		w.Header().Set("Repr-Digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")
		w.WriteHeader(http.StatusOK)
	}
	right := answering(http.StatusOK, "application/json", `{"id":"`+id.String()+`"}`)
	synctest.Test(t, func(t *testing.T) {
		c, closeAll := open(t, &scripted{digest, answering(503, "text/html", ""), right}, nil)
		defer closeAll()
		result, err := c.CancelOrder(t.Context(), NewKey(), id)
		if err != nil || result.Order.ID != id || !result.Replayed || result.HTTPStatus != http.StatusOK {
			t.Errorf("%+v, %v", result, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, closeAll := open(t, &scripted{digest, answering(401, "application/problem+json", `{"type":"/problems/unauthorized"}`)}, nil)
		defer closeAll()
		_, err := c.UpdateMetadata(t.Context(), NewKey(), id, api.OrderPatch{})
		if unknown, ok := errors.AsType[*UnknownOutcomeError](err); !ok || unknown.Attempts != 1 || !errors.Is(err, &ProblemError{Type: Unauthorized}) {
			t.Errorf("%v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // no order is kept so
		c, closeAll := open(t, &scripted{digest, right}, nil)
		defer closeAll()
		if result, err := c.CreateOrder(t.Context(), NewKey(), order()); err != nil || result.Replayed {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestKeyStatus names the key in the address, and in no error.
func TestKeyStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, path, query := NewKey(), "", ""
		answers := scripted{
			answering(200, "application/json", `{"endpoint":"POST /v1/orders","status":"COMPLETED","response_status":201}`),
			answering(404, "application/problem+json", `{"type":"/problems/not-found","detail":"No `+key.String()+`."}`),
			func(w http.ResponseWriter, r *http.Request) { cut(w, []byte(r.Method+" "+r.URL.Path)) },
		}
		c, closeAll := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, query = r.URL.Path, r.URL.RawQuery
			answers.ServeHTTP(w, r)
		}), func(c *Config) { c.MaxAttempts = 2 })
		defer closeAll()
		record, err := c.KeyStatus(t.Context(), key, api.EndpointCreateOrder)
		if err != nil || record.Status != api.KeyStatusCOMPLETED || record.ResponseStatus != http.StatusCreated {
			t.Errorf("%+v, %v", record, err)
		}
		if path != "/v1/idempotency-keys/"+key.String() || query != "endpoint=POST+%2Fv1%2Forders" {
			t.Errorf("%s?%s", path, query)
		}
		_, notFound := c.KeyStatus(t.Context(), key, api.EndpointCreateOrder)
		_, garbage := c.KeyStatus(t.Context(), key, api.EndpointCreateOrder)
		for _, err := range []error{notFound, garbage} {
			if err == nil || strings.Contains(err.Error(), key.String()) {
				t.Errorf("%v", err)
			}
		}
		if _, err := c.KeyStatus(t.Context(), Key{}, api.EndpointCreateOrder); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("%v", err)
		}
	})
}

func TestPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, closeAll := open(t, &scripted{answering(http.StatusAccepted, "application/json", `{"id":"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"}`)}, nil)
		defer closeAll()
		result, err := c.CreateOrder(t.Context(), NewKey(), order())
		if err != nil || result.HTTPStatus != http.StatusAccepted || !result.Pending() || result.Replayed {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestProblem reads all of a problem, and only problems of paysaga by their type.
func TestProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, closeAll := open(t, &scripted{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.Header().Set("Idempotency-Replayed", "true")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"type":"https://pay.example.com/problems/amount-too-large","title":"Too large","status":422,"detail":"`+
				strings.Repeat("ä", maxDetail)+`","instance":"/v1/orders/7","errors":[{"pointer":"/amount","detail":"Less."}]}`)
		}, answering(http.StatusUnprocessableEntity, "application/problem+json", `{"type":"https://gateway.example.com/errors/payment-declined"}`)}, nil)
		defer closeAll()
		_, err := c.Refund(t.Context(), NewKey(), uuid.New(), api.RefundRequest{Amount: 7})
		problem, _ := errors.AsType[*ProblemError](err)
		want := &ProblemError{
			Operation: "refund order", Type: AmountTooLarge, Status: 422, Title: "Too large", Detail: strings.Repeat("ä", maxDetail/2) + "…",
			Instance: "/v1/orders/7", Fields: []api.FieldError{{Pointer: "/amount", Detail: "Less."}}, Replayed: true,
		}
		if difference := cmp.Diff(want, problem); difference != "" {
			t.Error(difference)
		}
		if !errors.Is(err, &ProblemError{Type: AmountTooLarge}) || errors.Is(err, &ProblemError{Type: OutOfStock}) || errors.Is(err, &ProblemError{}) {
			t.Error("errors.Is does not compare types")
		}
		_, err = c.Refund(t.Context(), NewKey(), uuid.New(), api.RefundRequest{Amount: 7})
		if unknown, ok := errors.AsType[*UnknownOutcomeError](err); !ok || errors.Is(err, &ProblemError{Type: PaymentDeclined}) || unknown.GaveUp != nil {
			t.Errorf("a gateway's problem is told as paysaga's: %v", err)
		}
	})
}

// TestRedirects are not followed: a POST would go on as a GET, or the API key to another host.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			c, closeAll := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Location", "http://127.0.0.1/elsewhere")
				w.WriteHeader(status)
			}), nil)
			defer closeAll()
			_, err := c.CreateOrder(t.Context(), NewKey(), order())
			unknown, ok := errors.AsType[*UnknownOutcomeError](err)
			if problem, isProblem := errors.AsType[*ProblemError](err); !ok || unknown.Attempts != 1 || !isProblem || problem.Status != status {
				t.Errorf("%d: %v", status, err)
			}
			_, err = c.GetOrder(t.Context(), uuid.New())
			if problem, ok := errors.AsType[*ProblemError](err); !ok || problem.Status != status || requests != 2 {
				t.Errorf("%d: %v, %d requests", status, err, requests)
			}
		})
	}
}

// TestLongAnswer: an answer over its limit would come again with every repeat.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	for over, want := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			id := `{"id":"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"}`
			c, closeAll := open(t, &scripted{answering(http.StatusCreated, "application/json", id+strings.Repeat(" ", maxAnswer-len(id)+over))}, nil)
			defer closeAll()
			_, err := c.CreateOrder(t.Context(), NewKey(), order())
			unknown, ok := errors.AsType[*UnknownOutcomeError](err)
			if ok != want || ok && (unknown.Attempts != 1 || !errors.Is(err, errTooLarge)) || !ok && err != nil {
				t.Errorf("%d over: %v", over, err)
			}
		})
	}
}

// TestUntrustedCertificate is not repeated, as it stays untrusted.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it complains of what is meant here
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := New(Config{BaseURL: server.URL, APIKey: testAPIKey, MaxAttempts: 2, BaseBackoff: 1, MaxBackoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CreateOrder(t.Context(), NewKey(), order())
	unknown, ok := errors.AsType[*UnknownOutcomeError](err)
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !ok || unknown.Attempts != 1 || !untrusted {
		t.Error(err)
	}
}

// TestNoKeyInErrors: neither the idempotency key nor the API key is in any error, whatever the other side sends back.
func TestNoKeyInErrors(t *testing.T) {
	t.Parallel()
	echo := func(status int, contentType string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			text := r.Header.Get("Idempotency-Key") + " " + r.Header.Get("Authorization")
			_, _ = fmt.Fprintf(w, `{"type":"/problems/invalid-request","title":%q,"detail":%q,"errors":[{"detail":%q}],"instance":%q}`, text, text, text, text)
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"problem": echo(400, "application/problem+json"), "other": echo(403, "text/plain"), "unavailable": echo(503, "application/problem+json"),
		"no order": echo(201, "application/json"),
		"no HTTP": func(w http.ResponseWriter, r *http.Request) {
			cut(w, []byte(r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization")+"\r\n"))
		},
		"no header": func(w http.ResponseWriter, r *http.Request) {
			cut(w, []byte("HTTP/1.1 200 OK\r\n"+r.Header.Get("Idempotency-Key")+" "+testAPIKey+"\r\n\r\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var told []string
				c, closeAll := open(t, handler, func(c *Config) {
					c.MaxAttempts = 2
					c.Observe = func(_ context.Context, a Attempt) { told = append(told, fmt.Sprintf("%+v", a)) }
				})
				defer closeAll()
				key := NewKey()
				_, err := c.CreateOrder(t.Context(), key, order())
				if err == nil {
					t.Fatal("no error")
				}
				told = append(told, err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c))
				if problem, ok := errors.AsType[*ProblemError](err); ok {
					told = append(told, fmt.Sprintf("%+v", *problem))
				}
				for _, text := range told {
					if strings.Contains(text, key.String()) || strings.Contains(text, testAPIKey) {
						t.Errorf("shows a key: %s", text)
					}
				}
			})
		})
	}
}

// TestObserve tells each attempt as it was.
func TestObserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []Attempt
		s := newShop(mishap{Works: true, Hangs: true}, mishap{Status: 503, Problem: "unavailable", RetryAfter: "3"})
		c, closeAll := open(t, s, func(c *Config) { c.Observe = func(_ context.Context, a Attempt) { told = append(told, a) } })
		defer closeAll()
		c.jitter = func(ceiling time.Duration) time.Duration { return ceiling }
		if _, err := c.CreateOrder(t.Context(), NewKey(), order()); err != nil {
			t.Fatal(err)
		}
		for i := range told {
			if failed := i < 2; (told[i].Err != nil) != failed {
				t.Errorf("attempt %d: %v", i+1, told[i].Err)
			}
			told[i].Err = nil
		}
		want := []Attempt{
			{Operation: "create order", Number: 1, Took: defaultAttemptTimeout, Again: true, Pause: 200 * time.Millisecond},
			{Operation: "create order", Number: 2, Status: 503, Again: true, Pause: 3*time.Second + 400*time.Millisecond},
			{Operation: "create order", Number: 3, Status: 201, Replayed: true},
		}
		if difference := cmp.Diff(want, told); difference != "" {
			t.Error(difference)
		}
	})
}
