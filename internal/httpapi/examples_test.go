package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/stripe"
	"paysaga/reconcile"
	"paysaga/saga"
)

// The contract's examples of problems are what the server answers, to the letter.
func TestExamplesOfProblemsAreReal(t *testing.T) {
	t.Parallel()
	document, err := api.Load()
	noError(t, err)
	want, met := problemsOfExamples(t, document), map[string]bool{}
	for _, example := range examplesOf(document) {
		name, value := example.name, example.value
		var p api.Problem
		if !readsAs(t, value, &p) || !strings.HasPrefix(p.Type, "/problems/") {
			continue
		}
		server, known := want[name]
		if !known {
			t.Errorf("nobody makes the problem of the example %s here", name)
			continue
		}
		met[name] = true
		if (p.Instance == "") != (server.Instance == "") {
			t.Errorf("%s: instance %q, the server gives %q", name, p.Instance, server.Instance)
		}
		p.Instance = server.Instance
		if diff := cmp.Diff(server, p); diff != "" {
			t.Errorf("%s (-server +example):\n%s", name, diff)
		}
	}
	for name := range want {
		if !met[name] {
			t.Errorf("there is no example %s", name)
		}
	}
}

// problemsOfExamples makes each example's case, by the example's name.
func problemsOfExamples(t *testing.T, document *openapi3.T) map[string]api.Problem {
	t.Helper()
	s := &server{document: document}
	var order api.OrderRequest
	const noPieces = `{"currency":"EUR","amount":3998,"items":[{"sku":"TSHIRT-M","quantity":0,"unit_amount":1999}],` +
		`"payment":{"provider":"stripe","method":"pm_card_visa"}}`
	declined := standing(createOrderEndpoint, saga.RolledBack, saga.OrderFailed, step(saga.StepCharge, saga.StepFailed, providers.Declined, "card_declined"))
	declined.Order.Payment.Decline = &providers.Decline{Code: "card_declined", Bank: "insufficient_funds"}
	short := step(saga.StepReserve, saga.StepFailed, "", saga.CodeOutOfStock)
	short.Detail = "TSHIRT-M: 2 wanted, 1 available."
	heldCharge := step(saga.StepCharge, saga.StepDone, providers.Authorized, "")
	held := standing("", saga.Awaiting, saga.OrderConfirmed, heldCharge)
	held.Order.Payment.Capture = saga.CaptureManual
	unpaid := standing("", saga.Awaiting, saga.OrderAwaiting, step(saga.StepCharge, saga.StepFailed, providers.Declined, "card_declined"))
	reviewed := standing("", saga.NeedsReview, saga.OrderInReview, step(saga.StepReserve, saga.StepDone, "", ""), heldCharge)
	stillPaid := providers.Outcome{Kind: providers.Succeeded, Money: providers.Money{Amount: 3998, Currency: "EUR"}}
	return map[string]api.Problem{
		"invalidRequest":      told(t, s.decodeBody([]byte(noPieces), "OrderRequest", &order)),
		"requestInProgress":   told(t, waitProblem(0)),
		"idempotencyKeyReuse": told(t, &idempotency.MismatchError{Status: http.StatusUnprocessableEntity}),
		"keyExpired":          told(t, idempotency.ErrExpired),
		"orderBusy":           told(t, &saga.RefusedError{Reason: saga.RefusedBusy}),
		"amountTooLarge":      told(t, refusedBySaga(held, saga.Request{Kind: saga.RequestCapture, Amount: 4000, Final: true})),
		"paymentRequired":     told(t, refusedBySaga(unpaid, saga.Request{Kind: saga.RequestContinue})),
		"paymentDeclined":     answered(t, declined),
		"outOfStock":          answered(t, standing(createOrderEndpoint, saga.RolledBack, saga.OrderFailed, short)),
		"refundInstead":       keyFree(answered(t, standing(cancelOrderEndpoint, saga.Completed, saga.OrderConfirmed, heldCharge))),
		"continueRefused": answered(t, standing(continueOrderEndpoint, saga.Awaiting, saga.OrderAwaiting,
			step(saga.StepCharge, saga.StepPending, providers.ActionRequired, ""), step(saga.StepContinue, saga.StepFailed, providers.Rejected, "invalid_details"))),
		"captureRefused": answered(t, standing(captureOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge,
			step(saga.StepCapture, saga.StepFailed, providers.Rejected, "amount_too_small"))),
		"refundRefused":  answered(t, refunding(saga.RolledBack, saga.RefundFailed, saga.StepFailed, "charge_disputed")),
		"webhookRefused": refusedWebhook(t),

		"operatorRequired":      told(t, errOperatorRequired),
		"findingInReview":       told(t, reconcile.ErrFindingInReview),
		"reconciliationWaiting": told(t, reconcile.ErrBusy),
		"notInReview":           told(t, refusedDecision(standing("", saga.Completed, saga.OrderConfirmed), providers.Outcome{})),
		"decisionContradicted":  told(t, refusedDecision(reviewed, stillPaid)),
	}
}

