package statement_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

// table is a file before it is written.
type table struct {
	header []string
	rows   [][]string
}

// shuffled has the columns in another order.
func (t table) shuffled(order []int) table {
	move := func(fields []string) []string {
		moved := make([]string, len(fields))
		for at, from := range order {
			moved[at] = fields[from]
		}
		return moved
	}
	shuffled := table{header: move(t.header)}
	for _, row := range t.rows {
		shuffled.rows = append(shuffled.rows, move(row))
	}
	return shuffled
}

// dress is how a file is written. None of it may make a difference to what is read.
type dress struct {
	delimiter  string
	lineEnd    string
	encoding   string // "", "mark", "utf16le", "utf16be"
	quoted     bool   // every field
	blank      int    // lines before the header, and after every third row
	unfinished bool   // no line end behind the last row
	decimal    string // separator
	group      string // of thousands
}

func drawDress(t *rapid.T) dress {
	worn := dress{
		delimiter:  rapid.SampledFrom([]string{",", ";", "\t", "|"}).Draw(t, "delimiter"),
		lineEnd:    rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end"),
		encoding:   rapid.SampledFrom([]string{"", "mark", "utf16le", "utf16be"}).Draw(t, "encoding"),
		quoted:     rapid.Bool().Draw(t, "quoted"),
		blank:      rapid.IntRange(0, 2).Draw(t, "blank lines"),
		unfinished: rapid.Bool().Draw(t, "unfinished"),
	}
	numbers := rapid.SampledFrom([][2]string{
		{".", ""}, {".", ","}, {",", ""}, {",", "."}, {",", " "}, {",", "\u00a0"}, {",", "\u202f"}, {".", "'"}, {".", "\u2019"}, {".", " "},
	}).Draw(t, "numbers")
	worn.decimal, worn.group = numbers[0], numbers[1]
	return worn
}

func (d dress) write(rows [][]string) []byte {
	var text strings.Builder
	blank := strings.Repeat(d.lineEnd, d.blank)
	text.WriteString(blank)
	for at, row := range rows {
		for column, field := range row {
			if column > 0 {
				text.WriteString(d.delimiter)
			}
			text.WriteString(d.field(field))
		}
		if at < len(rows)-1 || !d.unfinished {
			text.WriteString(d.lineEnd)
		}
		if at%3 == 0 {
			text.WriteString(blank)
		}
	}
	return d.encode(text.String())
}

func (d dress) field(text string) string {
	if d.quoted || strings.ContainsAny(text, d.delimiter+"\"\r\n") {
		return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	return text
}

func (d dress) encode(text string) []byte {
	switch d.encoding {
	case "mark":
		return append([]byte{0xEF, 0xBB, 0xBF}, text...)
	case "utf16le":
		return encode16(binary.LittleEndian, text)
	case "utf16be":
		return encode16(binary.BigEndian, text)
	default:
		return []byte(text)
	}
}

func encode16(order binary.ByteOrder, text string) []byte {
	var encoded bytes.Buffer
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		if err := binary.Write(&encoded, order, unit); err != nil {
			panic(err)
		}
	}
	return encoded.Bytes()
}

// number writes minor units as major ones.
func (d dress) number(amount int64, currency string) string {
	exponent, ok := providers.CurrencyExponent(currency)
	if !ok {
		panic("no currency: " + currency)
	}
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	digits := fmt.Sprintf("%0*d", exponent+1, amount)
	whole, fraction := digits[:len(digits)-exponent], digits[len(digits)-exponent:]
	if d.group != "" {
		for at := len(whole) - 3; at > 0; at -= 3 {
			whole = whole[:at] + d.group + whole[at:]
		}
	}
	if exponent > 0 {
		whole += d.decimal + fraction
	}
	return sign + whole
}

// What bookings are made of.
var (
	currencies = []string{"EUR", "USD", "JPY", "KWD", "CLP", "HUF", "GBP"}
	// noise stands where people write: it may have everything that a file's grammar is made of.
	noise = []string{"", "Order", "a, b; c|d", "two\nlines", `a "quoted" word`, "Grüße, 1.560,00", "x\ty", "\u65e5\u672c", "'1'000'", "-"}
)

