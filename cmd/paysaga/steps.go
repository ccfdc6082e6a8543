package main

import "paysaga/saga"

// orderSteps is the way of every order. A step of a deployment's own is one more line here, and a file that defines it: docs/steps.md.
func orderSteps() saga.Definition {
	return saga.Definition{
		saga.Reserve,
		saga.Charge,
		saga.Confirm,
	}
}
