package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

const (
	// listDelay is for clocks that differ and for calls that Stripe is still carrying out: its lists themselves show what there is.
	listDelay = 5 * time.Minute
	// paymentsPageSize is half of the most that Stripe gives: a payment with its charge has up to 10 kB, and a full page must fit into
	// wire.MaxBody.
	paymentsPageSize = 50
	// refundsPageSize is the most that Stripe gives.
	refundsPageSize = 100
)

// Stripe has two lists: what was asked for, and what was given back. A cursor is the name of the one that is read, and the id after
// which it goes on: "payment_intent:pi_…", "refund:".
const cursorSeparator = ":"

var errNotAList = errors.New("answer is not a list")

// ListLimits are how Stripe can be listed: any time, almost up to now.
func (*Adapter) ListLimits() providers.ListLimits { return providers.ListLimits{Delay: listDelay} }

// List reads a page of everything that was made in a time, by whomever: first the payments, newest first, then the refunds. Stripe
// knows times in whole seconds. Errors: *providers.ListError.
func (a *Adapter) List(ctx context.Context, request providers.ListRequest) (providers.ListPage, error) {
	kind, after, ok := readCursor(request.Cursor)
	if !ok || !request.Until.After(request.From) {
		return providers.ListPage{}, &providers.ListError{Code: providers.CodeListRequest, Refused: true}
	}
	made := &sdk.RangeQueryParams{GreaterThanOrEqual: wholeSecond(request.From), LesserThan: wholeSecond(request.Until)}
	if kind == objectPayment {
		return a.listPayments(ctx, made, after)
	}
	return a.listRefunds(ctx, made, after)
}

// wholeSecond is the first second that is not before a time. As Stripe's times are whole seconds, "from 10.5 s on" is "from 11 s on",
// and "before 10.5 s" is "before 11 s".
func wholeSecond(at time.Time) int64 {
	second := at.Unix()
	if at.Nanosecond() > 0 {
		second++
	}
	return second
}

func readCursor(cursor string) (kind, after string, ok bool) {
	if cursor == "" {
		return objectPayment, "", true
	}
	kind, after, ok = strings.Cut(cursor, cursorSeparator)
	switch kind {
	case objectPayment:
		return kind, after, ok && paymentForm.MatchString(after)
	case objectRefund:
		return kind, after, ok && (after == "" || refundForm.MatchString(after))
	default:
		return "", "", false
	}
}

func (a *Adapter) listPayments(ctx context.Context, made *sdk.RangeQueryParams, after string) (providers.ListPage, error) {
	payments, more, err := a.client.listPayments(ctx, made, after)
	if err != nil {
		return providers.ListPage{}, listErrorOf(err)
	}
	page := providers.ListPage{Transactions: make([]providers.Transaction, 0, len(payments)), Next: objectRefund + cursorSeparator}
	for _, payment := range payments {
		listed, code := transactionOfPayment(payment)
		if code != "" {
			return providers.ListPage{}, &providers.ListError{Code: code}
		}
		page.Transactions = append(page.Transactions, listed)
		if more {
			page.Next = objectPayment + cursorSeparator + listed.Reference
		}
	}
	return page, nil
}

func (a *Adapter) listRefunds(ctx context.Context, made *sdk.RangeQueryParams, after string) (providers.ListPage, error) {
	refunds, more, err := a.client.listRefunds(ctx, made, after)
	if err != nil {
		return providers.ListPage{}, listErrorOf(err)
	}
	page := providers.ListPage{Transactions: make([]providers.Transaction, 0, len(refunds))}
	for _, refund := range refunds {
		listed, code := transactionOfRefund(refund)
		if code != "" {
			return providers.ListPage{}, &providers.ListError{Code: code}
		}
		page.Transactions = append(page.Transactions, listed)
		if more {
			page.Next = objectRefund + cursorSeparator + listed.Reference
		}
	}
	return page, nil
}

// transactionOfPayment tells of one payment; code is why it cannot be.
func transactionOfPayment(payment *sdk.PaymentIntent) (listed providers.Transaction, code string) {
	if payment == nil || payment.Object != objectPayment || !paymentForm.MatchString(payment.ID) || payment.Created <= 0 {
		return providers.Transaction{}, codeOtherObject
	}
	status, ok := listedStatus(payment)
	if !ok {
		return providers.Transaction{}, codeStatusUnrecognized
	}
	listed = providers.Transaction{
		Kind: providers.TransactionPayment, Reference: payment.ID, Payment: payment.ID, Status: status,
		Key: markedKey(payment.Metadata), SagaKey: markedSagaKey(payment.Metadata), At: time.Unix(payment.Created, 0).UTC(),
	}
	amount := payment.Amount
	if status == providers.Succeeded {
		amount = payment.AmountReceived
	}
	listed.Money = listedMoney(amount, payment.Currency)
	charge := payment.LatestCharge
	if charge == nil {
		return listed, ""
	}
	// What a partial capture let go counts as refunded at Stripe.
	refunded := max(0, charge.AmountRefunded-(charge.Amount-charge.AmountCaptured))
	if charge.AmountCaptured > 0 {
		listed.Refunded = listedMoney(refunded, payment.Currency).Amount
	}
	listed.Fee, listed.FeeCurrency = feeOf(charge.BalanceTransaction)
	return listed, ""
}

