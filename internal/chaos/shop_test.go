//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/api/client"
)

const (
	// attemptTimeout is longer than a server takes unless something is broken, and shorter than it takes then: repeats come while the first
	// request is still at work.
	attemptTimeout = 3 * time.Second
	// maxAttempts is far more than the time of a journey allows.
	maxAttempts = 10_000
	maxAnswer   = 1 << 20 // far above any answer of the API
	// shopPage is where customers come back to. Nobody is there: what matters is in the address.
	shopPage = "https://shop.example/back"
)

// told is a whole answer that says what became of a request, as it came over the wire.
type told struct {
	status   int
	location string
	body     []byte
	problem  client.ProblemType // of a refusal
	replayed bool
}

func (t told) same(other told) bool {
	return t.status == other.status && t.location == other.location && bytes.Equal(t.body, other.body)
}

func (t told) String() string {
	switch {
	case t.status == 0:
		return "nothing"
	case t.problem != "":
		return fmt.Sprintf("%d %s", t.status, t.problem)
	}
	var thing struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(t.body, &thing) // what has no status is shown without
	return fmt.Sprintf("%d %s", t.status, thing.Status)
}

// kept tells whether it is the one answer of its key, and not merely how things stand at the moment.
func (t told) kept() bool {
	if t.status >= http.StatusOK && t.status < http.StatusMultipleChoices {
		return true
	}
	return (&client.ProblemError{Type: t.problem}).Final()
}

// intent is one thing that a shop wants, under one key: the request as it was sent each time, and all that came back.
type intent struct {
	method, path, key string
	body              []byte
	sends             int // requests that were sent
	lost              int // of these, those without an answer, or with one that says nothing
	answer            told
	contradiction     string // another answer under the same key
}

// journal is the shops' own record of what they asked for and were told. It knows nothing of paysaga's inside.
type journal struct {
	mutex   sync.Mutex
	intents map[string]*intent // by key
	order   []string           // of the keys, as they came up
}

// sent notes a request, and gives the intent that it is of.
func (j *journal) sent(r *http.Request, body []byte) *intent {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return nil
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	one, known := j.intents[key]
	if !known {
		one = &intent{method: r.Method, path: r.URL.Path, key: key, body: body}
		j.intents[key], j.order = one, append(j.order, key)
	}
	if one.method != r.Method || one.path != r.URL.Path || !bytes.Equal(one.body, body) {
		panic("a shop uses a key for two intents: " + key)
	}
	one.sends++
	return one
}

// came notes an answer, or that none came.
func (j *journal) came(one *intent, answer told) {
	if one == nil {
		return
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	switch {
	case answer.status == 0 || answer.status >= http.StatusInternalServerError:
		one.lost++
	case !answer.kept():
	case one.answer.status == 0:
		one.answer = answer
	case !one.answer.same(answer):
		one.contradiction = fmt.Sprintf("was answered %s, then %s", one.answer, answer)
		if one.answer.String() == answer.String() {
			one.contradiction = fmt.Sprintf("was answered %s %s, then %s", one.answer, one.answer.body, answer.body)
		}
	}
}

// all are the intents as they came up.
func (j *journal) all() []*intent {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	found := make([]*intent, len(j.order))
	for i, key := range j.order {
		found[i] = j.intents[key]
	}
	return found
}

// numbers are the requests so far.
func (j *journal) numbers() (intents, sends, lost int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, one := range j.intents {
		sends, lost = sends+one.sends, lost+one.lost
	}
	return len(j.intents), sends, lost
}

// street is the shops' way to the servers: each request goes to any of them, as a repeat does, and is noted in the journal.
type street struct {
	servers []*server
	http    *http.Transport
	journal *journal
}

func newStreet(servers []*server) *street {
	return &street{
		servers: servers, http: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		journal: &journal{intents: map[string]*intent{}},
	}
}

// RoundTrip sends a request to one of the servers.
func (s *street) RoundTrip(request *http.Request) (*http.Response, error) {
	return s.send(request, s.servers[rand.IntN(len(s.servers))])
}

func (s *street) send(request *http.Request, to *server) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	one := s.journal.sent(request, body)
	request = request.Clone(request.Context())
	request.URL.Host, request.Host = to.front.address(), ""
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := s.http.RoundTrip(request)
	if err != nil {
		s.journal.came(one, told{})
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		s.journal.came(one, told{})
		return nil, err
	}
	s.journal.came(one, readAnswer(response, content))
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response, nil
}

func readAnswer(response *http.Response, content []byte) told {
	answer := told{
		status: response.StatusCode, location: response.Header.Get("Location"), body: content,
		replayed: response.Header.Get("Idempotency-Replayed") == "true",
	}
	var problem api.Problem
	if answer.status >= http.StatusBadRequest && json.Unmarshal(content, &problem) == nil {
		answer.problem = client.ProblemType(path.Base(problem.Type))
	}
	return answer
}

// client gives a client of the API whose calls go down the street.
func (s *street) client(t testing.TB, apiKey string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		BaseURL: "http://127.0.0.1:1", APIKey: apiKey, HTTPClient: &http.Client{Transport: s}, BaseBackoff: 50 * time.Millisecond,
		MaxBackoff: time.Second, AttemptTimeout: attemptTimeout, MaxAttempts: maxAttempts,
	})
	must(t, err)
	return c
}

// again sends an intent's request once more to a server, past the client library.
func (s *street) again(ctx context.Context, one *intent, apiKey string, to *server) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return s.ask(ctx, one, apiKey, to)
}

// ask sends an intent's request to a server as long as the context allows.
func (s *street) ask(ctx context.Context, one *intent, apiKey string, to *server) (told, error) {
	request, err := http.NewRequestWithContext(ctx, one.method, "http://"+to.front.address()+one.path, bytes.NewReader(one.body))
	if err != nil {
		return told{}, err
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", one.key)
	response, err := s.send(request, to)
	if err != nil {
		return told{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return readAnswer(response, content), err
}

// askAgain repeats the request of every intent that has its answer, at a server each in turn: the answer must be the same, and say that
// it is a repeat's.
func (s *street) askAgain(ctx context.Context, apiKey string) (problems []string) {
	all := slices.DeleteFunc(s.journal.all(), func(one *intent) bool { return one.answer.status == 0 })
	const atOnce = 8
	var mutex sync.Mutex
	var group sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		group.Go(func() {
			for i := range next {
				one := all[i]
				answer, err := s.again(ctx, one, apiKey, s.servers[i%len(s.servers)])
				if err == nil && (!answer.same(one.answer) || !answer.replayed) {
					err = fmt.Errorf("was answered %s, and at the end %s, a repeat: %t", one.answer, answer, answer.replayed)
				}
				if err != nil {
					mutex.Lock()
					problems = append(problems, fmt.Sprintf("key %s: %v", one.key, err))
					mutex.Unlock()
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	group.Wait()
	return problems
}

// refusal is the problem that an error of the client is about; empty where it is about none.
func refusal(err error) client.ProblemType {
	if problem, ok := errors.AsType[*client.ProblemError](err); ok && problem.Status < http.StatusInternalServerError {
		return problem.Type
	}
	return ""
}

func encode(body any) []byte {
	content, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is the test's own
	}
	return content
}

// instanceOf is the order that a refusal left behind.
func instanceOf(answer told) uuid.UUID {
	var problem api.Problem
	if json.Unmarshal(answer.body, &problem) != nil {
		return uuid.Nil
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(problem.Instance, "/v1/orders/"), "/")
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}
