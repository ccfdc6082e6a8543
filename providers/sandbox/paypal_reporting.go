package sandbox

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a transaction search, PayPal's own.
const (
	maxReportSpan     = 31 * 24 * time.Hour
	maxReportPage     = 500
	defaultReportPage = 100
	maxReportResults  = 10_000
)

// PayPal's transaction event codes.
const (
	transactionPayment       = "T0006"
	transactionRefund        = "T1107"
	transactionAuthorization = "T1300"
	transactionVoid          = "T1302"
)

// reported is one line of the transaction report.
type reported struct {
	at       time.Time
	id       string
	currency string
	status   string // S, P, D, V: PayPal's letters
	object   paypalObject
}

// transactionStatus is the letter for a status. Of authorizations PayPal's documents tell none: an open one is taken for pending, one
// that was captured for completed, one that is gone for reversed.
func transactionStatus(status string) string {
	switch status {
	case paypalPending, paypalCreated, paypalPartiallyCaptured:
		return "P"
	case paypalDeclined, paypalDenied, paypalFailed:
		return "D"
	case paypalRefunded, paypalVoided:
		return "V"
	default:
		return "S"
	}
}

// searchTransactions is GET /v1/reporting/transactions: what was taken and given back; with balance_affecting_records_only=N what was
// held, too. It lags behind by the sandbox's search delay, and refuses what has over 10,000 results. PayPal has no filter by invoice_id;
// each line carries it.
func (a *paypalAPI) searchTransactions(c paypalCall) (paypalResult, *paypalError) {
	query := url.Values(c.query)
	start, startError := time.Parse(time.RFC3339, query.Get("start_date"))
	end, endError := time.Parse(time.RFC3339, query.Get("end_date"))
	switch {
	case startError != nil:
		return paypalResult{}, reportIssue("start_date")
	case endError != nil || end.Before(start) || end.Sub(start) > maxReportSpan:
		return paypalResult{}, reportIssue("end_date")
	}
	page, size := positive(query.Get("page"), 1), positive(query.Get("page_size"), defaultReportPage)
	if page < 1 || size < 1 || size > maxReportPage {
		return paypalResult{}, reportIssue("page_size")
	}
	search, _ := a.server.settings.delays()
	visible := c.now.Add(-search)
	lines := slices.DeleteFunc(a.report(start, earlier(end, visible), query.Get("balance_affecting_records_only") == "N"),
		func(line reported) bool { return !line.wanted(query) })
	slices.SortStableFunc(lines, func(a, b reported) int { return a.at.Compare(b.at) })
	total := len(lines)
	if total > maxReportResults {
		return paypalResult{}, reportTooLarge()
	}
	first := min((page-1)*size, total)
	details := []paypalObject{}
	for _, line := range lines[first:min(first+size, total)] {
		details = append(details, paypalObject{"transaction_info": line.object})
	}
	show := func(view paypalView) any {
		return paypalObject{
			"transaction_details": details, "account_number": sandboxMerchant, "start_date": paypalTime(start), "end_date": paypalTime(end),
			"last_refreshed_datetime": paypalTime(visible), "page": page, "total_items": total, "total_pages": (total + size - 1) / size,
			"links": []paypalLink{view.link("self", http.MethodGet, "/v1/reporting/transactions?"+query.Encode())},
		}
	}
	return paypalResult{status: http.StatusOK, show: show}, nil
}

func reportIssue(field string) *paypalError {
	refusal := paypalBadRequest("INVALID_PARAMETER_VALUE", field)
	refusal.Details[0].Location = "query"
	return refusal
}

