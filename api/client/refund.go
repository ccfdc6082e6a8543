package client

import (
	"context"

	"github.com/google/uuid"

	"paysaga/api"
)

// RefundResult is a refund as the request left it.
type RefundResult struct {
	Answer

	Refund api.Refund
}

// Refund gives money back: all that is left with the zero RefundRequest. Each refund is an intent with a key of its own: another key is
// another refund.
func (c *Client) Refund(ctx context.Context, key Key, orderID uuid.UUID, refund api.RefundRequest) (result RefundResult, err error) {
	r := c.post("refund order", key, "orders", orderID.String(), "refunds")
	result.Refund, result.Answer, err = change(ctx, c, r, refund, validRefund)
	return result, err
}

// GetRefund shows a refund as it stands now.
func (c *Client) GetRefund(ctx context.Context, orderID, refundID uuid.UUID) (api.Refund, error) {
	address := c.address("orders", orderID.String(), "refunds", refundID.String())
	return ask(ctx, c, request{operation: "get refund", address: address}, validRefund)
}

func validRefund(refund api.Refund) bool { return refund.ID != uuid.Nil }
