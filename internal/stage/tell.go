package stage

import (
	"fmt"
	"net/http"
	"strings"

	"paysaga/saga"
)

// Report says how everything stands, for a test that fails: the sagas, the ledger, the webhooks, and the calls.
func (f *Flow) Report() string {
	f.Helper()
	if !f.Begun() {
		return "no order"
	}
	var text strings.Builder
	write := func(format string, arguments ...any) { _, _ = fmt.Fprintf(&text, "\n"+format, arguments...) }
	for _, s := range append([]saga.Saga{f.Saga()}, f.RefundsOf(f.First.ID)...) {
		payment := s.Order.Payment
		write("%s %s: %s, order %s, payment %s, captured %d, refunded %d, refunding %d", s.Kind, s.Key, s.State, s.Order.Status, payment.Status,
			payment.CapturedAmount, payment.RefundedAmount, payment.RefundingAmount)
		for _, step := range s.Steps {
			write("  %s/%d %s %s: %s %s %s", step.Name, step.Attempt, step.Provider, step.Status, step.Outcome, step.Code, step.ProviderReference)
		}
	}
	for _, finding := range f.Lines(`SELECT kind || ': ' || detail FROM findings`) {
		write("finding %s", finding)
	}
	for _, charge := range f.Sandbox.Ledger() {
		write("ledger %+v", charge)
	}
	for _, event := range f.Lines(`SELECT concat_ws(' ', received_at, provider, type, event_id, payment_reference, reference, status,
		attempts, last_error) FROM webhook_events ORDER BY received_at`) {
		write("event %s", event)
	}
	for _, call := range f.Requests() {
		if call.Method != http.MethodGet || call.Fault != "" {
			write("%s %s %s %s: %d %s", call.Call, call.Method, call.Path, call.Identifier, call.Status, call.Fault)
		}
	}
	return text.String()
}
