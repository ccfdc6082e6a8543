package paypal

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// listDelay is how far PayPal's transaction search can be behind.
	listDelay = lookupDelay
	// listSpan is PayPal's longest, 31 days, less what is asked for around it.
	listSpan = 31*24*time.Hour - time.Minute
	// resultSetTooLarge is PayPal's refusal, with 400, of a search that has over 10,000 results.
	resultSetTooLarge = "RESULTSET_TOO_LARGE"
)

// PayPal's transaction event codes, as far as they are about a customer's payment. Transfers to and from the account, conversions, fees,
// PayPal's own holds and the reversals of all these are no payments and are left out.
const (
	eventsOfPayments     = "T00"   // T0006 is Checkout; the others are other ways to pay
	eventReversal        = "T1106" // PayPal gave the payment back
	eventRefund          = "T1107"
	eventAuthorization   = "T1300"
	eventReauthorization = "T1301"
	eventVoid            = "T1302" // of the authorization to which it refers
)

// PayPal's letters for how a transaction stands.
const (
	letterSettled  = "S"
	letterWaiting  = "P"
	letterRefused  = "D"
	letterReversed = "V" // given back in full; of an authorization: let go
)

// ListLimits are how PayPal can be listed: by the time at which a transaction began, up to three hours ago.
func (*Adapter) ListLimits() providers.ListLimits {
	return providers.ListLimits{Delay: listDelay, Span: listSpan}
}

// List reads a page of everything that began in a time, by whomever: captures, authorizations, refunds, the oldest first. All pages
// must add up to what PayPal said at the first one, else CodeListChanged. PayPal gives 10,000 transactions at most: CodeListTooLong.
// An index that is not as new as Until is CodeListBehind. Errors: *providers.ListError.
func (a *Adapter) List(ctx context.Context, request providers.ListRequest) (providers.ListPage, error) {
	at, ok := readPlace(request.Cursor)
	if !ok || !request.Until.After(request.From) || request.Until.Sub(request.From) > listSpan {
		return providers.ListPage{}, &providers.ListError{Code: providers.CodeListRequest, Refused: true}
	}
	// PayPal tells whole seconds and may compare finer ones: what is asked for is a little more, and what was told decides.
	from, until := request.From.Truncate(time.Second), request.Until.Add(time.Second).Truncate(time.Second)
	if now, asked := a.now(), request.Until.Truncate(time.Second); until.After(now) { // no more than what was asked for, but all of that
		until = asked
		if now.After(asked) {
			until = now
		}
	}
	answered, err := a.client.transactions(ctx, from, until, at.page)
	if err != nil {
		return providers.ListPage{}, listErrorOf(err)
	}
	next, err := at.after(answered)
	if err != nil {
		return providers.ListPage{}, err
	}
	if refreshed := a.refreshedOf(answered); refreshed.Before(request.Until.Truncate(time.Second)) {
		return providers.ListPage{}, &providers.ListError{Code: providers.CodeListBehind, RetryAfter: operatorDelay, Until: refreshed}
	}
	listed, err := transactionsIn(answered.Details, request.From, request.Until)
	if err != nil {
		return providers.ListPage{}, err
	}
	return providers.ListPage{Transactions: listed, Next: next}, nil
}

// refreshedOf is how new the index is. Where PayPal does not tell, it is taken for as old as it can be.
func (a *Adapter) refreshedOf(page *transactionPage) time.Time {
	if page.Refreshed.IsZero() {
		return a.now().Add(-listDelay)
	}
	return page.Refreshed.Time
}

// place is how far a list is read: the page that comes next, how many items PayPal said at the first page that there are, and how many
// were on the pages before.
type place struct{ page, items, read int }

// cursorForm is "page/items/read". No list that PayPal gives has more digits.
var cursorForm = regexp.MustCompile(`^[0-9]{1,2}/[0-9]{1,5}/[0-9]{1,5}$`)

func readPlace(cursor string) (place, bool) {
	if cursor == "" {
		return place{page: 1, items: -1}, true
	}
	var at place
	if !cursorForm.MatchString(cursor) {
		return at, false
	}
	if _, err := fmt.Sscanf(cursor, "%d/%d/%d", &at.page, &at.items, &at.read); err != nil {
		return at, false
	}
	return at, at.page > 1 && at.page <= maxSearchPages
}

// after is the cursor behind a page, empty behind the last one. Transactions that move between pages while they are read would be
// missed, so the pages have to add up.
func (at place) after(page *transactionPage) (cursor string, err error) {
	if page.TotalItems == nil || page.TotalPages == nil {
		return "", &providers.ListError{Code: codeUnreadableResponse}
	}
	items, pages, read := *page.TotalItems, *page.TotalPages, at.read+len(page.Details)
	switch {
	case pages > maxSearchPages:
		return "", &providers.ListError{Code: providers.CodeListTooLong}
	case at.items >= 0 && at.items != items:
		return "", &providers.ListError{Code: providers.CodeListChanged}
	case at.page >= pages && read != items, at.page < pages && len(page.Details) != searchPageSize:
		return "", &providers.ListError{Code: providers.CodeListChanged}
	case at.page >= pages:
		return "", nil
	default:
		return fmt.Sprintf("%d/%d/%d", at.page+1, items, read), nil
	}
}

// transactionsIn picks what is about payments and was made in a time, each once: a transaction that changed stands in the search more
// than once, under one id.
func transactionsIn(details []transaction, from, until time.Time) ([]providers.Transaction, error) {
	type identity struct {
		kind      providers.TransactionKind
		reference string
	}
	listed := make([]providers.Transaction, 0, len(details))
	places := make(map[identity]int, len(details))
	for _, detail := range details {
		told, ok, err := transactionOf(detail.Info)
		if err != nil {
			return nil, err
		}
		if !ok || told.At.Before(from) || !told.At.Before(until) {
			continue
		}
		id := identity{told.Kind, told.Reference}
		if before, known := places[id]; known {
			if !told.At.Before(listed[before].At) {
				listed[before] = told
			}
			continue
		}
		places[id] = len(listed)
		listed = append(listed, told)
	}
	return listed, nil
}

