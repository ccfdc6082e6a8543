package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Bounds of an answer, in bytes. An order is some kilobytes long, and 350 KiB with the longest action of a provider.
const (
	maxAnswer = 1 << 20
	maxPage   = 16 << 20 // a hundred orders
)

var (
	errTooLarge   = errors.New("the answer is over its limit")
	errUnreadable = errors.New("the answer cannot be read")
)

// request is one call as it is sent, each time the same.
type request struct {
	operation string // for people
	method    string
	address   *url.URL
	key       Key       // zero: the request changes nothing
	about     Key       // the key that the address names; zero: it names none
	order     uuid.UUID // that it is about, where an answer may be kept without its body; zero: it may not
	body      []byte    // nil: none
	limit     int64     // of the answer; 0: maxAnswer
	// read takes over what a 2xx answer says. It fails when that is not what was asked for.
	read func(answer) error
}

// answer is what came back whole.
type answer struct {
	status   int // 0: nothing did
	header   http.Header
	body     []byte
	attempts int // that it took
}

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// bodyless tells the replay of an answer of which the server keeps no more than the status and a digest.
func (a answer) bodyless() bool {
	return a.replayed() && len(a.body) == 0 && a.header.Get("Repr-Digest") != ""
}

// verdict is what one attempt came to.
type verdict struct {
	err   error         // nil: the call has its answer
	again bool          // another attempt may bring it
	open  bool          // the request may have been carried out all the same
	asked time.Duration // what the server asks to wait
}

// do sends a request until it has its answer, or no further attempt may follow.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, r.unanswered(0, verdict{}, err)
	}
	open := false // whether an earlier attempt may have been carried out
	for number := 1; ; number++ {
		begun := time.Now()
		got, err := c.send(ctx, r)
		v := c.judge(r, got, err)
		seen := Attempt{
			Operation: r.operation, Number: number, Status: got.status, Replayed: got.replayed(), Err: v.err, Took: time.Since(begun),
		}
		var gaveUp error
		if v.again {
			seen.Pause, gaveUp = c.pause(ctx, number, v.asked)
			seen.Again = gaveUp == nil
		}
		if c.config.Observe != nil {
			c.config.Observe(ctx, seen)
		}
		if v.err == nil {
			got.attempts = number
			return got, nil
		}
		if seen.Again {
			gaveUp = c.sleep(ctx, seen.Pause)
		}
		if !v.again || gaveUp != nil {
			return answer{}, r.failed(number, v, open, gaveUp)
		}
		open = open || v.open
	}
}

// failed is the error of a call whose last attempt came to v. Only an answer of the server itself is told as a refusal, and after an
// attempt that may have been carried out only one that speaks of the key.
func (r request) failed(attempts int, v verdict, open bool, gaveUp error) error {
	problem, refused := errors.AsType[*ProblemError](v.err)
	refused = refused && !v.again && (r.key.IsZero() || !v.open && (!open || problem.speaksOfKey()))
	if refused {
		return problem
	}
	return r.unanswered(attempts, v, gaveUp)
}

func (r request) unanswered(attempts int, v verdict, gaveUp error) error {
	if r.key.IsZero() {
		return &UnansweredError{Operation: r.operation, Attempts: attempts, Cause: v.err, GaveUp: gaveUp}
	}
	return &UnknownOutcomeError{Operation: r.operation, Attempts: attempts, RetryAfter: v.asked, Cause: v.err, GaveUp: gaveUp}
}

// judge tells what an attempt came to, by the contract's rules for repeats.
func (c *Client) judge(r request, got answer, err error) verdict {
	if err != nil {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err) // nobody mends a certificate within a call
		return verdict{err: err, again: !untrusted && !errors.Is(err, errTooLarge), open: true}
	}
	if got.status >= http.StatusOK && got.status < http.StatusMultipleChoices {
		if err := r.read(got); err != nil {
			return verdict{err: fmt.Errorf("HTTP status %d: %w", got.status, err), again: true, open: true}
		}
		return verdict{}
	}
	problem, err := c.readProblem(r, got)
	if err != nil {
		asked := retryAfter(got.header, time.Now())
		return verdict{err: fmt.Errorf("HTTP status %d: %w", got.status, err), again: true, open: true, asked: asked}
	}
	return verdict{err: problem, again: problem.passes(), open: problem.leavesOpen(), asked: problem.RetryAfter}
}

// send makes one attempt and reads its answer whole.
func (c *Client) send(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.AttemptTimeout)
	defer cancel()
	sent, err := c.newRequest(ctx, r)
	if err != nil {
		return answer{}, err
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return answer{}, c.presentable(r, err)
	}
	defer func() { _ = response.Body.Close() }() // what matters was read
	limit := cmp.Or(r.limit, maxAnswer)
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return answer{}, fmt.Errorf("read answer: %w", c.presentable(r, err))
	}
	if int64(len(body)) > limit {
		return answer{}, errTooLarge
	}
	return answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// newRequest makes it so that net/http sends it once. By itself net/http sends a request with an Idempotency-Key and a GetBody again
// when a kept-alive connection breaks. That would do no harm to the order, which has one key. But the first send may have been carried
// out, and what answers the second, such as a 401, would be told as if it spoke of both; and the repeat would come without a pause, and
// be neither counted nor observed. So there is no GetBody; every request that changes something has a body. A connection that went
// stale costs one short pause.
func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, r.address.String(), http.NoBody)
	if err != nil {
		return nil, c.presentable(r, err)
	}
	sent.GetBody = nil
	sent.Header.Set("Authorization", "Bearer "+c.apiKey())
	sent.Header.Set("User-Agent", c.config.UserAgent)
	sent.Header.Set("Accept", "application/json, application/problem+json")
	if !r.key.IsZero() {
		sent.Header.Set("Idempotency-Key", r.key.text)
	}
	if r.body != nil {
		sent.Header.Set("Content-Type", "application/json")
		sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	}
	return sent, nil
}

// presentable makes an error of net/http safe to be shown: it holds the address, and what else came over the wire.
func (c *Client) presentable(r request, err error) error {
	if called, ok := errors.AsType[*url.Error](err); ok {
		err = called.Err
	}
	text := err.Error()
	if concealed := c.conceal(r, text); concealed != text {
		return &concealedError{concealed, err}
	}
	return err
}

// conceal takes the keys out of a text.
func (c *Client) conceal(r request, text string) string {
	text = strings.ReplaceAll(text, c.apiKey(), "(API key)")
	for _, key := range []Key{r.key, r.about} {
		if !key.IsZero() {
			text = strings.ReplaceAll(text, key.text, "(key)")
		}
	}
	return text
}

type concealedError struct {
	text  string
	cause error
}

// Error is the cause's text without keys.
func (e *concealedError) Error() string { return e.text }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *concealedError) Unwrap() error { return e.cause }