// listedStatus is outcomeOfStatus without what happened to the money after it was taken.
func listedStatus(payment *sdk.PaymentIntent) (providers.OutcomeKind, bool) {
	switch payment.Status {
	case sdk.PaymentIntentStatusSucceeded:
		return providers.Succeeded, true
	case sdk.PaymentIntentStatusRequiresCapture:
		return providers.Authorized, true
	case sdk.PaymentIntentStatusRequiresAction:
		return providers.ActionRequired, true
	case sdk.PaymentIntentStatusProcessing, sdk.PaymentIntentStatusRequiresConfirmation:
		return providers.Processing, true
	case sdk.PaymentIntentStatusRequiresPaymentMethod:
		return providers.Declined, true
	case sdk.PaymentIntentStatusCanceled:
		if isTakenInPart(payment) {
			return providers.Succeeded, true
		}
		return providers.Canceled, true
	default:
		return "", false
	}
}

// transactionOfRefund tells of one refund; code is why it cannot be.
func transactionOfRefund(refund *sdk.Refund) (listed providers.Transaction, code string) {
	if refund == nil || refund.Object != objectRefund || !refundForm.MatchString(refund.ID) || refund.Created <= 0 {
		return providers.Transaction{}, codeOtherObject
	}
	outcome := outcomeOfRefundStatus(refund)
	if outcome.Kind == providers.Unknown {
		return providers.Transaction{}, outcome.Code
	}
	listed = providers.Transaction{
		Kind: providers.TransactionRefund, Reference: refund.ID, Status: outcome.Kind, Money: listedMoney(refund.Amount, refund.Currency),
		Key: markedKey(refund.Metadata), SagaKey: markedSagaKey(refund.Metadata), At: time.Unix(refund.Created, 0).UTC(),
	}
	switch {
	case refund.PaymentIntent != nil:
		listed.Payment = safeID(refund.PaymentIntent.ID)
	case refund.Charge != nil: // of a charge that was made without a PaymentIntent
		listed.Payment = safeID(refund.Charge.ID)
	}
	return listed, ""
}

// listedMoney is an amount as far as it can be told. Other systems on the same account may charge in ways that we do not know; their
// payments must not keep ours from being listed.
func listedMoney(amount int64, currency sdk.Currency) providers.Money {
	money, err := fromStripe(amount, string(currency))
	if err != nil {
		return providers.Money{Currency: currencyForm.FindString(strings.ToUpper(string(currency)))}
	}
	return money
}

// currencyForm is that of ISO 4217: what has another is told without one.
var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// feeOf is what Stripe keeps of a charge, in the currency of the account's balance.
func feeOf(booked *sdk.BalanceTransaction) (fee int64, currency string) {
	if booked == nil || booked.Currency == "" { // not booked yet
		return 0, ""
	}
	money, err := fromStripe(booked.Fee, string(booked.Currency))
	if err != nil {
		return 0, ""
	}
	return money.Amount, money.Currency
}

// markedKey and markedSagaKey are the marks that our calls leave. Other systems' that have not the form of ours are left out.
func markedKey(marks map[string]string) providers.SubKey {
	return eventObject{Metadata: marks}.key()
}

func markedSagaKey(marks map[string]string) string {
	if mark := marks[metadataSagaKey]; keyForm.MatchString(mark) {
		return mark
	}
	return ""
}

// listErrorOf tells why a page could not be had, in the words of the one error map. Refused is what Stripe will refuse again.
func listErrorOf(err error) *providers.ListError {
	outcome := outcomeOfError(listCall, err)
	refused := outcome.Kind == providers.Rejected || outcome.Code == providers.CodeCredentialsRefused
	return &providers.ListError{Code: outcome.Code, RetryAfter: outcome.RetryAfter, Refused: refused}
}

// listPayments is one page of the payments that were made in a time, each with its latest charge and what of that was booked.
func (c *client) listPayments(ctx context.Context, made *sdk.RangeQueryParams, after string) ([]*sdk.PaymentIntent, bool, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentListParams{CreatedRange: made}
	params.AddExpand("data.latest_charge")
	params.AddExpand("data.latest_charge.balance_transaction")
	params.Context = ctx
	onePage(&params.ListParams, paymentsPageSize, after)
	list := c.payments.List(params)
	if err := list.Err(); err != nil {
		return nil, false, seen.Failed("list payments", err)
	}
	if page := list.PaymentIntentList(); isList(page.LastResponse, page.HasMore, len(page.Data)) {
		return page.Data, page.HasMore, nil
	}
	return nil, false, seen.Failed("list payments", errNotAList)
}

// listRefunds is one page of the refunds that were made in a time.
func (c *client) listRefunds(ctx context.Context, made *sdk.RangeQueryParams, after string) ([]*sdk.Refund, bool, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.RefundListParams{CreatedRange: made}
	params.Context = ctx
	onePage(&params.ListParams, refundsPageSize, after)
	list := c.refunds.List(params)
	if err := list.Err(); err != nil {
		return nil, false, seen.Failed("list refunds", err)
	}
	if page := list.RefundList(); isList(page.LastResponse, page.HasMore, len(page.Data)) {
		return page.Data, page.HasMore, nil
	}
	return nil, false, seen.Failed("list refunds", errNotAList)
}

// onePage has a list's call bring one page, from behind an id on.
func onePage(params *sdk.ListParams, size int64, after string) {
	params.Single = true
	params.Limit = new(size)
	if after != "" {
		params.StartingAfter = new(after)
	}
}

// isList tells an empty list from an answer that is something else, which stripe-go reads as an empty one, and from a page after
// which more is to come but that does not say after what.
func isList(answer *sdk.APIResponse, more bool, length int) bool {
	if answer == nil || answer.StatusCode != http.StatusOK || more && length == 0 {
		return false
	}
	var shape struct {
		Object string             `json:"object"`
		Data   *[]json.RawMessage `json:"data"`
		More   *bool              `json:"has_more"`
	}
	return json.Unmarshal(answer.RawJSON, &shape) == nil && shape.Object == "list" && shape.Data != nil && shape.More != nil
}
