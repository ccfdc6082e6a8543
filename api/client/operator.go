package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"paysaga/api"
)

// SagaResult is a saga as a decision left it.
// All calls about sagas but OrderSaga need an API key of role operator; with another one they are refused as OperatorRequired.
type SagaResult struct {
	Answer

	Saga api.SagaRecord
}

// SagaFilter says which sagas SagasPage gives: of those that have no end yet.
type SagaFilter struct {
	State    api.OpenStateFilter // "": in all
	Kind     api.SagaKind        // "": of orders and of refunds
	Provider api.ProviderName    // "": through all
	Finding  string              // only with an open finding of this kind; "": all
	PageSize int                 // up to 100; 0: the server decides
}

// SagasPage gives a page of the sagas that have no end yet, the longest unmoved first. The cursor is the NextCursor of the page before,
// "" for the first.
func (c *Client) SagasPage(ctx context.Context, filter SagaFilter, cursor string) (api.SagaList, error) {
	r := c.page("list sagas", "sagas", filter.PageSize, cursor, map[string]string{
		"state": string(filter.State), "kind": string(filter.Kind), "provider": filter.Provider, "finding": filter.Finding,
	})
	return ask(ctx, c, r, func(page api.SagaList) bool { return page.Data != nil })
}

// GetSaga shows one saga with all that was found and decided about it.
func (c *Client) GetSaga(ctx context.Context, key uuid.UUID) (api.SagaRecord, error) {
	return ask(ctx, c, request{operation: "get saga", address: c.address("sagas", key.String()), limit: maxPage}, validSaga)
}

// OrderSaga shows how an order got where it is. A shop's own key is enough.
func (c *Client) OrderSaga(ctx context.Context, id uuid.UUID) (api.Saga, error) {
	r := request{operation: "get order's saga", address: c.address("orders", id.String(), "saga")}
	return ask(ctx, c, r, func(s api.Saga) bool { return s.Key != uuid.Nil })
}

// RetrySaga lets a saga go on now. It charges nothing anew.
func (c *Client) RetrySaga(ctx context.Context, key Key, sagaKey uuid.UUID, reason string) (SagaResult, error) {
	return c.decide(ctx, c.post("retry saga", key, "sagas", sagaKey.String(), "retry"), api.DecisionRequest{Reason: reason})
}

// CancelSaga gives an order up.
func (c *Client) CancelSaga(ctx context.Context, key Key, sagaKey uuid.UUID, reason string) (SagaResult, error) {
	return c.decide(ctx, c.post("cancel saga", key, "sagas", sagaKey.String(), "cancel"), api.DecisionRequest{Reason: reason})
}

// ResolveSaga decides about a saga in review.
func (c *Client) ResolveSaga(ctx context.Context, key Key, sagaKey uuid.UUID, decision api.ResolveRequest) (SagaResult, error) {
	return c.decide(ctx, c.post("resolve saga", key, "sagas", sagaKey.String(), "resolve"), decision)
}

func (c *Client) decide(ctx context.Context, r request, body any) (result SagaResult, err error) {
	result.Saga, result.Answer, err = change(ctx, c, r, body, validSaga)
	return result, err
}

func validSaga(s api.SagaRecord) bool { return s.Key != uuid.Nil }

// page is a request for a page of a list. Parameters that are empty are left out.
func (c *Client) page(operation, list string, size int, cursor string, parameters map[string]string) request {
	query := url.Values{}
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if size != 0 {
		query.Set("limit", strconv.Itoa(size))
	}
	address := c.address(list)
	address.RawQuery = query.Encode()
	return request{operation: operation, address: address, limit: maxPage}
}
