// Package paypal charges through PayPal's Orders v2 and Payments v2 with a small client of its own: charge, continue, look up,
// capture, void, refund; and it verifies PayPal's webhooks.
//
// Every call ends in one providers.Outcome and never in an error: what PayPal's answers and the network's failures mean is
// decided here and nowhere else (status.go, errors.go). The adapter keeps no state but an access token and certificates, never
// repeats a call by itself except with a fresh token, and logs nothing; when to call again, and with which key, is the saga's.
//
// The reference of a payment is always PayPal's order id. Captures, voids and refunds are made on the order's authorization and
// captures, whose ids a look at the order finds.
//
// Identifiers: PayPal-Request-Id is the UUIDv5 of the sub-key; the order's, the capture's and the refund's invoice_id is the sub-key
// itself, so that each of them can be found by it; custom_id is the saga's key.
package paypal

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// repostWindow is how long a call may be sent again under its key. PayPal keeps the identifiers of Orders v2 for 6 h; an hour is
	// left for clocks that differ and for a call that waits in a queue. Past it the same POST is a second charge. Payments v2 keeps
	// them for 45 days, but one saga has one window.
	repostWindow = 5 * time.Hour
	// lookupDelay is how far PayPal's transaction search can be behind.
	lookupDelay = 3 * time.Hour
	// holdTime is how long PayPal keeps an authorization: 29 days, of which it honours the first 3 ("Authorization and honor period",
	// PayPal Developer). A capture after those can be declined for want of funds.
	holdTime = 29 * 24 * time.Hour
)

const (
	// walletMethod lets the customer choose at PayPal and approve there.
	walletMethod = "wallet"
	// cardPrefix marks the vault id of a card. It cannot be a part of a vault id.
	cardPrefix = "card:"
	// captureSuffix makes the sub-key of the second POST of a charge. No step's name ends in it, so it cannot meet another sub-key.
	captureSuffix = "_capture"
)

var (
	vaultForm = regexp.MustCompile(`^[0-9a-zA-Z_-]{1,255}$`)
	// cardForm is 12 to 19 digits, grouped or not: a card number that took the place of a token.
	cardForm = regexp.MustCompile(`^[0-9](?:[ -]?[0-9]){11,18}$`)
)

// Codes of calls that are not sent at all, with Rejected (Unknown for look-ups).
const (
	codeKeyInvalid       = "key_invalid"
	codeReferenceInvalid = "reference_invalid"
)

// finishing is how an approved order is brought to its end.
type finishing string

const (
	finishByCapture   finishing = "capture"
	finishByAuthorize finishing = "authorize"
)

func finishingOf(manualCapture bool) finishing {
	if manualCapture {
		return finishByAuthorize
	}
	return finishByCapture
}

// Adapter is PayPal as the saga sees it. It is safe for concurrent use.
type Adapter struct {
	client *client
	now    func() time.Time // bounds searches only: PayPal refuses one that ends in the future
}

// New makes an adapter, or gives an error that wraps ErrConfig and says what is wrong with the settings. It makes no call.
func New(config Config) (*Adapter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Adapter{client: newClient(config), now: time.Now}, nil
}

// Name is "paypal".
func (*Adapter) Name() string { return "paypal" }

// Windows are PayPal's limits in time.
func (*Adapter) Windows() providers.Windows {
	return providers.Windows{Repost: repostWindow, LookupDelay: lookupDelay, Hold: holdTime}
}

// Check tells whether a charge could be sent at all: nil, or a *providers.RequestError. It makes no call.
//
// The method is "wallet", the vault id of a PayPal account, or "card:" and the vault id of a card: PayPal wants to be told which
// of the two an id is.
func (*Adapter) Check(request providers.ChargeRequest) error {
	_, err := valueOf(request)
	return err
}

