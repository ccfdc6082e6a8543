package main

import (
	"context"
	"fmt"
	"net/http"

	"paysaga/providers/sandbox"
)

// sandboxControl stands at the provider's side, over HTTP, as the sandbox may be anybody's.
type sandboxControl struct {
	url    string
	sender *sender
}

func (c *sandboxControl) call(ctx context.Context, method, path string, body any) (response, error) {
	caller := client{server: c.url, sender: c.sender}
	answer, err := caller.send(ctx, message{method: method, path: "/_sandbox/" + path, body: body})
	if err == nil && answer.status >= http.StatusBadRequest {
		err = fmt.Errorf("the sandbox answers %d to %s %s", answer.status, method, path)
	}
	return answer, err
}

// upset has charges meet a fault from now on.
func (c *sandboxControl) upset(ctx context.Context, fault sandbox.Fault) error {
	fault.Provider, fault.Call = testProviders[0].name, sandbox.CallCharge
	_, err := c.call(ctx, http.MethodPost, "faults", fault)
	return err
}

// calm ends all faults, also when the scenario was cut short.
func (c *sandboxControl) calm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverStopLimit)
	defer cancel()
	_, err := c.call(ctx, http.MethodDelete, "faults", nil)
	return err
}

// ledger is all that was charged.
func (c *sandboxControl) ledger(ctx context.Context) ([]sandbox.Charge, error) {
	answer, err := c.call(ctx, http.MethodGet, "ledger", nil)
	return parsed[struct{ Charges []sandbox.Charge }](answer).Charges, err
}

// chargesOf are the payments that were made for an order.
func (c *sandboxControl) chargesOf(ctx context.Context, id string) ([]sandbox.Charge, error) {
	ledger, err := c.ledger(ctx)
	var found []sandbox.Charge
	for _, charge := range ledger {
		if orderOf(charge) == id {
			found = append(found, charge)
		}
	}
	return found, err
}