// reportTooLarge is PayPal's refusal of a search with too many results.
func reportTooLarge() *paypalError {
	refusal := paypalRefusal(http.StatusBadRequest)
	refusal.Name, refusal.Message = "RESULTSET_TOO_LARGE", "Result set size is greater than the maximum limit. Change the filter criteria."
	return refusal
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// positive reads a number, fallback when there is none and 0 when it is none. Nine digits keep the arithmetic exact.
func positive(text string, fallback int) int {
	if text == "" {
		return fallback
	}
	number, err := strconv.Atoi(text)
	if err != nil || len(text) > 9 {
		return 0
	}
	return number
}

func (line reported) wanted(query url.Values) bool {
	for _, filter := range []struct{ name, value string }{
		{"transaction_id", line.id}, {"transaction_status", line.status}, {"transaction_currency", line.currency},
	} {
		if asked := query.Get(filter.name); asked != "" && !strings.EqualFold(asked, filter.value) {
			return false
		}
	}
	return true
}

// report is every line of a time, its ends included; whole also the lines that moved no balance.
func (a *paypalAPI) report(from, to time.Time, whole bool) []reported {
	within := func(at time.Time) bool { return !at.Before(from) && !at.After(to) }
	var lines []reported
	for _, capture := range a.store.captures {
		if within(capture.created) {
			lines = append(lines, capture.reported())
		}
	}
	for _, refund := range a.store.refunds {
		if within(refund.created) {
			lines = append(lines, refund.reported())
		}
	}
	if !whole {
		return lines
	}
	for _, authorization := range a.store.authorizations {
		if within(authorization.created) {
			lines = append(lines, authorization.reported())
		}
		if authorization.status == paypalVoided && !authorization.expired() && within(authorization.changed) {
			lines = append(lines, authorization.reportedVoid())
		}
	}
	return lines
}

func (c *paypalCapture) reported() reported {
	status := transactionStatus(c.status)
	line := transaction(c.id, transactionPayment, status, c.created, c.changed)
	line["transaction_amount"] = money(c.amount, c.order.currency)
	if c.taken() {
		line["fee_amount"] = money(-paypalFees.of(c.amount), c.order.currency)
	}
	line.label("invoice_id", c.invoiceID)
	line.label("custom_field", c.order.customID)
	if c.authorization != nil {
		line.refersTo(c.authorization.id)
	}
	return reported{at: c.created, id: c.id, currency: c.order.currency, status: status, object: line}
}

// reported is a refund's line. One that was made in the dashboard has no labels of its own and shows the payment's.
func (r *paypalRefund) reported() reported {
	status := transactionStatus(r.status)
	line := transaction(r.id, transactionRefund, status, r.created, r.changed)
	line["transaction_amount"] = money(-r.amount, r.capture.order.currency)
	line.refersTo(r.capture.id)
	line.label("invoice_id", r.labels().invoice)
	line.label("custom_field", r.labels().custom)
	return reported{at: r.created, id: r.id, currency: r.capture.order.currency, status: status, object: line}
}

type paypalLabels struct{ invoice, custom string }

func (r *paypalRefund) labels() paypalLabels {
	if r.invoiceID == "" {
		return paypalLabels{invoice: r.capture.invoiceID, custom: r.capture.order.customID}
	}
	return paypalLabels{invoice: r.invoiceID, custom: r.customID}
}

func (z *paypalAuthorization) reported() reported {
	status := transactionStatus(z.status)
	line := transaction(z.id, transactionAuthorization, status, z.created, z.changed)
	line["transaction_amount"] = money(z.amount, z.order.currency)
	line.label("invoice_id", z.order.invoiceID)
	line.label("custom_field", z.order.customID)
	return reported{at: z.created, id: z.id, currency: z.order.currency, status: status, object: line}
}

// reportedVoid is the line of a void: a transaction of its own that refers to the authorization.
func (z *paypalAuthorization) reportedVoid() reported {
	line := transaction(z.voidID, transactionVoid, "S", z.changed, z.changed)
	line["transaction_amount"] = money(z.amount-z.captured, z.order.currency)
	line.refersTo(z.id)
	line.label("invoice_id", z.order.invoiceID)
	line.label("custom_field", z.order.customID)
	return reported{at: z.changed, id: z.voidID, currency: z.order.currency, status: "S", object: line}
}

func (p paypalObject) refersTo(transaction string) {
	p["paypal_reference_id"], p["paypal_reference_id_type"] = transaction, "TXN"
}

func transaction(id, code, status string, created, changed time.Time) paypalObject {
	return paypalObject{
		"paypal_account_id": sandboxPayer, "transaction_id": id, "transaction_event_code": code, "transaction_status": status,
		"transaction_initiation_date": paypalTime(created), "transaction_updated_date": paypalTime(changed),
	}
}
