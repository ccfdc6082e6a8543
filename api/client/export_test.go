package client

import (
	"context"
	"time"
)

// WithoutPauses has a client repeat at once, for tests that wait for real work.
func WithoutPauses(c *Client) *Client {
	c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}
