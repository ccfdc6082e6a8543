package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"paysaga/api"
)

// Answer is how the API answered a request that changes something.
type Answer struct {
	HTTPStatus int  // 200 or 201: done; 202: the end is not known yet
	Replayed   bool // the answer was kept under the key before: an earlier request did the work

	attempts int
}

// Pending tells that the request stands and its end is not known yet. Follow the order or the refund; the same key gives this answer
// again, and another one would be another intent.
func (a Answer) Pending() bool { return a.HTTPStatus == http.StatusAccepted }

// OrderResult is an order as a request left it; or as it stands now, where the server is set up to keep answers without their content.
type OrderResult struct {
	Answer

	Order api.Order
}

// CreateOrder places an order and charges the customer, once for each key. Pending: the customer must act (Order.NextAction), or the
// provider has not told the outcome.
func (c *Client) CreateOrder(ctx context.Context, key Key, order api.OrderRequest) (OrderResult, error) {
	return c.changeOrder(ctx, c.post("create order", key, "orders"), order)
}

// ContinueOrder goes on after the customer acted, or with another payment after a decline.
func (c *Client) ContinueOrder(ctx context.Context, key Key, id uuid.UUID, with api.ContinueRequest) (OrderResult, error) {
	return c.changeOrder(ctx, c.post("continue order", key, "orders", id.String(), "continue"), with)
}

// CaptureOrder takes held money: all of it with the zero CaptureRequest. Each capture is an intent with a key of its own.
func (c *Client) CaptureOrder(ctx context.Context, key Key, id uuid.UUID, capture api.CaptureRequest) (OrderResult, error) {
	return c.changeOrder(ctx, c.post("capture order", key, "orders", id.String(), "capture"), capture)
}

// CancelOrder gives an order up before its money is taken, or the rest of a hold.
func (c *Client) CancelOrder(ctx context.Context, key Key, id uuid.UUID) (OrderResult, error) {
	r := c.post("cancel order", key, "orders", id.String(), "cancel")
	r.order = id
	return c.changeOrder(ctx, r, api.CancelRequest{})
}

// UpdateMetadata changes the notes on an order: a value replaces the one of its name, nil removes it, and what is not named stays.
func (c *Client) UpdateMetadata(ctx context.Context, key Key, id uuid.UUID, patch api.OrderPatch) (OrderResult, error) {
	r := c.post("update metadata", key, "orders", id.String())
	r.method, r.order = http.MethodPatch, id
	return c.changeOrder(ctx, r, patch)
}

func (c *Client) post(operation string, key Key, path ...string) request {
	return request{operation: operation, method: http.MethodPost, address: c.address(path...), key: key}
}

// address is that of something below /v1.
func (c *Client) address(path ...string) *url.URL { return c.base.JoinPath("v1").JoinPath(path...) }

// changeOrder reads the order where its answer is kept without the body.
func (c *Client) changeOrder(ctx context.Context, r request, body any) (OrderResult, error) {
	order, how, err := change(ctx, c, r, body, validOrder)
	if err == nil && order.ID == uuid.Nil {
		order, err = c.GetOrder(ctx, r.order)
		if err != nil { // that the request was carried out is known; a repeat is still the way to its result
			err = &UnknownOutcomeError{Operation: r.operation, Attempts: how.attempts, Cause: err}
		}
	}
	if err != nil {
		return OrderResult{}, err
	}
	return OrderResult{how, order}, nil
}

func validOrder(order api.Order) bool { return order.ID != uuid.Nil }

// GetOrder shows an order as it stands now.
func (c *Client) GetOrder(ctx context.Context, id uuid.UUID) (api.Order, error) {
	return ask(ctx, c, request{operation: "get order", address: c.address("orders", id.String())}, validOrder)
}

// OrderFilter says which orders ListOrders gives.
type OrderFilter struct {
	Status   api.OrderStatus  // "": in all
	Provider api.ProviderName // "": through all
	PageSize int              // how many are asked for at a time, up to 100; 0: the server decides
}

// ListOrders gives the account's orders, newest first. They are asked for page by page as the loop goes on. After an error there are no
// more.
func (c *Client) ListOrders(ctx context.Context, filter OrderFilter) iter.Seq2[api.Order, error] {
	return func(yield func(api.Order, error) bool) {
		for cursor := ""; ; {
			page, err := c.OrdersPage(ctx, filter, cursor)
			if err != nil {
				yield(api.Order{}, err)
				return
			}
			for _, order := range page.Data {
				if !yield(order, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			if *page.NextCursor == cursor || len(page.Data) == 0 { // else a defect on the other side would keep us forever
				yield(api.Order{}, errors.New("list orders: the server's pages do not come to an end"))
				return
			}
			cursor = *page.NextCursor
		}
	}
}

// OrdersPage gives one page of them. The cursor is the NextCursor of the page before, "" for the first.
func (c *Client) OrdersPage(ctx context.Context, filter OrderFilter, cursor string) (api.OrderList, error) {
	r := c.page("list orders", "orders", filter.PageSize, cursor, map[string]string{
		"status": string(filter.Status), "provider": filter.Provider,
	})
	return ask(ctx, c, r, func(page api.OrderList) bool { return page.Data != nil })
}

// change sends a request with a key. The body is encoded once: a repeat is the same bytes. The answer's value must be valid, so that an
// empty object of something in between is not taken for an order; it stays empty after an answer that is kept without its body.
func change[T any](ctx context.Context, c *Client, r request, body any, valid func(T) bool) (value T, how Answer, err error) {
	if r.key.IsZero() {
		return value, Answer{}, fmt.Errorf("%s: %w: make one with NewKey when the intent arises, and store it", r.operation, ErrInvalidKey)
	}
	r.body, err = json.Marshal(body)
	if err != nil {
		return value, Answer{}, fmt.Errorf("%s: encode the request: %w", r.operation, err)
	}
	r.read = func(a answer) error {
		if r.order != uuid.Nil && a.bodyless() {
			return nil
		}
		return read(a.body, &value, valid)
	}
	got, err := c.do(ctx, r)
	return value, Answer{HTTPStatus: got.status, Replayed: got.replayed(), attempts: got.attempts}, err
}

// ask sends a request that changes nothing.
func ask[T any](ctx context.Context, c *Client, r request, valid func(T) bool) (value T, err error) {
	r.method = http.MethodGet
	r.read = func(a answer) error { return read(a.body, &value, valid) }
	_, err = c.do(ctx, r)
	return value, err
}

// read takes over only what is whole.
func read[T any](body []byte, into *T, valid func(T) bool) error {
	var value T
	if json.Unmarshal(body, &value) != nil || !valid(value) {
		return errUnreadable
	}
	*into = value
	return nil
}