func drawMoment(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "booked"), 0).UTC()
}

func drawAmount(t *rapid.T, name string) int64 {
	return rapid.Int64Range(0, 5_000_000).Draw(t, name)
}

// settles is a booking whose amounts show how the file writes numbers.
func settles(line statement.Line) statement.Line {
	line.Currency, line.Gross, line.Fee, line.Original = "EUR", 123456, 0, providers.Money{}
	line.Net = line.Gross
	return line
}

// stripeTable writes lines as an itemized payout reconciliation.
func stripeTable(lines []statement.Line, notes []string, worn dress) table {
	categories := map[statement.LineKind]string{
		statement.LineCharge: "charge", statement.LineRefund: "refund", statement.LineFee: "fee", statement.LineChargeback: "dispute",
		statement.LinePayout: "payout", statement.LineAdjustment: "other_adjustment", statement.LineExchange: "currency_conversion",
	}
	written := table{header: []string{
		"balance_transaction_id", "created_utc", "currency", "gross", "fee", "net", "reporting_category", "source_id", "payment_intent_id",
		"automatic_payout_id", "customer_facing_amount", "customer_facing_currency", "payment_metadata[sub_key]", "payment_metadata[saga_key]",
		"refund_metadata[sub_key]", "description",
	}}
	for at := range lines {
		line := &lines[at]
		faced, facedCurrency := "", ""
		if line.Original != (providers.Money{}) {
			faced, facedCurrency = worn.number(line.Original.Amount, line.Original.Currency), strings.ToLower(line.Original.Currency)
		}
		key, refundKey := string(line.Key), ""
		if line.Kind == statement.LineRefund {
			key, refundKey = "charged", string(line.Key)
		}
		written.rows = append(written.rows, []string{
			line.ID, line.BookedAt.Format(time.DateTime), strings.ToLower(line.Currency), worn.number(line.Gross, line.Currency),
			worn.number(line.Fee, line.Currency), worn.number(line.Net, line.Currency), categories[line.Kind], line.Reference, line.Payment,
			line.Payout, faced, facedCurrency, key, line.SagaKey, refundKey, notes[at%len(notes)],
		})
	}
	return written
}

// adyenTable writes lines as a settlement details report.
func adyenTable(lines []statement.Line, notes []string, worn dress) table {
	types := map[statement.LineKind]string{
		statement.LineCharge: "Settled", statement.LineRefund: "Refunded", statement.LineFee: "Fee", statement.LineChargeback: "Chargeback",
		statement.LinePayout: "MerchantPayout", statement.LineAdjustment: "DepositCorrection",
	}
	written := table{header: []string{
		"Company Account", "Merchant Account", "Psp Reference", "Merchant Reference", "Creation Date", "TimeZone", "Type",
		"Modification Reference", "Gross Currency", "Gross Debit (GC)", "Gross Credit (GC)", "Exchange Rate", "Net Currency", "Net Debit (NC)",
		"Net Credit (NC)", "Commission (NC)", "Markup (NC)", "Modification Merchant Reference", "Batch Number", "Metadata[saga_key]", "Note",
	}}
	sides := func(amount int64, currency string) (debit, credit string) {
		if amount < 0 {
			return worn.number(-amount, currency), ""
		}
		return "", worn.number(amount, currency)
	}
	for at := range lines {
		line := &lines[at]
		grossCurrency, grossDebit, grossCredit := "", "", ""
		switch {
		case line.Original != (providers.Money{}) && line.Gross < 0:
			grossCurrency, grossDebit = line.Original.Currency, worn.number(line.Original.Amount, line.Original.Currency)
		case line.Original != (providers.Money{}):
			grossCurrency, grossCredit = line.Original.Currency, worn.number(line.Original.Amount, line.Original.Currency)
		case line.Payment != "":
			grossCurrency = line.Currency
			grossDebit, grossCredit = sides(line.Gross, line.Currency)
		}
		netDebit, netCredit := sides(line.Net, line.Currency)
		key, refundKey := string(line.Key), ""
		if line.Kind == statement.LineRefund {
			key, refundKey = "charged", string(line.Key)
		}
		zone, local := "CET", line.BookedAt.Add(time.Hour)
		if at%2 == 0 {
			zone, local = "America/New_York", line.BookedAt.In(newYork)
		}
		written.rows = append(written.rows, []string{
			"Group", "ShopEU", line.Payment, key, local.Format(time.DateTime), zone, types[line.Kind], line.Reference, grossCurrency, grossDebit,
			grossCredit, "0.9" + worn.decimal, line.Currency, netDebit, netCredit, worn.number(line.Fee/2, line.Currency),
			worn.number(line.Fee-line.Fee/2, line.Currency), refundKey, line.Payout, line.SagaKey, notes[at%len(notes)],
		})
	}
	return written
}

