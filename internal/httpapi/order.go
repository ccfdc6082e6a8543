package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// createOrderEndpoint is the scope of an order's key, and a part of every identifier derived from it: it never changes.
const createOrderEndpoint = "POST /v1/orders"

// CreateOrder takes an order on, or finds what became of it.
func (s *server) CreateOrder(w http.ResponseWriter, r *http.Request, _ api.CreateOrderParams) {
	key, err := idempotency.ParseKey(r.Header.Values("Idempotency-Key"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var request api.OrderRequest
	if err := s.decode(w, r, "OrderRequest", &request); err != nil {
		s.fail(w, r, err)
		return
	}
	claim := saga.Claim{
		AccountID: accountOf(r.Context()), Endpoint: createOrderEndpoint, Key: key,
		Fingerprint: orderFingerprint(request), Retention: s.Retention,
	}
	answer, replayed, err := s.answerOrder(r.Context(), claim, request)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	s.send(w, r, answer.Status, answer.Headers["Content-Type"], answer.Body)
}

// maxLookups bounds how often a request that lost a race looks again at who won it. Each loss means that somebody else
// made progress, so a second look nearly always has the answer.
const maxLookups = 4

// answerOrder finds the one answer for a key: the stored one, or that of a saga which it begins or takes over.
func (s *server) answerOrder(ctx context.Context, claim saga.Claim, request api.OrderRequest) (saga.Answer, bool, error) {
	for range maxLookups {
		record, used, err := s.Store.LookupKey(ctx, claim.AccountID, claim.Endpoint, claim.Key)
		if err != nil {
			return saga.Answer{}, false, fmt.Errorf("look key up: %w", err)
		}
		answer, replayed, err := s.decideOrder(ctx, record, used, claim, request)
		if errors.Is(err, saga.ErrKeyTaken) || errors.Is(err, saga.ErrLeaseLost) || errors.Is(err, saga.ErrAnswered) {
			continue
		}
		return answer, replayed, err
	}
	return saga.Answer{}, false, waitProblem(0)
}

func (s *server) decideOrder(
	ctx context.Context, record idempotency.Record, used bool, claim saga.Claim, request api.OrderRequest,
) (answer saga.Answer, replayed bool, err error) {
	claim.Generation = 1
	if used {
		switch idempotency.Decide(record, claim.Fingerprint) {
		case idempotency.Replay:
			return record.Answer, true, nil
		case idempotency.Wait:
			return saga.Answer{}, false, waitProblem(record.LeaseLeft)
		case idempotency.Mismatch:
			return saga.Answer{}, false, newProblem(keyReused, "This key was used for another request. Use a new key for a new order.")
		case idempotency.TakeOver:
			answer, err = s.Runner.TakeOver(ctx, saga.Ref{AccountID: claim.AccountID, Key: record.SagaKey}, record.Fence)
			return answer, false, err
		case idempotency.Renew:
			claim.Generation = record.Generation + 1
		}
	}
	if err := checkOrder(request); err != nil {
		return saga.Answer{}, false, err
	}
	answer, err = s.Runner.Start(ctx, claim, toOrder(request))
	var unknown *saga.UnknownSKUError
	switch {
	case errors.Is(err, saga.ErrUnknownProvider):
		detail := fmt.Sprintf("The provider %q is not set up on this server.", request.Payment.Provider)
		err = &problem{kind: providerUnknown, detail: detail, errors: []api.FieldError{{Pointer: "/payment/provider", Detail: detail}}}
	case errors.As(err, &unknown):
		err = unknownSKUProblem(unknown, request.Items)
	}
	return answer, false, err
}

// unknownSKUProblem names the lines whose SKU has no stock record.
func unknownSKUProblem(unknown *saga.UnknownSKUError, items []api.Item) *problem {
	p := newProblem(unknownSKU, "There is no stock record of %s.", strings.Join(unknown.SKUs, ", "))
	for i, item := range items {
		if slices.Contains(unknown.SKUs, item.SKU) {
			p.errors = append(p.errors, api.FieldError{Pointer: fmt.Sprintf("/items/%d/sku", i), Detail: "The SKU has no stock record."})
		}
	}
	return p
}

// waitProblem asks to come back when the lease ends at the latest; the answer is usually there much sooner, so never to
// wait longer than a few seconds.
func waitProblem(leaseLeft time.Duration) *problem {
	const longest = 5 * time.Second
	return &problem{
		kind: inProgress, detail: "An earlier request with this key is being worked on.",
		retryAfter: min(max(leaseLeft, time.Second), longest),
	}
}

// checkOrder checks what the contract's schema cannot say, before anything is written.
func checkOrder(o api.OrderRequest) error {
	var places []api.FieldError
	bad := func(pointer, format string, args ...any) {
		places = append(places, api.FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
	if _, ok := providers.CurrencyExponent(o.Currency); !ok {
		bad("/currency", "%q is no ISO 4217 currency that people pay in.", o.Currency)
	}
	seen := map[string]bool{}
	var sum int64
	for i, item := range o.Items {
		if seen[item.SKU] {
			bad(fmt.Sprintf("/items/%d/sku", i), "The SKU comes twice; put its pieces on one line.")
		}
		seen[item.SKU] = true
		if item.UnitAmount > 0 && item.Quantity > (math.MaxInt64-sum)/item.UnitAmount {
			bad(fmt.Sprintf("/items/%d", i), "The line's amount is too large.")
			break
		}
		sum += item.Quantity * item.UnitAmount
	}
	if len(places) == 0 && sum != o.Amount {
		bad("/amount", "The amount is %d, the lines add up to %d.", o.Amount, sum)
	}
	if looksLikeCard(o.Payment.Method) {
		bad("/payment/method", "This looks like a card number, which must never be sent here. Send the provider's token for it.")
	}
	places = append(places, checkTexts(o)...)
	if len(places) > 0 {
		return &problem{kind: invalidRequest, detail: summary(places), errors: places}
	}
	return nil
}

// longestNoteName is the contract's limit for a name in the metadata; OpenAPI 3.0 has no words for it.
const longestNoteName = 40

// checkTexts checks those texts of which the schema only knows the length.
func checkTexts(o api.OrderRequest) []api.FieldError {
	var places []api.FieldError
	if o.Customer != nil && o.Customer.Email != "" {
		if parsed, err := mail.ParseAddress(o.Customer.Email); err != nil || parsed.Address != o.Customer.Email {
			places = append(places, api.FieldError{Pointer: "/customer/email", Detail: "This is no e-mail address."})
		}
	}
	if o.Payment.ReturnURL != "" {
		if parsed, err := url.Parse(o.Payment.ReturnURL); err != nil || parsed.Hostname() == "" {
			places = append(places, api.FieldError{Pointer: "/payment/return_url", Detail: "This is no URL."})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Metadata)) {
		if utf8.RuneCountInString(name) > longestNoteName {
			pointer := jsontext.Pointer("/metadata").AppendToken(name)
			detail := fmt.Sprintf("The name has more than %d characters.", longestNoteName)
			places = append(places, api.FieldError{Pointer: string(pointer), Detail: detail})
		}
	}
	return places
}

// looksLikeCard recognizes 12 to 19 digits, spaces and hyphens aside: the lengths of card numbers (ISO/IEC 7812).
func looksLikeCard(method string) bool {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(method)
	if len(digits) < 12 || len(digits) > 19 {
		return false
	}
	return !strings.ContainsFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
}

// orderFingerprint is over what an order means: the money, the goods in any order, how it is paid, who buys. Metadata, the
// customer's e-mail address and the return URL may change between repeats.
func orderFingerprint(o api.OrderRequest) idempotency.Fingerprint {
	intent := idempotency.NewIntent("create order 1").String("currency", o.Currency).Int("amount", o.Amount)
	items := slices.Clone(o.Items)
	slices.SortFunc(items, func(a, b api.Item) int { return strings.Compare(a.SKU, b.SKU) })
	for _, item := range items {
		intent.String("sku", item.SKU).Int("quantity", item.Quantity).Int("unit_amount", item.UnitAmount)
	}
	customer := ""
	if o.Customer != nil {
		customer = o.Customer.Reference
	}
	return intent.String("provider", o.Payment.Provider).String("method", o.Payment.Method).
		String("capture", string(captureMode(o.Payment))).String("customer", customer).Fingerprint()
}

func captureMode(p api.PaymentRequest) api.CaptureMode {
	if p.Capture == "" {
		return api.CaptureModeAutomatic
	}
	return p.Capture
}

func toOrder(o api.OrderRequest) saga.Order {
	order := saga.Order{
		Currency: o.Currency, Amount: o.Amount, Metadata: o.Metadata,
		Payment: saga.Payment{Provider: o.Payment.Provider, Method: o.Payment.Method, ReturnURL: o.Payment.ReturnURL},
	}
	for _, item := range o.Items {
		order.Items = append(order.Items, saga.Item{SKU: item.SKU, Quantity: item.Quantity, UnitAmount: item.UnitAmount})
	}
	if o.Customer != nil {
		order.Customer = saga.Customer{Reference: o.Customer.Reference, Email: o.Customer.Email}
	}
	return order
}

// GetOrder shows one order.
func (s *server) GetOrder(w http.ResponseWriter, r *http.Request, id api.OrderID) {
	found, err := s.Store.GetOrder(r.Context(), accountOf(r.Context()), id)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showOrder(found))
}

// GetOrderSaga shows an order's timeline.
func (s *server) GetOrderSaga(w http.ResponseWriter, r *http.Request, id api.OrderID) {
	timeline, err := s.Store.Timeline(r.Context(), accountOf(r.Context()), id)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showTimeline(timeline))
}

// defaultLimit is the contract's default of how much a page of a list holds.
const defaultLimit = 20

// ListOrders shows an account's orders, newest first.
func (s *server) ListOrders(w http.ResponseWriter, r *http.Request, params api.ListOrdersParams) {
	filter := saga.OrderFilter{Limit: limitOf(params.Limit) + 1} // one more tells whether there is a next page
	if params.Status != nil {
		filter.Status = saga.OrderStatus(*params.Status)
	}
	if params.Provider != nil {
		filter.Provider = *params.Provider
	}
	if params.Cursor != nil {
		place, err := readOrderCursor(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.Before = &place
	}
	found, err := s.Store.ListOrders(r.Context(), accountOf(r.Context()), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	list := api.OrderList{Data: []api.Order{}}
	for i, one := range found {
		if i == filter.Limit-1 {
			last := found[i-1].Order
			list.NextCursor = new(writeOrderCursor(saga.OrderPlace{CreatedAt: last.CreatedAt, ID: last.ID}))
			break
		}
		list.Data = append(list.Data, showOrder(one))
	}
	s.sendJSON(w, r, list)
}

func limitOf(limit *api.Limit) int {
	if limit == nil {
		return defaultLimit
	}
	return *limit
}

var errBadCursor = &problem{kind: invalidRequest, detail: "The cursor is none that this server gave.", errors: []api.FieldError{{
	Parameter: "cursor", Detail: "Send next_cursor of the page before, unchanged.",
}}}

// A cursor is opaque to clients: the place of the last order of the page before.
func writeOrderCursor(p saga.OrderPlace) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.CreatedAt.UnixMicro(), 10) + " " + p.ID.String()))
}

// lastMicrosecond is the end of the year 9999, in microseconds since 1970: a later time is none that this server gave.
const lastMicrosecond = 253_402_300_799_999_999

func readOrderCursor(cursor string) (saga.OrderPlace, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return saga.OrderPlace{}, fmt.Errorf("decode cursor: %w", err)
	}
	micros, id, _ := strings.Cut(string(text), " ")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || at < 0 || at > lastMicrosecond {
		return saga.OrderPlace{}, fmt.Errorf("read cursor's time: %w", errors.Join(err, errBadCursor))
	}
	orderID, err := uuid.Parse(id)
	if err != nil {
		return saga.OrderPlace{}, fmt.Errorf("read cursor's id: %w", err)
	}
	return saga.OrderPlace{CreatedAt: time.UnixMicro(at), ID: orderID}, nil
}
