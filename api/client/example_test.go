package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/api/client"
)

// An order from the customer's click to its answer. The key is made with the click and stored with the order, before anything is sent.
// After a crash the same call is made again with what was stored.
func Example() {
	server := exampleServer() // in place of https://pay.example.com
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL, APIKey: "paysaga_example"})
	if err != nil {
		panic(err)
	}

	type purchase struct {
		Key   client.Key       `json:"key"`
		Order api.OrderRequest `json:"order"`
	}
	clicked := purchase{client.NewKey(), api.OrderRequest{
		Currency: "EUR", Amount: 3998,
		Items:   []api.Item{{SKU: "TSHIRT-M", Quantity: 2, UnitAmount: 1999}},
		Payment: api.PaymentRequest{Provider: "stripe", Method: "pm_card_visa"},
	}}
	store := func(purchase) { /* into the shop's database, committed */ }
	store(clicked)

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	result, err := c.CreateOrder(ctx, clicked.Key, clicked.Order)
	switch {
	case err != nil:
		fmt.Println(err) // see the example of UnknownOutcomeError
	case result.Pending():
		fmt.Println("order", result.Order.ID, "waits for its customer or its provider")
	default:
		fmt.Println("order", result.Order.ID, "is", result.Order.Status)
	}
	// Output: order 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71 is confirmed
}

// What to do after an error. Only a refusal that is final calls for a new key, and then only if the customer wants to try again.
func ExampleUnknownOutcomeError() {
	handle := func(err error) {
		if _, unknown := errors.AsType[*client.UnknownOutcomeError](err); unknown {
			fmt.Println("keep the key; later the same request with the same key")
			return
		}
		problem, refused := errors.AsType[*client.ProblemError](err)
		switch {
		case refused && problem.Type == client.PaymentDeclined:
			fmt.Println("ask for another card; with it a new order under a new key")
		case refused && problem.Final():
			fmt.Println("tell the customer:", problem.Detail)
		case refused:
			fmt.Println("mend the request; then again with the same key")
		default:
			fmt.Println("mend the program, nothing was sent:", err)
		}
	}
	handle(&client.UnknownOutcomeError{Operation: "create order", GaveUp: context.DeadlineExceeded})
	handle(&client.ProblemError{Type: client.PaymentDeclined, Status: 402})
	handle(&client.ProblemError{Type: client.OutOfStock, Status: 422, Detail: "TSHIRT-M: 2 wanted, 1 available."})
	handle(&client.ProblemError{Type: client.UnknownSKU, Status: 422})
	// Output:
	// keep the key; later the same request with the same key
	// ask for another card; with it a new order under a new key
	// tell the customer: TSHIRT-M: 2 wanted, 1 available.
	// mend the request; then again with the same key
}

// A key is stored with its intent, here as JSON. It comes back as it was, or not at all.
func ExampleParseKey() {
	type refund struct {
		Key    client.Key `json:"key"`
		Amount int64      `json:"amount"`
	}
	key, err := client.ParseKey("0190b6f2-3c1e-4f0a-9d52-7c6a1f2b3e4d")
	if err != nil {
		panic(err)
	}
	stored, err := json.Marshal(refund{key, 1999})
	fmt.Println(string(stored), err)

	_, err = client.ParseKey("42")
	fmt.Println(err)
	// Output:
	// {"key":"0190b6f2-3c1e-4f0a-9d52-7c6a1f2b3e4d","amount":1999} <nil>
	// no valid idempotency key: 2 characters, not 16 to 255
}

// The first answer is lost after the money was taken; the repeat brings it, and charges nobody twice.
func ExampleClient_CreateOrder() {
	charges := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if charges[key] == 0 {
			charges[key]++
			panic(http.ErrAbortHandler) // the connection breaks
		}
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"id":"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71","status":"confirmed"}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{
		BaseURL: server.URL, APIKey: "paysaga_example", BaseBackoff: time.Millisecond,
		Observe: func(_ context.Context, a client.Attempt) { fmt.Println("attempt", a.Number, "status", a.Status) },
	})
	if err != nil {
		panic(err)
	}
	key := client.NewKey()
	result, err := c.CreateOrder(context.Background(), key, api.OrderRequest{Currency: "EUR", Amount: 500})
	fmt.Println(result.Order.Status, "replayed:", result.Replayed, "charges:", charges[key.String()], err)
	// Output:
	// attempt 1 status 0
	// attempt 2 status 201
	// confirmed replayed: true charges: 1 <nil>
}

// All orders that a person must look at. Pages are asked for as the loop goes on.
func ExampleClient_ListOrders() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL, APIKey: "paysaga_example"})
	if err != nil {
		panic(err)
	}
	for order, err := range c.ListOrders(context.Background(), client.OrderFilter{Status: api.OrderStatusInReview}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(order.ID, order.Amount, order.Currency)
	}
	// Output: 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71 3998 EUR
}

// Two refunds of one order are two intents, so each has a key of its own.
func ExampleClient_Refund() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL, APIKey: "paysaga_example"})
	if err != nil {
		panic(err)
	}
	order := uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71")
	first, second := client.NewKey(), client.NewKey() // each stored with its refund
	for _, key := range []client.Key{first, second} {
		result, err := c.Refund(context.Background(), key, order, api.RefundRequest{Amount: 1999, Reason: "a shirt came back"})
		fmt.Println(result.Refund.Amount, result.Refund.Status, err)
	}
	// Output:
	// 1999 succeeded <nil>
	// 1999 succeeded <nil>
}
