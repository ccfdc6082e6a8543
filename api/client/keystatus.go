package client

import (
	"context"
	"fmt"
	"net/url"

	"paysaga/api"
)

// KeyStatus shows how one of the account's own keys stands at an endpoint, without its answer: the same request with the same key gives
// that. A ProblemError with NotFound says that no request with the key was begun there; one that is still on its way may be.
//
// It is for people and reports. A program that wants to know what became of a request repeats it.
func (c *Client) KeyStatus(ctx context.Context, key Key, endpoint api.Endpoint) (api.KeyRecord, error) {
	if key.IsZero() {
		return api.KeyRecord{}, fmt.Errorf("key status: %w", ErrInvalidKey)
	}
	address := c.address("idempotency-keys", key.text)
	address.RawQuery = url.Values{"endpoint": {string(endpoint)}}.Encode()
	r := request{operation: "key status", address: address, about: key}
	return ask(ctx, c, r, func(record api.KeyRecord) bool { return record.Endpoint == string(endpoint) })
}
