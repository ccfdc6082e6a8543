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
	maxReportSpan      = 31 * 24 * time.Hour
	maxReportPage      = 500
	defaultReportPage  = 100
	transactionPayment = "T0006"
	transactionRefund  = "T1107"
)

// reported is one line of the transaction report.
type reported struct {
	at       time.Time
	id       string
	currency string
	status   string // S, P, D, V: PayPal's letters
	object   paypalObject
}

// transactionStatus is the letter for a capture's or a refund's status.
func transactionStatus(status string) string {
	switch status {
	case paypalPending:
		return "P"
	case paypalDeclined, paypalFailed:
		return "D"
	case paypalRefunded:
		return "V"
	default:
		return "S"
	}
}

// searchTransactions is GET /v1/reporting/transactions: what was taken and given back, not what is only held. It lags behind
// by the sandbox's search delay. PayPal has no filter by invoice_id; each line carries it.
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
	lines := slices.DeleteFunc(a.report(), func(line reported) bool {
		return line.at.After(visible) || line.at.Before(start) || line.at.After(end) || !line.wanted(query)
	})
	slices.SortStableFunc(lines, func(a, b reported) int { return a.at.Compare(b.at) })
	total := len(lines)
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

// report is every line that there is.
func (a *paypalAPI) report() []reported {
	lines := make([]reported, 0, len(a.store.captures)+len(a.store.refunds))
	for _, capture := range a.store.captures {
		status := transactionStatus(capture.status)
		line := transaction(capture.id, transactionPayment, status, capture.created, capture.changed)
		line["transaction_amount"] = money(capture.amount, capture.order.currency)
		line.label("invoice_id", capture.invoiceID)
		line.label("custom_field", capture.order.customID)
		if capture.authorization != nil {
			line["paypal_reference_id"], line["paypal_reference_id_type"] = capture.authorization.id, "TXN"
		}
		lines = append(lines, reported{at: capture.created, id: capture.id, currency: capture.order.currency, status: status, object: line})
	}
	for _, refund := range a.store.refunds {
		status := transactionStatus(refund.status)
		line := transaction(refund.id, transactionRefund, status, refund.created, refund.changed)
		line["transaction_amount"] = money(-refund.amount, refund.capture.order.currency)
		line["paypal_reference_id"], line["paypal_reference_id_type"] = refund.capture.id, "TXN"
		line.label("invoice_id", refund.invoiceID)
		line.label("custom_field", refund.customID)
		lines = append(lines, reported{at: refund.created, id: refund.id, currency: refund.capture.order.currency, status: status, object: line})
	}
	return lines
}

func transaction(id, code, status string, created, changed time.Time) paypalObject {
	return paypalObject{
		"paypal_account_id": sandboxPayer, "transaction_id": id, "transaction_event_code": code, "transaction_status": status,
		"transaction_initiation_date": paypalTime(created), "transaction_updated_date": paypalTime(changed),
	}
}
