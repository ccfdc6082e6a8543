package saga_test

import (
	"context"

	"paysaga/providers"
	"paysaga/saga"
)

// The stock of a house that keeps it in a service of its own: its reservation takes the place of saga.Reserve, and the sale follows the
// charge.
//
//	saga.Definition{reserveElsewhere(warehouse), saga.Charge, sellElsewhere(warehouse), saga.Confirm}

// reserveElsewhere holds the order's lines in the warehouse, and lets them go when the order comes to nothing.
func reserveElsewhere(warehouse string) saga.StepDefinition {
	return saga.StepDefinition{
		Name: "reserve_goods",
		Do: func(ctx context.Context, r saga.StepRequest) providers.Outcome {
			return ask(ctx, warehouse+"/reservations", string(r.Key), map[string]any{"order": r.Order.ID, "items": r.Order.Items})
		},
		Undo: func(ctx context.Context, r saga.StepRequest) providers.Outcome {
			return ask(ctx, warehouse+"/releases", string(r.Key), map[string]any{"reservation": r.Undoes})
		},
	}
}

// sellElsewhere ships what was reserved. It can be taken back only as long as nothing else has failed, which is the last step's way.
func sellElsewhere(warehouse string) saga.StepDefinition {
	return saga.StepDefinition{
		Name: "sell_goods",
		Do: func(ctx context.Context, r saga.StepRequest) providers.Outcome {
			return ask(ctx, warehouse+"/sales", string(r.Key), map[string]any{"order": r.Order.ID})
		},
	}
}
