package sandbox

import (
	"strings"
	"time"
)

// stripeSettlementColumns are those of an itemized payout reconciliation, with the metadata that shops can choose beside them.
var stripeSettlementColumns = []string{
	"automatic_payout_id", "automatic_payout_effective_at_utc", "automatic_payout_effective_at", "balance_transaction_id", "created_utc",
	"created", "available_on_utc", "available_on", "currency", "gross", "fee", "net", "reporting_category", "source_id", "description",
	"customer_facing_amount", "customer_facing_currency", "payment_intent_id", "charge_id", "payment_metadata[sub_key]",
	"payment_metadata[saga_key]", "refund_metadata[sub_key]",
}

// Stripe's reporting categories.
const (
	categoryCharge        = "charge"
	categoryRefund        = "refund"
	categoryRefundFailure = "refund_failure"
	categoryDispute       = "dispute"
	categoryPayout        = "payout"
)

// settlement is an itemized payout reconciliation: everything of a time is paid out at its end, in one payout for each currency, which is
// the last row about it.
func (a *stripeAPI) settlement(order settlementOrder) settlementFile {
	a.mu.Lock()
	bookings := inOrder(a.bookings(order))
	a.mu.Unlock()
	rows := [][]string{stripeSettlementColumns}
	for _, currency := range byCurrency(bookings) {
		payout := booking{
			at: order.until, kind: categoryPayout, currency: currency, about: "po_1" + order.id(22, stripeName, currency),
			id: "txn_1" + order.id(22, "transaction", currency),
		}
		for _, each := range bookings {
			if each.currency == currency {
				rows = append(rows, each.stripeRow(payout.about, order))
				payout.net -= each.net
			}
		}
		payout.gross = payout.net
		rows = append(rows, payout.stripeRow(payout.about, order))
	}
	return settlementFile{name: "Itemised_payout_reconciliation_" + order.until.UTC().Format("2006-01-02") + ".csv", content: table(rows)}
}

// bookings are those of a time.
func (a *stripeAPI) bookings(order settlementOrder) []booking {
	var bookings []booking
	add := func(each booking, of *stripeCharge) {
		if !order.covers(each.at) {
			return
		}
		marks := of.payment.metadata
		each.payment, each.currency = of.payment.id, strings.ToUpper(of.payment.currency)
		each.key, each.saga = marks["sub_key"], marks["saga_key"]
		bookings = append(bookings, each)
	}
	for _, charge := range a.store.charges {
		gross, fee, net := charge.settled.of(charge.captured, charge.fee())
		add(booking{at: charge.booked, kind: categoryCharge, id: charge.balanceID(), about: charge.id, gross: gross, fee: fee, net: net}, charge)
		if dispute := charge.dispute; dispute != nil {
			add(booking{
				at: dispute.at, kind: categoryDispute, id: "txn_" + dispute.id, about: dispute.id, gross: -dispute.amount,
				fee: stripeDisputeFee, net: -dispute.amount - stripeDisputeFee,
			}, charge)
		}
	}
	for _, refund := range a.store.refunds {
		booked := booking{
			at: refund.created, kind: categoryRefund, id: refund.balanceID(), about: refund.id, gross: -refund.amount, net: -refund.amount,
			ownKey: refund.metadata["sub_key"],
		}
		add(booked, refund.charge)
		booked.at, booked.kind, booked.id = refund.failed, categoryRefundFailure, refund.balanceID()+"f"
		booked.gross, booked.net = refund.amount, refund.amount
		add(booked, refund.charge)
	}
	return bookings
}

func (b booking) stripeRow(payout string, order settlementOrder) []string {
	const layout = "2006-01-02 15:04:05"
	currency := stripeCurrencies[lowerCurrency(b.currency)]
	told := func(amount int64) string { return decimal(amount, currency.decimals) }
	both := func(at time.Time) []string {
		return []string{at.UTC().Format(layout), at.In(order.zone).Format(layout)}
	}
	available, faced, charge := b.at.Add(balanceAvailableAfter), told(b.gross), ""
	switch b.kind {
	case categoryPayout:
		available, faced = b.at, ""
	case categoryCharge:
		charge = b.about
	}
	row := append([]string{payout}, both(order.until)...)
	row = append(append(row, b.id), both(b.at)...)
	row = append(row, both(available)...)
	return append(row, lowerCurrency(b.currency), told(b.gross), told(b.fee), told(b.net), b.kind, b.about, "", faced,
		lowerCurrency(b.currency), b.payment, charge, b.key, b.saga, b.ownKey)
}
