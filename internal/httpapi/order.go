package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// CreateOrder takes an order on, or finds what became of it.
func (s *server) CreateOrder(w http.ResponseWriter, r *http.Request, _ api.CreateOrderParams) {
	s.answerKeyed(w, r, createOrderEndpoint, func() (intent, error) {
		var request api.OrderRequest
		if err := s.decode(w, r, "OrderRequest", &request); err != nil {
			return intent{}, err
		}
		return intent{orderFingerprint(request), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.beginOrder(ctx, claim, request)
		}}, nil
	})
}

func (s *server) beginOrder(ctx context.Context, claim saga.Claim, request api.OrderRequest) (saga.Answer, error) {
	if err := checkOrder(request); err != nil {
		return saga.Answer{}, err
	}
	answer, err := s.Runner.Start(ctx, claim, toOrder(request))
	var unknown *saga.UnknownSKUError
	switch {
	case errors.Is(err, saga.ErrUnknownProvider):
		err = unknownProvider(request.Payment.Provider)
	case errors.As(err, &unknown):
		err = unknownSKUProblem(unknown, request.Items)
	}
	return answer, err
}

func unknownProvider(name string) *problem {
	detail := fmt.Sprintf("The provider %q is not set up on this server.", name)
	return &problem{kind: providerUnknown, detail: detail, errors: []api.FieldError{{Pointer: "/payment/provider", Detail: detail}}}
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

// orderFingerprint is over what an order means: the money, the goods in any order, how it is paid, who buys. Metadata, the
// customer's e-mail address and the return URL may change between repeats. What came to the list later counts only where it is
// used, so that the keys of before keep their fingerprints.
func orderFingerprint(o api.OrderRequest) idempotency.Fingerprint {
	meant := idempotency.NewIntent("create order 1").String("currency", o.Currency).Int("amount", o.Amount)
	items := slices.Clone(o.Items)
	slices.SortFunc(items, func(a, b api.Item) int { return strings.Compare(a.SKU, b.SKU) })
	for _, item := range items {
		meant.String("sku", item.SKU).Int("quantity", item.Quantity).Int("unit_amount", item.UnitAmount)
	}
	customer := ""
	if o.Customer != nil {
		customer = o.Customer.Reference
	}
	meant.String("provider", o.Payment.Provider).String("method", o.Payment.Method).
		String("capture", string(captureMode(o.Payment))).String("customer", customer)
	if decline := onDecline(o.Payment); decline != api.OnDeclineRollBack {
		meant.String("on_decline", string(decline))
	}
	if len(o.Payment.MethodData) > 0 {
		meant.String("method_data", string(o.Payment.MethodData))
	}
	return meant.Fingerprint()
}

func captureMode(p api.PaymentRequest) api.CaptureMode {
	return cmp.Or(p.Capture, api.CaptureModeAutomatic)
}

func onDecline(p api.PaymentRequest) api.OnDecline { return cmp.Or(p.OnDecline, api.OnDeclineRollBack) }

func toOrder(o api.OrderRequest) saga.Order {
	order := saga.Order{
		Currency: o.Currency, Amount: o.Amount, Metadata: o.Metadata,
		Payment: saga.Payment{
			Provider: o.Payment.Provider, Method: o.Payment.Method, MethodData: o.Payment.MethodData, ReturnURL: o.Payment.ReturnURL,
			Capture: saga.CaptureMode(captureMode(o.Payment)), OnDecline: saga.OnDecline(onDecline(o.Payment)),
		},
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
		at, id, err := readPlace(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.Before = &saga.OrderPlace{CreatedAt: at, ID: id}
	}
	found, err := s.Store.ListOrders(r.Context(), accountOf(r.Context()), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var list api.OrderList
	list.Data, list.NextCursor = onePage(found, filter.Limit-1, showOrder,
		func(last saga.Saga) string { return writePlace(last.Order.CreatedAt, last.Order.ID) })
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

// A cursor is opaque to clients: the place of the last entry of the page before, by its time and its id.
func writePlace(at time.Time, id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + " " + id.String()))
}

// lastMicrosecond is the end of the year 9999, in microseconds since 1970: a later time is none that this server gave.
const lastMicrosecond = 253_402_300_799_999_999

// readPlace takes only what writePlace writes, in this one spelling.
func readPlace(cursor string) (at time.Time, id uuid.UUID, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return time.Time{}, uuid.Nil, fmt.Errorf("decode cursor: %w", err)
	}
	micros, name, _ := strings.Cut(string(text), " ")
	since, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || since < 0 || since > lastMicrosecond {
		return time.Time{}, uuid.Nil, fmt.Errorf("read cursor's time: %w", errors.Join(err, errBadCursor))
	}
	id, err = uuid.Parse(name)
	if err != nil {
		return time.Time{}, uuid.Nil, fmt.Errorf("read cursor's id: %w", err)
	}
	at = time.UnixMicro(since)
	if writePlace(at, id) != cursor {
		return time.Time{}, uuid.Nil, errBadCursor
	}
	return at, id, nil
}
