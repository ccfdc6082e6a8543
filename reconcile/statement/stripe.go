package statement

import (
	"slices"
	"strings"
	"time"

	"paysaga/providers"
)

// stripeFile reads Stripe's itemized reports: balance change from activity, payout reconciliation, payouts, and the older balance history.
// Amounts are in major units; times are UTC, or in the report's zone. Reports differ in their columns, and shops choose them.
type stripeFile struct {
	head    header
	columns stripeColumns
	last    int
	place   *time.Location // of the times
	numbers numbers
	payouts *batches // nil: the report cannot tell which lines a payout consists of
}

type stripeColumns struct {
	id, category, currency, gross, fee, net, created column // without these nothing can be read
	source, intent, charge, payout                   column
	faced, facedCurrency                             column // what the customer saw
	subKey, sagaKey, refundKey                       column
}

func isStripe(head header) bool {
	return head.has("balancetransactionid") || head.has("id") && head.has("net") && head.has("fee") && head.has("type") && head.has("amount")
}

func openStripe(head header, options Options) (*Reader, error) {
	columns := stripeColumns{
		id:       head.column("balancetransactionid", "id"),
		category: head.column("reportingcategory", "type"),
		currency: head.column("currency"),
		gross:    head.column("gross", "amount"),
		fee:      head.column("fee", "fees"),
		net:      head.column("net"),
		created:  head.column("createdutc", "created", "effectiveatutc", "effectiveat"),

		source:        head.column("sourceid", "source"),
		intent:        head.column("paymentintentid"),
		charge:        head.column("chargeid"),
		payout:        head.column("automaticpayoutid", "payoutid", "transfer"),
		faced:         head.column("customerfacingamount"),
		facedCurrency: head.column("customerfacingcurrency"),
		subKey:        head.column("paymentmetadatasubkey", "metadatasubkey", "subkeymetadata"),
		sagaKey:       head.column("paymentmetadatasagakey", "metadatasagakey", "sagakeymetadata"),
		refundKey:     head.column("refundmetadatasubkey"),
	}
	err := head.require(stripe, map[string]column{
		"balance_transaction_id": columns.id, "reporting_category": columns.category, "currency": columns.currency,
		"gross": columns.gross, "fee": columns.fee, "net": columns.net, "created_utc": columns.created,
	})
	if err != nil {
		return nil, err
	}
	file := &stripeFile{head: head, columns: columns, place: time.UTC}
	file.last = last(
		columns.id, columns.category, columns.currency, columns.gross, columns.fee, columns.net, columns.created, columns.source,
		columns.intent, columns.charge, columns.payout, columns.faced, columns.facedCurrency, columns.subKey, columns.sagaKey, columns.refundKey,
	)
	if options.Zone != nil && !strings.Contains(plainName(columns.created.name), "utc") {
		file.place = options.Zone
	}
	name := "itemized balance change from activity"
	switch {
	case head.has("id") && !head.has("balancetransactionid"):
		name = "balance history"
	case head.has("payoutid"):
		name = "itemized payouts"
	case head.has("automaticpayoutid"):
		name = "itemized payout reconciliation"
		file.payouts = newBatches()
	}
	return &Reader{provider: stripe, name: name, format: file, again: head, netTold: true, tally: newTally()}, nil
}

func (f *stripeFile) end(func(Line)) {}
func (f *stripeFile) controls() []Control {
	if f.payouts == nil {
		return nil
	}
	return f.payouts.controls()
}

func (f *stripeFile) learn(read row) bool {
	return f.numbers.learn(read, f.columns.gross, f.columns.fee, f.columns.net, f.columns.faced)
}

func (f *stripeFile) read(read row, emit func(Line)) error {
	if err := f.head.check(read, f.last, f.columns.id); err != nil {
		return err
	}
	line := Line{Number: read.number, Kind: stripeKind(read.raw(f.columns.category))}
	if err := f.money(read, &line); err != nil {
		return err
	}
	if err := f.references(read, &line); err != nil {
		return err
	}
	booked, err := stripeTime(read.raw(f.columns.created), f.place)
	if err != nil {
		return f.columns.created.fail(err)
	}
	line.BookedAt = booked
	if f.payouts != nil && line.Payout != "" {
		key := batch{name: "payout " + line.Payout, currency: line.Currency}
		if line.Kind == LinePayout {
			f.payouts.payout(key, line.Net)
		} else {
			f.payouts.line(key, line.Net)
		}
	}
	emit(line)
	return nil
}

