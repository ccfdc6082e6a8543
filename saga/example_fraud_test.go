package saga_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// fraudCheck asks a risk service about an order before any money is charged. It takes nothing that would have to be given back.
//
// This file, and the line in the definition, are all that it takes:
//
//	saga.Definition{saga.Reserve, fraudCheck(service), saga.Charge, saga.Confirm}
func fraudCheck(service string) saga.StepDefinition {
	return saga.StepDefinition{
		Name: "fraud_check",
		Do: func(ctx context.Context, r saga.StepRequest) providers.Outcome {
			return ask(ctx, service+"/checks", string(r.Key), map[string]any{
				"customer": r.Order.Customer.Reference, "amount": r.Order.Amount, "currency": r.Order.Currency,
			})
		},
	}
}

// ask is one call of a house's own service that keeps to Idempotency-Key. What its answer does not say for certain is unknown, and the
// same call is made again.
func ask(ctx context.Context, url, key string, body any) providers.Outcome {
	raw, err := json.Marshal(body)
	if err != nil {
		return providers.Outcome{Kind: providers.Rejected, Code: "request", Detail: err.Error()}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return providers.Outcome{Kind: providers.Rejected, Code: "request", Detail: err.Error()}
	}
	request.GetBody = nil // else net/http could send it twice by itself
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Code: "no_answer"}
	}
	defer response.Body.Close()
	var answer struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
	const mostBytes = 64 << 10 // more than any answer of the service
	err = json.NewDecoder(http.MaxBytesReader(nil, response.Body, mostBytes)).Decode(&answer)
	switch status := response.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return providers.Outcome{Kind: providers.Busy, RetryAfter: time.Second}
	case status >= http.StatusInternalServerError, err != nil:
		return providers.Outcome{Kind: providers.Unknown, Code: "broken_answer"}
	case status == http.StatusAccepted:
		return providers.Outcome{Kind: providers.Processing, Reference: answer.ID}
	case status < http.StatusMultipleChoices:
		return providers.Outcome{Kind: providers.Succeeded, Reference: answer.ID}
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return providers.Outcome{Kind: providers.Declined, Code: answer.Reason}
	default:
		return providers.Outcome{Kind: providers.Rejected, Code: answer.Reason}
	}
}