var newYork = func() *time.Location {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	return place
}()

// payPalRows writes lines as a settlement report of one section, with its footers.
func payPalRows(lines []statement.Line, notes []string, order []int) [][]string {
	codes := map[statement.LineKind]string{
		statement.LineCharge: "T0006", statement.LineRefund: "T1107", statement.LineFee: "T0106", statement.LineChargeback: "T1201",
		statement.LinePayout: "T0400", statement.LineAdjustment: "T1500", statement.LineExchange: "T0200",
	}
	body := table{header: []string{
		"Transaction ID", "Invoice ID", "PayPal Reference ID", "PayPal Reference ID Type", "Transaction Event Code",
		"Transaction Initiation Date", "Transaction Completion Date", "Transaction  Debit or Credit", "Gross Transaction Amount",
		"Gross Transaction Currency", "Fee Debit or Credit", "Fee Amount", "Fee Currency", "Custom Field", "Note",
	}}
	sums := make(map[string]*[4]int64)
	for at := range lines {
		line := &lines[at]
		direction, amount := payPalSide(line.Gross, line.Currency)
		feeDirection, fee := payPalSide(-line.Fee, line.Currency)
		if sums[line.Currency] == nil {
			sums[line.Currency] = &[4]int64{}
		}
		sum := sums[line.Currency]
		sum[0] += max(line.Gross, 0)
		sum[1] += max(-line.Gross, 0)
		sum[2] += max(-line.Fee, 0)
		sum[3] += max(line.Fee, 0)
		local := line.BookedAt.In(newYork).Format("2006/01/02 15:04:05 -0700")
		body.rows = append(body.rows, []string{
			line.Reference, string(line.Key), line.Payment, "TXN", codes[line.Kind], local, local, direction, amount, line.Currency,
			feeDirection, fee, line.Currency, line.SagaKey, notes[at%len(notes)],
		})
	}
	body = body.shuffled(order)
	rows := [][]string{
		{"RH", "2026/03/06 02:15:59 -0800", "A", "ACCOUNT1", "010"},
		{"FH", "01"},
		{"SH", "2026/03/05 00:00:00 -0800", "2026/03/05 23:59:59 -0800", "ACCOUNT1", ""},
		append([]string{"CH"}, body.header...),
	}
	for _, row := range body.rows {
		rows = append(rows, append([]string{"SB"}, row...))
	}
	for _, kind := range []string{"SF", "RF"} {
		for _, currency := range currencies {
			if sum := sums[currency]; sum != nil {
				end, ending := payPalSide(sum[0]-sum[1]+sum[2]-sum[3], currency)
				rows = append(rows, []string{
					kind, currency, payPalUnits(sum[0], currency), payPalUnits(sum[1], currency), payPalUnits(sum[2], currency),
					payPalUnits(sum[3], currency), "CR", "0", end, ending,
				})
			}
		}
		rows = append(rows, []string{strings.Replace(kind, "F", "C", 1), strconv.Itoa(len(lines))})
	}
	return append(rows, []string{"FF", strconv.Itoa(len(lines))})
}

func payPalSide(amount int64, currency string) (direction, units string) {
	if amount < 0 {
		return "DR", payPalUnits(-amount, currency)
	}
	return "CR", payPalUnits(amount, currency)
}

// payPalUnits are PayPal's own smallest units.
func payPalUnits(amount int64, currency string) string {
	if currency == "HUF" {
		amount /= 100
	}
	return strconv.FormatInt(amount, 10)
}
