package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// adyenSettlementColumns are the standard ones of a settlement details report, and when a row was booked.
var adyenSettlementColumns = []string{
	"Company Account", "Merchant Account", "Psp Reference", "Merchant Reference", "Payment Method", "Creation Date", "TimeZone", "Type",
	"Modification Reference", "Gross Currency", "Gross Debit (GC)", "Gross Credit (GC)", "Exchange Rate", "Net Currency", "Net Debit (NC)",
	"Net Credit (NC)", "Commission (NC)", "Markup (NC)", "Scheme Fees (NC)", "Interchange (NC)", "Payment Method Variant",
	"Modification Merchant Reference", "Batch Number", "Reserved4", "Reserved5", "Reserved6", "Reserved7", "Reserved8", "Reserved9",
	"Reserved10", "Booking Date", "Booking Date TimeZone",
}

// The journal types of rows that are about a batch and not about one payment.
const (
	journalFee      = "Fee"
	journalTransfer = "Balancetransfer" // a batch that came to less than nothing is carried over
	journalPayout   = "MerchantPayout"
)

const (
	sandboxCompany = "SandboxCompany"
	sandboxShop    = "SandboxMerchant"
	// adyenProcessingFee is what Adyen keeps of each payment, told in one row for the batch; in its units, whatever the currency.
	adyenProcessingFee = 11
)

// settlement is a settlement details report of one batch for each merchant account and currency: what came and went, Adyen's own fee, and
// the payout of the rest.
func (a *adyenAPI) settlement(order settlementOrder) settlementFile {
	a.mu.Lock()
	a.refresh(a.server.clock.now())
	bookings := inOrder(a.bookings(order))
	a.mu.Unlock()
	rows := make([][]string, 1, len(bookings)+2)
	rows[0] = adyenSettlementColumns
	var merchants []string
	for _, each := range bookings {
		if !slices.Contains(merchants, each.merchant) {
			merchants = append(merchants, each.merchant)
		}
	}
	slices.Sort(merchants)
	for _, merchant := range merchants {
		for _, currency := range byCurrency(bookings) {
			rows = append(rows, adyenBatch(bookings, merchant, currency, order)...)
		}
	}
	return settlementFile{name: "settlement_detail_report_batch_" + strconv.Itoa(order.batch) + ".csv", content: table(rows)}
}

// adyenBatch are the rows of one merchant account in one currency.
func adyenBatch(bookings []booking, merchant, currency string, order settlementOrder) (rows [][]string) {
	sum, payments := int64(0), int64(0)
	for _, each := range bookings {
		if each.merchant != merchant || each.currency != currency {
			continue
		}
		rows = append(rows, each.adyenRow(order))
		sum += each.net
		if each.kind == journalSettled {
			payments++
		}
	}
	if len(rows) == 0 {
		return nil
	}
	closing := booking{at: order.until, merchant: merchant, currency: currency}
	row := func(kind, text string, net int64) {
		closing.kind, closing.about, closing.net = kind, text, net
		rows = append(rows, closing.adyenRow(order))
		sum += net
	}
	if payments > 0 {
		row(journalFee, "Transaction Fees "+order.until.In(order.zone).Format("January 2006"), -payments*adyenProcessingFee)
	}
	switch {
	case sum > 0:
		row(journalPayout, fmt.Sprintf("%s batch %d, %s", "TX"+order.id(10, adyenName, merchant, currency)+"XT", order.batch, merchant), -sum)
	case sum < 0:
		row(journalTransfer, fmt.Sprintf("Balancetransfer to batch %d of %s", order.batch+1, merchant), -sum)
	}
	return rows
}

// bookings are those of a time.
func (a *adyenAPI) bookings(order settlementOrder) []booking {
	var bookings []booking
	for _, p := range a.store.payments {
		for _, entry := range p.bookings {
			if order.covers(entry.at) {
				bookings = append(bookings, p.booked(entry, cmp.Or(p.merchant, a.merchant, sandboxShop)))
			}
		}
	}
	return bookings
}

// booked is an entry as the report tells it.
func (p *adyenPayment) booked(entry adyenBooking, merchant string) booking {
	told := booking{
		at: entry.at, kind: entry.kind, payment: p.psp, about: entry.psp, currency: p.currency, key: p.reference, ownKey: entry.reference,
		merchant: merchant, gross: -entry.amount,
	}
	switch entry.kind {
	case journalSettled:
		told.costs = adyenCosts(entry.amount)
		told.gross, told.fee, told.net = p.settled.of(entry.amount, told.costs.sum())
		if told.fee != told.costs.sum() {
			told.costs = adyenCost{markup: told.fee}
		}
		return told
	case journalChargeback:
		told.costs.markup, told.fee = adyenDisputeFee, adyenDisputeFee
	case journalRefundReversed:
		told.gross = entry.amount
	}
	told.net = told.gross - told.fee
	return told
}

func (b booking) adyenRow(order settlementOrder) []string {
	currency := adyenCurrencies[b.currency]
	at := b.at.In(order.zone)
	created, zone := at.Format(time.DateTime), at.Format("MST")
	row := []string{
		sandboxCompany, b.merchant, b.payment, b.key, "", created, zone, b.kind, b.about, "", "", "", "", b.currency,
	}
	row = append(row, sides(b.net, currency.decimals)...)
	costs := []string{"", "", "", ""}
	if b.payment != "" {
		row[4], row[9], row[12] = brandVisa, b.currency, "1"
		copy(row[10:12], sides(b.gross, currency.decimals))
		for i, cost := range []int64{b.costs.markup, b.costs.scheme, b.costs.interchange} {
			if cost != 0 {
				costs[i+1] = decimal(cost, currency.decimals)
			}
		}
	}
	row = append(append(row, costs...), row[4], b.ownKey, strconv.Itoa(order.batch))
	return append(row, "", "", "", "", "", "", "", created, zone)
}

// sides is an amount as debit and credit.
func sides(amount int64, decimals int) []string {
	if amount < 0 {
		return []string{decimal(-amount, decimals), ""}
	}
	return []string{"", decimal(amount, decimals)}
}
