package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
)

// Limits of the shop's patience with one order.
const (
	// maxSends and orderTimeout are far more than any order of the demo needs.
	maxSends     = 100
	orderTimeout = 30 * time.Second
	// sendTimeout is longer than the server may take: three calls to a provider that does not answer.
	sendTimeout = 15 * time.Second
	// firstPause and longestPause are for errors that come without Retry-After.
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
	// maxAnswer is far above any answer of the API.
	maxAnswer = 1 << 20
)

// shop is a client that does what the contract says: it repeats with the same key and the same body until it has an answer.
type shop struct {
	http   *http.Client
	secret string
	server atomic.Pointer[string]

	mu           sync.Mutex
	answers      map[string]reply // of orders, by key
	asked        map[string]reply // of requests about orders, by path and key
	contradicted []string         // keys that gave two different answers
	numbers      shopNumbers
}

// shopNumbers are a shop's requests so far.
type shopNumbers struct {
	sent   int // POSTs with a key
	lost   int // that ended without an answer, or with one that says nothing (5xx)
	waited int // that were told to wait, with 409
}

func newShop(secret string) *shop {
	transport := &http.Transport{MaxIdleConnsPerHost: maxDemoConcurrency} // no proxy: the server is on this machine
	return &shop{
		http: &http.Client{Transport: transport, Timeout: sendTimeout}, secret: secret,
		answers: map[string]reply{}, asked: map[string]reply{},
	}
}

func (s *shop) setServer(url string) { s.server.Store(&url) }

func (s *shop) numbersNow() shopNumbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbers
}

// told is what the shop was told in all: the answer of each order's key, the refunds that were begun, and keys that contradict
// themselves.
func (s *shop) told() (answers map[string]reply, refunds []api.Refund, contradicted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, answer := range s.asked {
		if refund := answer.refund(); refund.OrderID != uuid.Nil {
			refunds = append(refunds, refund)
		}
	}
	return maps.Clone(s.answers), refunds, slices.Clone(s.contradicted)
}

// get reads from the API.
func (s *shop) get(ctx context.Context, path string, into any) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, *s.server.Load()+path, nil)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+s.secret)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	const longest = 16 << 20 // a page of a hundred orders of a hundred lines is far below
	body := json.NewDecoder(io.LimitReader(answer.Body, longest))
	if answer.StatusCode != http.StatusOK {
		var p api.Problem
		if err := body.Decode(&p); err != nil || p.Detail == "" {
			return fmt.Errorf("the API answered %s", answer.Status)
		}
		return fmt.Errorf("the API answered %d: %s", answer.StatusCode, p.Detail)
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("read the API's answer: %w", err)
	}
	return nil
}

// reply is an answer to a POST.
type reply struct {
	status     int
	body       []byte
	replayed   bool
	retryAfter time.Duration
}

func (r reply) same(other reply) bool {
	return r.status == other.status && bytes.Equal(r.body, other.body)
}

// orderID is the order that the answer is about: itself, or the one that a problem left behind.
func (r reply) orderID() uuid.UUID {
	if r.status >= http.StatusBadRequest {
		text, _, _ := strings.Cut(strings.TrimPrefix(r.problem().Instance, ordersPath+"/"), "/")
		id, err := uuid.Parse(text)
		if err != nil {
			return uuid.Nil
		}
		return id
	}
	return r.order().ID
}

// order is the zero Order when the answer is none.
func (r reply) order() api.Order {
	var order api.Order
	if r.status >= http.StatusBadRequest || json.Unmarshal(r.body, &order) != nil {
		return api.Order{}
	}
	return order
}

// problem is the zero Problem when the answer is none.
func (r reply) problem() api.Problem {
	var p api.Problem
	if r.status < http.StatusBadRequest || json.Unmarshal(r.body, &p) != nil {
		return api.Problem{}
	}
	return p
}

// refund is the zero Refund when the answer is none.
func (r reply) refund() api.Refund {
	var refund api.Refund
	if r.status >= http.StatusBadRequest || json.Unmarshal(r.body, &refund) != nil {
		return api.Refund{}
	}
	return refund
}

// passes: another request with the key, or about the order, is being worked on.
func (r reply) passes() bool {
	return r.status == http.StatusConflict && (r.word() == "request-in-progress" || r.word() == "order-busy")
}

// word is what the answer says in a word: the status of the order or the refund, or the last part of the problem's type.
func (r reply) word() string {
	if r.status >= http.StatusBadRequest {
		return path.Base(r.problem().Type)
	}
	return string(r.order().Status)
}

// detail is what the answer says besides, for a scene that did not expect it.
func (r reply) detail() string {
	if r.status >= http.StatusBadRequest {
		return r.problem().Detail
	}
	order := r.order()
	return fmt.Sprintf("payment %s, saga %s", order.Payment.Status, order.Saga.State)
}

// String is how the scenes tell of an answer.
func (r reply) String() string {
	if r.status == 0 {
		return "no answer"
	}
	return strconv.Itoa(r.status) + " " + r.word()
}

// ordersPath is where orders are placed, and below which each of them is.
const ordersPath = "/v1/orders"

// send sends an order once.
func (s *shop) send(ctx context.Context, key string, order api.OrderRequest) (reply, error) {
	return s.post(ctx, ordersPath, key, order)
}