// valueOf is what a charge takes, in PayPal's form, or a *providers.RequestError that says why it cannot be sent.
func valueOf(request providers.ChargeRequest) (amount, error) {
	value, err := toPayPal(request.Money)
	if err != nil {
		return amount{}, err
	}
	if len(request.MethodData) != 0 {
		return amount{}, &providers.RequestError{
			Field: "payment.method_data", Code: "method_data_not_taken",
			Detail: `is not taken by PayPal; payment.method is "wallet" or a PayPal vault id`,
		}
	}
	if err := checkMethod(request.Method); err != nil {
		return amount{}, err
	}
	if !validKey(request.Key) {
		return amount{}, &providers.RequestError{Field: "key", Code: codeKeyInvalid, Detail: "is no key that PayPal takes"}
	}
	return value, nil
}

func checkMethod(method string) error {
	invalid := &providers.RequestError{Field: "payment.method"}
	vaultID := strings.TrimPrefix(method, cardPrefix)
	switch {
	case method == "":
		invalid.Code, invalid.Detail = "method_missing", `is missing; "wallet" or a PayPal vault id is needed`
	case cardForm.MatchString(strings.TrimSpace(vaultID)):
		invalid.Code, invalid.Detail = "card_number_refused",
			`looks like a card number; card numbers are never accepted, only "wallet" or a PayPal vault id`
	case !vaultForm.MatchString(vaultID):
		invalid.Code, invalid.Detail = "method_invalid", `must be "wallet", a PayPal vault id, or "card:" and the vault id of a card`
	default:
		return nil
	}
	return invalid
}

// Charge creates an order, and with a stored method takes (or, with ManualCapture, holds) its money in the same call. Money in the
// outcome is PayPal's amount, for the saga to compare.
//
// With "wallet" it ends ActionRequired: the customer approves at PayPal, then Continue takes the money. An answer to a repeated
// call tells the order's latest state, so it can also be Processing with CodeApproved.
//
// Inside Windows().Repost the same request may be sent any number of times and takes the money at most once. A request that
// Check refuses is Rejected without a call. Unknown with CodeIdempotencyMismatch is an invoice_id that the account has seen
// before: look up, as an earlier call may have taken the money.
func (a *Adapter) Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome {
	value, err := valueOf(request)
	if err != nil {
		return rejectedRequest(err)
	}
	created, err := a.client.createOrder(ctx, request.Key, orderRequest{
		Intent:        strings.ToUpper(string(finishingOf(request.ManualCapture))),
		PurchaseUnits: []purchaseRequest{{Amount: value, CustomID: request.SagaKey, InvoiceID: string(request.Key)}},
		Source:        sourceOf(request.Method, request.ReturnURL),
	})
	if err != nil {
		return outcomeOfError(chargeCall, err)
	}
	outcome := judge(created, request.Key)
	if outcome.Code != providers.CodeApproved || request.Method == walletMethod {
		return outcome
	}
	// A stored method that PayPal approved and did not charge by itself. The identifier of this second POST is derived from the same
	// sub-key, so that a repeat of the charge makes the same two calls.
	second := request.Key + captureSuffix
	return a.finish(ctx, created.ID, finishingOf(request.ManualCapture), second, request.Key)
}

// sourceOf is where the money comes from.
func sourceOf(method, returnURL string) map[string]fundings {
	var back *experience
	if returnURL != "" {
		back = &experience{ReturnURL: returnURL, CancelURL: returnURL} // the order tells which of the two it was
	}
	if vaultID, isCard := strings.CutPrefix(method, cardPrefix); isCard {
		return map[string]fundings{"card": {VaultID: vaultID, Experience: back}}
	}
	if method != walletMethod {
		return map[string]fundings{"paypal": {VaultID: method, Experience: back}}
	}
	if back == nil {
		back = &experience{}
	}
	back.UserAction = "PAY_NOW" // the amount is final: the customer's click is the last one
	return map[string]fundings{"paypal": {Experience: back}}
}

// Continue takes (or holds) the money of an order that the customer was asked to approve. Not approved yet is ActionRequired
// again; taken meanwhile by another call is what that call came to. Declined leaves an order that holds no money, and that only
// another Continue could take.
func (a *Adapter) Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome {
	if invalid, refused := refusedCall(request.Key, request.Reference); refused {
		return invalid
	}
	return a.finish(ctx, request.Reference, finishingOf(request.ManualCapture), request.Key, request.ChargeKey)
}