// transactionOf tells of one transaction; ok is false for one that is not about a customer's payment.
func transactionOf(info transactionInfo) (told providers.Transaction, ok bool, err error) {
	money, debit := listedMoney(info.Amount)
	kind, status, ok := meaningOf(info, debit)
	if !ok {
		return providers.Transaction{}, false, nil
	}
	told = providers.Transaction{
		Kind: kind, Reference: info.ID, Payment: info.ID, Status: status, Money: money, At: info.Began.UTC(),
		Key: providers.SubKey(formed(keyForm, info.InvoiceID)), SagaKey: formed(keyForm, info.CustomField),
	}
	related := formed(idForm, info.ReferenceID)
	if related != "" && (info.ReferenceType == "TXN" || info.ReferenceType == "ODR") {
		told.Payment = related
	}
	if info.Event == eventVoid { // tells of the authorization, not of itself
		told.Reference = related
	}
	if kind == providers.TransactionPayment {
		told.Refunded = -1
		if info.Status == letterReversed && status == providers.Succeeded {
			told.Refunded = money.Amount
		}
	}
	told.Fee, told.FeeCurrency = feeOf(info.Fee)
	if !idForm.MatchString(told.Reference) || info.Began.IsZero() {
		return providers.Transaction{}, false, &providers.ListError{Code: codeOtherObject}
	}
	return told, true, nil
}

// meaningOf is what a transaction is, and how it stands. Payments are credits and refunds are debits; the other way round they are
// payments that the shop makes itself.
func meaningOf(info transactionInfo, debit bool) (kind providers.TransactionKind, status providers.OutcomeKind, ok bool) {
	switch {
	case strings.HasPrefix(info.Event, eventsOfPayments) && !debit:
		return providers.TransactionPayment, letterMeans(info.Status, providers.Succeeded, providers.Processing, providers.Succeeded), true
	case info.Event == eventAuthorization, info.Event == eventReauthorization:
		// PayPal's documents do not say whether a hold that it is done with was captured. Its captures are listed by themselves, so the hold
		// must not count beside them.
		return providers.TransactionPayment, letterMeans(info.Status, providers.Processing, providers.Authorized, providers.Canceled), true
	case info.Event == eventVoid:
		return providers.TransactionPayment, providers.Canceled, info.ReferenceType == "TXN"
	case (info.Event == eventRefund || info.Event == eventReversal) && debit:
		return providers.TransactionRefund, letterMeans(info.Status, providers.Succeeded, providers.Processing, providers.Canceled), true
	default:
		return "", "", false
	}
}

// isPaymentOf tells that a transaction is the payment that a key made. PayPal shows what became of it, refunds that were made in the
// dashboard and voids, under the payment's invoice number as well.
func (i transactionInfo) isPaymentOf(key providers.SubKey) bool {
	became := i.Event == eventRefund || i.Event == eventReversal || i.Event == eventVoid
	return i.InvoiceID == string(key) && !became
}

// letterMeans picks how a transaction stands. A letter that PayPal's documents do not list says that there is no end yet.
func letterMeans(letter string, settled, waiting, reversed providers.OutcomeKind) providers.OutcomeKind {
	switch letter {
	case letterSettled:
		return settled
	case letterWaiting:
		return waiting
	case letterRefused:
		return providers.Declined
	case letterReversed:
		return reversed
	default:
		return providers.Processing
	}
}

// listedMoney is an amount without its sign, as far as it can be told: what other systems on the same account do must not keep ours from
// being listed.
func listedMoney(told *amount) (money providers.Money, debit bool) {
	if told == nil {
		return providers.Money{}, false
	}
	value, debit := strings.CutPrefix(told.Value, "-")
	money, err := fromPayPal(&amount{Currency: told.Currency, Value: value})
	if err != nil {
		return providers.Money{Currency: formed(currencyForm, told.Currency)}, debit
	}
	return money, debit
}

// feeOf is what PayPal keeps. It tells a fee as a debit, and one that it gives back as a credit.
func feeOf(told *amount) (fee int64, currency string) {
	if told == nil {
		return 0, ""
	}
	value, debit := strings.CutPrefix(told.Value, "-")
	money, err := fromPayPal(&amount{Currency: told.Currency, Value: value})
	switch {
	case err != nil:
		return 0, ""
	case !debit:
		return -money.Amount, money.Currency
	default:
		return money.Amount, money.Currency
	}
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// formed is a text that has a form, or empty.
func formed(form *regexp.Regexp, text string) string {
	if form.MatchString(text) {
		return text
	}
	return ""
}

// listErrorOf tells why a page could not be had, in the words of the one error map. Refused is what PayPal will refuse again.
func listErrorOf(err error) *providers.ListError {
	if failure, ok := errors.AsType[*callError](err); ok && failure.problem != nil && failure.problem.says(resultSetTooLarge) {
		return &providers.ListError{Code: providers.CodeListTooLong}
	}
	outcome := outcomeOfError(listCall, err)
	refused := outcome.Kind == providers.Rejected || outcome.Kind == providers.NotFound || outcome.Code == providers.CodeCredentialsRefused
	return &providers.ListError{Code: outcome.Code, RetryAfter: outcome.RetryAfter, Refused: refused}
}

// says tells whether an error is one of a name, which PayPal gives as the name itself or as its first issue.
func (p *problem) says(name string) bool { return p.Name == name || p.issue() == name }