// post sends a request under a key once.
func (s *shop) post(ctx context.Context, path, key string, body any) (reply, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return reply{}, fmt.Errorf("encode request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, *s.server.Load()+path, bytes.NewReader(content))
	if err != nil {
		return reply{}, fmt.Errorf("send request: %w", err)
	}
	request.GetBody = nil // net/http would repeat by itself what this demo wants to see and count
	request.Header.Set("Idempotency-Key", key)
	answer, err := s.do(request)
	if err != nil {
		return reply{}, fmt.Errorf("send request: %w", err)
	}
	return answer, nil
}

// do makes one request and reads its answer whole.
func (s *shop) do(request *http.Request) (reply, error) {
	request.Header.Set("Authorization", "Bearer "+s.secret)
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.http.Do(request)
	if err != nil {
		return reply{}, err //nolint:wrapcheck // callers say what they asked
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return reply{}, fmt.Errorf("read answer: %w", err)
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // absent or not a number: none
	return reply{
		status: answer.StatusCode, body: content,
		replayed: answer.Header.Get("Idempotency-Replayed") == "true", retryAfter: time.Duration(seconds) * time.Second,
	}, nil
}

// place sends an order until it has an answer.
func (s *shop) place(ctx context.Context, key string, order api.OrderRequest) (reply, error) {
	return s.insist(ctx, ordersPath, key, order)
}

// ask sends a request about an order until it has an answer: continue, capture, cancel, refunds.
func (s *shop) ask(ctx context.Context, id uuid.UUID, what, key string, body any) (reply, error) {
	answer, err := s.insist(ctx, ordersPath+"/"+id.String()+"/"+what, key, body)
	if err != nil {
		return answer, fmt.Errorf("%s of order %s: %w", what, id, err)
	}
	return answer, nil
}

func (s *shop) insist(ctx context.Context, path, key string, body any) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	for sends := 1; ; sends++ {
		answer, err := s.post(ctx, path, key, body)
		s.count(answer, err)
		pause, again := repeatAfter(answer, err, sends)
		if !again {
			s.keep(path, key, answer)
			return answer, nil
		}
		if sends == maxSends || wait(ctx, pause) != nil {
			return answer, errors.Join(fmt.Errorf("no final answer after %d sends, the last was %s", sends, answer), err)
		}
	}
}

// repeatAfter says whether the contract asks for a repeat, and after which pause: after no answer at all, 429, any 5xx, and the
// conflicts that pass.
func repeatAfter(answer reply, err error, sends int) (pause time.Duration, again bool) {
	unanswered := err != nil || answer.status >= http.StatusInternalServerError
	if !unanswered && !answer.passes() && answer.status != http.StatusTooManyRequests {
		return 0, false
	}
	if answer.retryAfter > 0 {
		return min(answer.retryAfter, longestPause), true
	}
	pause = firstPause
	for range min(sends-1, 10) { // doubled ten times it is over the longest
		pause *= 2
	}
	return min(pause, longestPause), true
}

func (s *shop) count(answer reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers.sent++
	if err != nil || answer.status >= http.StatusInternalServerError {
		s.numbers.lost++
	}
	if answer.passes() {
		s.numbers.waited++
	}
}

// keep notes the one answer of a key, and any other that should not be. A conflict is no answer of the key: what the order's state
// forbids now it may allow later.
func (s *shop) keep(path, key string, answer reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.answers
	if path != ordersPath {
		answers, key = s.asked, path+" "+key
	}
	kept, known := answers[key]
	switch {
	case answer.status == http.StatusConflict:
	case !known:
		answers[key] = answer
	case !kept.same(answer):
		s.contradicted = append(s.contradicted, fmt.Sprintf("key %s gave %s, then %s", key, kept, answer))
	}
}

// maxPages bounds a list: all orders of the largest demo, twice over.
const maxPages = 2 * maxDemoOrders / pageSize

// pageSize is the most that the API gives at once.
const pageSize = 100

// orders lists the account's orders, of one status or of all.
func (s *shop) orders(ctx context.Context, status api.OrderStatus) ([]api.Order, error) {
	var all []api.Order
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if status != "" {
		query.Set("status", string(status))
	}
	for range maxPages {
		var page api.OrderList
		if err := s.get(ctx, ordersPath+"?"+query.Encode(), &page); err != nil {
			return nil, fmt.Errorf("list orders: %w", err)
		}
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
	return nil, fmt.Errorf("list orders: more than %d pages", maxPages)
}

// refunds lists an order's refunds.
func (s *shop) refunds(ctx context.Context, id uuid.UUID) ([]api.Refund, error) {
	var list api.RefundList // an order of the demo has fewer than a page
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if err := s.get(ctx, ordersPath+"/"+id.String()+"/refunds?"+query.Encode(), &list); err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	return list.Data, nil
}

// stock lists the account's stock.
func (s *shop) stock(ctx context.Context) ([]api.Stock, error) {
	var all []api.Stock
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for range maxPages {
		var page api.StockList
		if err := s.get(ctx, "/v1/stock?"+query.Encode(), &page); err != nil {
			return nil, fmt.Errorf("list stock: %w", err)
		}
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
	return nil, fmt.Errorf("list stock: more than %d pages", maxPages)
}

// putStock sets a SKU's count before anything of it is sold.
func (s *shop) putStock(ctx context.Context, sku string, onHand int64) error {
	body, err := json.Marshal(api.StockRequest{OnHand: onHand})
	if err != nil {
		return fmt.Errorf("encode stock: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, *s.server.Load()+"/v1/stock/"+sku, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("put stock: %w", err)
	}
	answer, err := s.do(request)
	if err != nil {
		return fmt.Errorf("put stock: %w", err)
	}
	if answer.status != http.StatusOK {
		return fmt.Errorf("put stock: the API answered %s", answer)
	}
	return nil
}