func (a *Adapter) finish(ctx context.Context, id string, verb finishing, key, chargeKey providers.SubKey) providers.Outcome {
	finished, err := a.client.finishOrder(ctx, id, verb, key.PayPalRequestID())
	if err == nil {
		return judgeOrder(finished, id, chargeKey)
	}
	switch found, told := meansOf(err); found {
	case meansWait:
		if outcome := actionRequired(told.Links); outcome.Kind == providers.ActionRequired {
			outcome.Reference = id
			return outcome
		}
		return a.look(ctx, id, chargeKey)
	case meansLook:
		return a.look(ctx, id, chargeKey)
	default:
		outcome := outcomeOfError(continueCall, err)
		outcome.Reference = id
		return outcome
	}
}

// Lookup asks how a charge stands: by Reference when it is known, else by a search for the sub-key among PayPal's transactions.
//
// Processing with CodeApproved is for the saga to end: the customer has approved, and only Continue takes the money.
//
// NotFound is conclusive only when the charge is older than Windows().LookupDelay. PayPal forgets an order that was not approved in
// hours, so a Reference that it does not know is looked for among the transactions as well, if SentAt is given. Without SentAt it may be
// a capture's or an authorization's id, as lists tell them; the outcome names the order. A payment whose
// money has all been given back is Canceled with CodeRefunded.
func (a *Adapter) Lookup(ctx context.Context, request providers.LookupRequest) providers.Outcome {
	if request.Reference == "" {
		return a.search(ctx, request, chargeSpan)
	}
	if !idForm.MatchString(request.Reference) {
		return unknown(codeReferenceInvalid)
	}
	outcome := a.look(ctx, request.Reference, request.Key)
	switch {
	case outcome.Kind != providers.NotFound:
		return outcome
	case request.SentAt.IsZero():
		return a.lookByPayment(ctx, request, outcome)
	}
	outcome = a.search(ctx, request, approvalSpan)
	if outcome.Reference == "" {
		outcome.Reference = request.Reference
	}
	return outcome
}

// lookByPayment asks for the order to which a capture or an authorization belongs: by these PayPal's lists tell of payments. Where it is
// neither, there is no such order.
func (a *Adapter) lookByPayment(ctx context.Context, request providers.LookupRequest, absent providers.Outcome) providers.Outcome {
	id, failed := a.orderOf(ctx, transactionInfo{ID: request.Reference})
	switch {
	case failed == nil:
		return a.look(ctx, id, request.Key)
	case failed.Code == codeOtherObject:
		return absent
	}
	return *failed
}

// look asks for one order by its id.
func (a *Adapter) look(ctx context.Context, id string, key providers.SubKey) providers.Outcome {
	found, err := a.client.order(ctx, id)
	if err != nil {
		outcome := outcomeOfError(lookupCall, err)
		outcome.Reference = id
		return outcome
	}
	return judgeOrder(found, id, key)
}

// judgeOrder makes sure that an order is the one asked for.
func judgeOrder(found *order, id string, key providers.SubKey) providers.Outcome {
	if found.ID != id {
		return unknown(codeOtherObject)
	}
	return judge(found, key)
}

// judge makes sure that an order is the attempt's.
func judge(found *order, key providers.SubKey) providers.Outcome {
	outcome := outcomeOfOrder(found)
	if outcome.Reference != "" && !found.belongsTo(key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcome
}

// refusedCall keeps calls from being sent that cannot be right.
func refusedCall(key providers.SubKey, reference string) (outcome providers.Outcome, refused bool) {
	switch {
	case !validKey(key):
		return providers.Outcome{Kind: providers.Rejected, Code: codeKeyInvalid}, true
	case !idForm.MatchString(reference):
		return providers.Outcome{Kind: providers.Rejected, Code: codeReferenceInvalid}, true
	default:
		return providers.Outcome{}, false
	}
}

func rejectedRequest(err error) providers.Outcome {
	outcome := providers.Outcome{Kind: providers.Rejected}
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		outcome.Code, outcome.Detail = invalid.Code, invalid.Error()
	}
	return outcome
}

func validKey(key providers.SubKey) bool {
	return key != "" && len(key) <= providers.MaxSubKeyLength && strings.TrimSpace(string(key)) == string(key)
}
