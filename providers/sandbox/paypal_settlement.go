package sandbox

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// payPalSettlementColumns are those of a settlement report, version 9. "Transaction  Debit or Credit" has two spaces in PayPal's files.
const payPalSettlementColumns = `"CH","Transaction ID","Invoice ID","PayPal Reference ID","PayPal Reference ID Type",` +
	`"Transaction Event Code","Transaction Initiation Date","Transaction Completion Date","Transaction  Debit or Credit",` +
	`"Gross Transaction Amount","Gross Transaction Currency","Fee Debit or Credit","Fee Amount","Fee Currency","Custom Field","Consumer ID",` +
	`"Payment Tracking ID","Store ID","Bank Reference ID","Credit Transactional Fee","Credit Promotional Fee","Credit Term"`

// The event codes of what is settled beside payments and refunds.
const (
	transactionChargeback    = "T1201"
	transactionChargebackFee = "T0106"
	transactionWithdrawal    = "T0400"
)

// payPalReport writes a settlement report: texts in quotes, times and amounts without, amounts in PayPal's smallest units without a sign.
type payPalReport struct {
	order   settlementOrder
	content bytes.Buffer
	rows    int
	sums    map[string]*payPalSums
}

// payPalSums are what the rows of one currency come to.
type payPalSums struct {
	credits, debits, feeDebits int64
	rows                       int
}

// settlement is a settlement report (STL) of one account. Each currency begins at nothing, and what came together is withdrawn to the
// bank by its last row; a sum below nothing is left on the balance.
func (a *paypalAPI) settlement(order settlementOrder) settlementFile {
	now := a.server.clock.now()
	a.mu.Lock()
	a.refresh(now)
	bookings := inOrder(a.bookings(order))
	a.mu.Unlock()
	report := payPalReport{order: order, sums: make(map[string]*payPalSums)}
	report.content.WriteString("\uFEFF")
	report.line(`"RH"`, report.time(order.until), `"A"`, quoted(sandboxMerchant), "009", "")
	report.line(`"FH"`, "01")
	report.line(`"SH"`, report.time(order.from), report.time(order.until.Add(-time.Second)), quoted(sandboxMerchant), `""`)
	report.line(payPalSettlementColumns)
	for _, each := range bookings {
		report.booking(each)
	}
	currencies := byCurrency(bookings)
	for _, currency := range currencies {
		if sum := report.sums[currency].sum(); sum > 0 {
			report.booking(booking{
				at: order.until.Add(-time.Second), kind: transactionWithdrawal, id: order.id(17, paypalName, currency), currency: currency,
				gross: -sum,
			})
		}
	}
	for _, scope := range []string{"S", "R"} {
		for _, currency := range currencies {
			report.footer(scope+"F", currency)
		}
		report.line(quoted(scope+"C"), strconv.Itoa(report.rows))
	}
	report.line(`"FF"`, strconv.Itoa(report.rows))
	return settlementFile{
		name: "STL-" + order.until.Add(-time.Second).In(order.zone).Format("20060102") + ".01.009.CSV", content: report.content.Bytes(),
	}
}

// bookings are those of a time.
func (a *paypalAPI) bookings(order settlementOrder) []booking {
	var bookings []booking
	add := func(each booking, of *paypalCapture) {
		if order.covers(each.at) {
			each.currency = of.order.currency
			bookings = append(bookings, each)
		}
	}
	for _, capture := range a.store.captures {
		if !capture.taken() {
			continue
		}
		gross, fee, _ := capture.settled.of(capture.amount, paypalFees.of(capture.amount))
		held := ""
		if capture.authorization != nil {
			held = capture.authorization.id
		}
		add(booking{
			at: capture.booked, kind: transactionPayment, id: capture.id, payment: held, gross: gross, fee: fee, key: capture.invoiceID,
			saga: capture.order.customID,
		}, capture)
		if back := capture.chargeback; back.amount > 0 {
			add(booking{at: back.at, kind: transactionChargeback, id: back.id, payment: capture.id, gross: -back.amount}, capture)
			add(booking{at: back.at, kind: transactionChargebackFee, id: back.feeID, payment: capture.id, gross: -paypalDisputeFee}, capture)
		}
	}
	for _, refund := range a.store.refunds {
		if refund.status == paypalCompleted {
			add(booking{
				at: refund.booked, kind: transactionRefund, id: refund.id, payment: refund.capture.id, gross: -refund.amount,
				key: refund.labels().invoice, saga: refund.labels().custom,
			}, refund.capture)
		}
	}
	return bookings
}

func (r *payPalReport) line(fields ...string) {
	r.content.WriteString(strings.Join(fields, ","))
	r.content.WriteString("\r\n")
}

func (r *payPalReport) time(at time.Time) string {
	return at.In(r.order.zone).Format("2006/01/02 15:04:05 -0700")
}

// booking writes an SB row.
func (r *payPalReport) booking(b booking) {
	sums, known := r.sums[b.currency]
	if !known {
		sums = &payPalSums{}
		r.sums[b.currency] = sums
	}
	sums.credits, sums.debits, sums.feeDebits = sums.credits+max(b.gross, 0), sums.debits+max(-b.gross, 0), sums.feeDebits+b.fee
	sums.rows++
	r.rows++
	side, amount := "CR", b.gross
	if b.gross < 0 {
		side, amount = "DR", -b.gross
	}
	fee := [3]string{`""`, "", `""`}
	if b.fee > 0 {
		fee = [3]string{`"DR"`, strconv.FormatInt(b.fee, 10), quoted(b.currency)}
	}
	reference, payer := "", ""
	if b.payment != "" {
		reference = "TXN"
	}
	if b.kind != transactionWithdrawal {
		payer = sandboxPayer
	}
	r.line(
		`"SB"`, quoted(b.id), quoted(b.key), quoted(b.payment), quoted(reference), quoted(b.kind), r.time(b.at), r.time(b.at), quoted(side),
		strconv.FormatInt(amount, 10), quoted(b.currency), fee[0], fee[1], fee[2], quoted(b.saga), quoted(payer), `""`, `""`, `""`, "", "", "",
	)
}

func (s *payPalSums) sum() int64 { return s.credits - s.debits - s.feeDebits }

// footer writes an SF or RF row: sums, then the available, the total and the payable balance, each at the beginning and at the end.
func (r *payPalReport) footer(kind, currency string) {
	sums := r.sums[currency]
	side, end := `"CR"`, sums.sum()
	if end < 0 {
		side, end = `"DR"`, -end
	}
	closing := strconv.FormatInt(end, 10)
	told := func(sum int64) string { return strconv.FormatInt(sum, 10) }
	r.line(
		quoted(kind), quoted(currency), told(sums.credits), told(sums.debits), "0", told(sums.feeDebits), `"CR"`, "0", side, closing,
		`"CR"`, "0", side, closing, `"CR"`, "0", `"CR"`, "0", strconv.Itoa(sums.rows),
	)
}

// quoted is a text as PayPal writes it.
func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }
