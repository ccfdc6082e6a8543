package statement

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
)

// payPalFile reads PayPal's settlement report (STL). Each row says in its first field what it is: RH report header, FH file header, SH
// section header (one account), CH the columns of the section, SB a booking, SF the section's sums by currency, SC its rows, RF and RC the
// same of the report, FF of the file. Amounts are in the currency's smallest unit without any separator, with CR or DR beside them.
type payPalFile struct {
	account  string
	columns  payPalColumns
	readable bool // the section's columns are known
	twins    *twins
	pairs    pairing
	check    payPalCheck
}

type payPalColumns struct {
	head                                                    header
	id, invoice, reference, referenceType, code             column
	initiated, completed                                    column
	direction, gross, currency, feeDirection, fee, feeMoney column
	custom                                                  column
	last                                                    int
}

var (
	errRowKind   = errors.New("is of no kind that a settlement report has")
	errColumns   = errors.New("belongs to a section without readable columns")
	errNotStl    = errors.New("has the columns of another report: only settlement reports tell what was settled")
	errDirection = errors.New("is neither CR nor DR")
	errFeeMoney  = errors.New("is another currency than that of the amount")
	errMinor     = errors.New("is no whole number: settlement reports tell amounts in the currency's smallest unit, without separators")
)

// isPayPal tells the first row of a report, or of a later file of one.
func isPayPal(fields []string) bool {
	return slices.Contains([]string{"RH", "FH", "SH"}, rowKind(fields)) && len(fields) > 1
}

func rowKind(fields []string) string { return strings.ToUpper(strings.TrimSpace(fields[0])) }

func newPayPal() *payPalFile {
	return &payPalFile{twins: newTwins(), pairs: newPairing(), check: newPayPalCheck()}
}

func (*payPalFile) learn(row) bool        { return true } // its numbers have no separators
func (f *payPalFile) end(emit func(Line)) { f.pairs.flush(emit) }
func (f *payPalFile) controls() []Control { return f.check.controls() }
func (*payPalFile) field(at int, of row) string {
	return of.raw(column{at: at})
}

func (f *payPalFile) read(read row, emit func(Line)) error {
	switch rowKind(read.fields) {
	case "RH":
		return nil
	case "FH":
		return f.check.beginFile(f.field(1, read))
	case "SH":
		f.account, f.readable = f.field(3, read), false
		f.check.beginSection(f.account)
		return nil
	case "CH":
		return f.header(read)
	case "SB":
		return f.booking(read, emit)
	case "SF", "RF":
		return f.check.footer(read)
	case "SC", "RC", "FF":
		return f.check.count(read)
	default:
		return &rowError{number: read.number, reason: errRowKind.Error()}
	}
}

func (f *payPalFile) header(read row) error {
	f.readable = false
	head := newHeader(read.fields)
	columns := payPalColumns{
		head:          head,
		id:            head.column("transactionid"),
		invoice:       head.column("invoiceid"),
		reference:     head.column("paypalreferenceid"),
		referenceType: head.column("paypalreferenceidtype"),
		code:          head.column("transactioneventcode"),
		initiated:     head.column("transactioninitiationdate"),
		completed:     head.column("transactioncompletiondate"),
		direction:     head.column("transactiondebitorcredit"),
		gross:         head.column("grosstransactionamount"),
		currency:      head.column("grosstransactioncurrency"),
		feeDirection:  head.column("feedebitorcredit"),
		fee:           head.column("feeamount"),
		feeMoney:      head.column("feecurrency"),
		custom:        head.column("customfield"),
	}
	if head.has("transactionalstatus") {
		return &rowError{number: read.number, reason: errNotStl.Error()}
	}
	err := head.require(paypal, map[string]column{
		"Transaction ID": columns.id, "Invoice ID": columns.invoice, "PayPal Reference ID": columns.reference,
		"Transaction Event Code": columns.code, "Transaction Completion Date": columns.completed,
		"Transaction Debit or Credit": columns.direction, "Gross Transaction Amount": columns.gross,
		"Gross Transaction Currency": columns.currency, "Fee Debit or Credit": columns.feeDirection, "Fee Amount": columns.fee,
	})
	if err != nil {
		return &rowError{number: read.number, reason: "is the header of a section: " + err.Error()}
	}
	columns.last = last(
		columns.id, columns.invoice, columns.reference, columns.referenceType, columns.code, columns.initiated, columns.completed,
		columns.direction, columns.gross, columns.currency, columns.feeDirection, columns.fee, columns.feeMoney, columns.custom)
	f.columns, f.readable = columns, true
	return nil
}

// booking reads an SB row.
func (f *payPalFile) booking(read row, emit func(Line)) error {
	if !f.readable {
		return &rowError{number: read.number, reason: errColumns.Error()}
	}
	columns := &f.columns
	if err := columns.head.check(read, columns.last, columns.id); err != nil {
		return err
	}
	texts, err := read.texts(columns.id, columns.invoice, columns.reference, columns.code, columns.custom)
	if err != nil {
		return err
	}
	line := Line{Number: read.number, Reference: texts[0], Key: providers.SubKey(texts[1]), Payment: texts[2], SagaKey: texts[4]}
	if err := f.money(read, &line); err != nil {
		return err
	}
	if line.BookedAt, err = f.time(read); err != nil {
		return err
	}
	code := strings.ToUpper(texts[3])
	if !isEventCode(code) {
		return columns.code.fail(errEventCode)
	}
	line.Kind = payPalKind(code, line.Gross)
	if err := f.identify(&line, code); err != nil {
		return err
	}
	f.check.booking(&line)
	if line.Kind == LineCharge && line.Payment == "" {
		line.Payment = line.Reference
	}
	if line.Kind == LinePayout {
		line.Payout = line.Reference
	}
	f.pairs.add(line, emit)
	return nil
}

// identify gives a booking its id: PayPal's for the transaction, with what was booked of it and in which direction, as a hold and its end
// are of one transaction.
func (f *payPalFile) identify(line *Line, code string) error {
	direction := "CR"
	if line.Gross < 0 {
		direction = "DR"
	}
	if line.Reference != "" {
		line.ID = line.Reference + ":" + code + ":" + direction
		return nil
	}
	id, err := f.twins.id(digest(
		f.account, line.Payment, string(line.Key), line.SagaKey, code, line.Currency,
		strconv.FormatInt(line.Gross, 10), strconv.FormatInt(line.Fee, 10), line.BookedAt.Format(time.RFC3339)))
	line.ID = id
	return err
}

// money reads gross and fee. The report tells no net.
func (f *payPalFile) money(read row, line *Line) (err error) {
	columns := &f.columns
	line.Currency = strings.ToUpper(read.raw(columns.currency))
	if _, ok := providers.CurrencyExponent(line.Currency); !ok {
		return columns.currency.fail(errCurrency)
	}
	if line.Gross, err = f.directed(read, columns.gross, columns.direction, line.Currency); err != nil {
		return err
	}
	if text := read.raw(columns.fee); text != "" && strings.Trim(text, "0") != "" {
		if money := read.raw(columns.feeMoney); money != "" && !strings.EqualFold(money, line.Currency) {
			return columns.feeMoney.fail(errFeeMoney)
		}
		fee, err := f.directed(read, columns.fee, columns.feeDirection, line.Currency)
		if err != nil {
			return err
		}
		line.Fee = -fee // a debit costs the shop
	}
	line.Net = line.Gross - line.Fee
	return nil
}

func (f *payPalFile) directed(read row, from, direction column, currency string) (int64, error) {
	amount, err := payPalAmount(read.raw(from), currency)
	if err != nil {
		return 0, from.fail(err)
	}
	switch strings.ToUpper(read.raw(direction)) {
	case "CR":
		return amount, nil
	case "DR":
		return -amount, nil
	default:
		return 0, direction.fail(errDirection)
	}
}

// payPalWhole are the currencies that have decimals in ISO 4217 and none at PayPal.
var payPalWhole = map[string]bool{"HUF": true, "TWD": true}

// payPalAmount reads an amount in PayPal's smallest unit, and gives it in ISO 4217 minor units.
func payPalAmount(text, currency string) (int64, error) {
	if text == "" {
		return 0, errUnwritten
	}
	if !isDigits(text) {
		return 0, errMinor
	}
	exponent, ok := providers.CurrencyExponent(currency)
	if !ok {
		return 0, errCurrency
	}
	if !payPalWhole[currency] {
		exponent = 0
	}
	return number{whole: text}.scaled(exponent, maxAmount)
}

// time is when a booking was completed, as that is when it moved the balance.
func (f *payPalFile) time(read row) (time.Time, error) {
	from := f.columns.completed
	if read.raw(from) == "" && f.columns.initiated.exists() {
		from = f.columns.initiated
	}
	at, err := offsetTime(read.raw(from))
	if err != nil {
		return time.Time{}, from.fail(err)
	}
	return at, nil
}
