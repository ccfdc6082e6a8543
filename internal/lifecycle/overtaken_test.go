package lifecycle_test

import (
	"context"
	"net/http"
	"net/http/httptest"

	"paysaga/providers"
	"paysaga/saga"
)

// overtaken is a provider whose webhooks can be faster than its answers: another server has them before the one that made the call
// knows how it ended.
type overtaken struct {
	saga.Provider

	house *house
}

func (h *house) overtaken() map[string]saga.Provider {
	all := make(map[string]saga.Provider, len(h.adapters))
	for name, adapter := range h.adapters {
		all[name] = overtaken{adapter, h}
	}
	return all
}

// overtake brings every webhook that is in the mail to another server, if that was asked for, and has it apply them.
func (o overtaken) overtake(outcome providers.Outcome) providers.Outcome {
	if !o.house.overtakes.CompareAndSwap(true, false) {
		return outcome
	}
	o.house.Log("  the webhook overtakes the answer")
	other := o.house.newServer()
	for _, one := range o.house.letters() {
		if one.copies == 0 {
			answer := httptest.NewRecorder()
			other.inbox.ServeHTTP(answer, o.house.webhookRequest("", one.provider, one.header, one.body))
			if answer.Code == http.StatusOK {
				one.copies++
			}
		}
	}
	other.apply()
	return outcome
}

func (o overtaken) Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome {
	return o.overtake(o.Provider.Charge(ctx, request))
}

func (o overtaken) Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome {
	return o.overtake(o.Provider.Continue(ctx, request))
}

func (o overtaken) Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome {
	return o.overtake(o.Provider.Capture(ctx, request))
}

func (o overtaken) Void(ctx context.Context, request providers.VoidRequest) providers.Outcome {
	return o.overtake(o.Provider.Void(ctx, request))
}

func (o overtaken) Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome {
	return o.overtake(o.Provider.Refund(ctx, request))
}