func (f *stripeFile) money(read row, line *Line) error {
	line.Currency = strings.ToUpper(read.raw(f.columns.currency))
	if _, ok := providers.CurrencyExponent(line.Currency); !ok {
		return f.columns.currency.fail(errCurrency)
	}
	for _, into := range []struct {
		from  column
		value *int64
	}{{f.columns.gross, &line.Gross}, {f.columns.fee, &line.Fee}, {f.columns.net, &line.Net}} {
		value, err := f.numbers.amount(read.raw(into.from), line.Currency)
		if err != nil {
			return into.from.fail(err)
		}
		*into.value = value
	}
	faced := strings.ToUpper(read.raw(f.columns.facedCurrency))
	if faced == "" || faced == line.Currency || read.raw(f.columns.faced) == "" {
		return nil
	}
	if _, ok := providers.CurrencyExponent(faced); !ok {
		return f.columns.facedCurrency.fail(errCurrency)
	}
	amount, err := f.numbers.amount(read.raw(f.columns.faced), faced)
	if err != nil {
		return f.columns.faced.fail(err)
	}
	line.Original = providers.Money{Amount: max(amount, -amount), Currency: faced}
	return nil
}

func (f *stripeFile) references(read row, line *Line) error {
	columns := &f.columns
	texts, err := read.texts(columns.id, columns.source, columns.intent, columns.charge, columns.payout, columns.sagaKey)
	if err != nil {
		return err
	}
	line.ID, line.Reference, line.Payment, line.Payout, line.SagaKey = texts[0], texts[1], texts[2], texts[4], texts[5]
	if line.ID == "" {
		return columns.id.fail(errMissing)
	}
	if line.Payment == "" {
		line.Payment = texts[3]
	}
	if line.Kind == LineCharge && line.Payment == "" {
		line.Payment = line.Reference
	}
	if line.Kind == LinePayout && strings.HasPrefix(line.Reference, "po_") {
		line.Payout = line.Reference
	}
	keyColumn := columns.subKey
	if line.Kind == LineRefund {
		keyColumn = columns.refundKey
	}
	key, err := read.text(keyColumn)
	if err != nil {
		return err
	}
	line.Key = providers.SubKey(key)
	return nil
}

// stripeTime reads a time of a report, or of the API's form.
func stripeTime(text string, place *time.Location) (time.Time, error) {
	if read, err := localTime(text, place); err == nil {
		return read, nil
	}
	return offsetTime(text)
}

// The reporting categories, and the older types, that are more than an adjustment of the balance.
var (
	stripeCharges     = []string{"charge", "payment", "charge_failure", "payment_failure_refund", "partial_capture_reversal"}
	stripeRefunds     = []string{"refund", "payment_refund", "refund_failure"}
	stripeChargebacks = []string{"dispute", "dispute_reversal"}
	stripeFees        = []string{"fee", "stripe_fee", "network_cost", "tax", "stripe_fee_tax", "tax_fee"}
	stripePayouts     = []string{"payout", "payout_reversal", "payout_cancel", "payout_failure"}
)

// stripeKind is what a reporting category books. A category that is not known moves money all the same: it is an adjustment.
func stripeKind(category string) LineKind {
	category = strings.ReplaceAll(strings.ToLower(category), " ", "_")
	switch {
	case slices.Contains(stripeCharges, category):
		return LineCharge
	case slices.Contains(stripeRefunds, category):
		return LineRefund
	case slices.Contains(stripeChargebacks, category):
		return LineChargeback
	case slices.Contains(stripeFees, category):
		return LineFee
	case slices.Contains(stripePayouts, category):
		return LinePayout
	case category == "currency_conversion":
		return LineExchange
	default:
		return LineAdjustment
	}
}