// keyFree is the same problem where it is found before anything is kept: it leads nowhere then.
func keyFree(p api.Problem) api.Problem {
	p.Instance = ""
	return p
}

// refusedBySaga is why the saga refuses a request.
func refusedBySaga(s saga.Saga, request saga.Request) error {
	request.Key = theKey
	_, err := saga.Advance(s, saga.Event{Kind: saga.Asked, Request: &request}, saga.DefaultPolicy())
	return err
}

// refusedDecision is why a saga refuses that nothing is kept.
func refusedDecision(s saga.Saga, told providers.Outcome) error {
	decision := saga.Decision{Resolution: saga.ResolveNothingKept}
	_, err := saga.Advance(s, saga.Event{Kind: saga.Decided, Decision: &decision, Outcome: told}, saga.DefaultPolicy())
	return err
}

// told is an error as a client is told of it.
func told(t *testing.T, err error) api.Problem {
	t.Helper()
	p := problemOf(err)
	if p == nil {
		t.Fatalf("no client is told of: %v", err)
	}
	body, err := p.body("")
	noError(t, err)
	var shown api.Problem
	noError(t, json.Unmarshal(body, &shown))
	return shown
}

// answered is the problem that a saga's answer is.
func answered(t *testing.T, s saga.Saga) api.Problem {
	t.Helper()
	answer, err := Answerer{}.Answer(s)
	noError(t, err)
	var shown api.Problem
	noError(t, json.Unmarshal(answer.Body, &shown))
	return shown
}

// noInbox is whatever an inbox needs and a forged message never meets.
type noInbox struct {
	webhook.Store
	webhook.Runner
}

// forged is a message without a signature.
type forged struct{}

func (forged) Parse(http.Header, []byte, time.Time) ([]providers.Notice, error) {
	return nil, providers.ErrSignature
}

func refusedWebhook(t *testing.T) api.Problem {
	t.Helper()
	inbox, err := webhook.New(webhook.Config{
		Store: noInbox{}, Runner: noInbox{}, Endpoints: map[string]webhook.Endpoint{"stripe": {Parser: forged{}}},
		Lease: time.Minute, Interval: time.Second, Concurrency: 1, Logger: slog.New(slog.DiscardHandler),
	})
	noError(t, err)
	recorder := httptest.NewRecorder()
	inbox.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/stripe", strings.NewReader("{}")))
	var shown api.Problem
	noError(t, json.Unmarshal(recorder.Body.Bytes(), &shown))
	return shown
}

// The contract's examples of orders add up, and wait as long as the server would have them wait.
func TestExamplesOfOrdersAreReal(t *testing.T) {
	t.Parallel()
	document, err := api.Load()
	noError(t, err)
	var waiting, heldOrders int
	for _, example := range examplesOf(document) {
		name, value := example.name, example.value
		var o api.Order
		if !readsAs(t, value, &o) || o.ID == uuid.Nil || o.Payment.Provider == "" {
			continue
		}
		var deadline time.Time
		var capturable int64
		switch {
		case o.Status == api.OrderStatusAwaiting:
			waiting++
			deadline = o.UpdatedAt.Add(saga.DefaultPolicy().AwaitDeadline)
		case o.Saga.State == api.SagaStateAwaiting:
			heldOrders++
			deadline, capturable = o.UpdatedAt.Add((*stripe.Adapter)(nil).Windows().Hold), o.Amount-o.Payment.CapturedAmount
		}
		if !o.DeadlineAt.Equal(deadline) || o.Payment.CapturableAmount != capturable {
			t.Errorf("%s: deadline %s with %d to capture, want %s with %d", name, o.DeadlineAt, o.Payment.CapturableAmount, deadline, capturable)
		}
	}
	if waiting == 0 || heldOrders == 0 {
		t.Errorf("%d examples of waiting orders, %d of held ones", waiting, heldOrders)
	}
}

// namedExample is an example of the contract with its name, which several may share.
type namedExample struct {
	name  string
	value any
}

// examplesOf are the examples of all operations' answers.
func examplesOf(document *openapi3.T) []namedExample {
	var all []namedExample
	for _, item := range document.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, response := range operation.Responses.Map() {
				for _, media := range response.Value.Content {
					for name, example := range media.Examples {
						all = append(all, namedExample{name, example.Value.Value})
					}
				}
			}
		}
	}
	return all
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readsAs tells whether an example is a value of the type, all of it.
func readsAs(t *testing.T, example, target any) bool {
	t.Helper()
	text, err := json.Marshal(example)
	noError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target) == nil
}
