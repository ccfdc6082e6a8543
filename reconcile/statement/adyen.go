package statement

import (
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
)

// adyenFile reads Adyen's settlement details report: one row per journal entry of a batch, debits and credits in columns of their own.
// Gross is in the currency that the customer paid (GC), net and fees are in that of the settlement (NC); all in major units.
type adyenFile struct {
	head    header
	columns adyenColumns
	amounts []column
	last    int
	zones   *zones
	numbers numbers
	twins   *twins
	batches *batches
}

type adyenColumns struct {
	merchant, psp, reference, created, zone, kind, modification column
	grossCurrency, grossDebit, grossCredit                      column
	netCurrency, netDebit, netCredit                            column
	fees                                                        []column
	booked, bookedZone, modificationReference, batch, sagaKey   column
}

func isAdyen(head header) bool {
	return head.has("pspreference") && head.has("merchantaccount") && (head.has("netcreditnc") || head.has("netcurrency"))
}

func openAdyen(head header, options Options) (*Reader, error) {
	columns := adyenColumns{
		merchant:      head.column("merchantaccount"),
		psp:           head.column("pspreference"),
		reference:     head.column("merchantreference"),
		created:       head.column("creationdate"),
		zone:          head.column("timezone"),
		kind:          head.column("type"),
		modification:  head.column("modificationreference"),
		grossCurrency: head.column("grosscurrency"),
		grossDebit:    head.column("grossdebitgc", "grossdebit"),
		grossCredit:   head.column("grosscreditgc", "grosscredit"),
		netCurrency:   head.column("netcurrency"),
		netDebit:      head.column("netdebitnc", "netdebit"),
		netCredit:     head.column("netcreditnc", "netcredit"),

		booked:                head.column("bookingdate"),
		bookedZone:            head.column("bookingdatetimezone"),
		modificationReference: head.column("modificationmerchantreference"),
		batch:                 head.column("batchnumber"),
		sagaKey:               head.column("metadatasagakey"),
	}
	err := head.require(adyen, map[string]column{
		"Merchant Account": columns.merchant, "Psp Reference": columns.psp, "Merchant Reference": columns.reference,
		"Creation Date": columns.created, "TimeZone": columns.zone, "Type": columns.kind, "Modification Reference": columns.modification,
		"Gross Currency": columns.grossCurrency, "Gross Debit (GC)": columns.grossDebit, "Gross Credit (GC)": columns.grossCredit,
		"Net Currency": columns.netCurrency, "Net Debit (NC)": columns.netDebit, "Net Credit (NC)": columns.netCredit,
	})
	if err != nil {
		return nil, err
	}
	for _, names := range [][]string{
		{"commissionnc", "commission"},
		{"markupnc", "markup"},
		{"schemefeesnc", "schemefees"},
		{"interchangenc", "interchange"},
		{"paymentfeesnc", "paymentfees"},
	} {
		if found := head.column(names...); found.exists() {
			columns.fees = append(columns.fees, found)
		}
	}
	file := &adyenFile{head: head, columns: columns, zones: newZones(options.Zone), twins: newTwins(), batches: newBatches()}
	file.amounts = append(
		[]column{columns.grossDebit, columns.grossCredit, columns.netDebit, columns.netCredit}, columns.fees...)
	file.last = last(append([]column{
		columns.merchant, columns.psp, columns.reference, columns.created, columns.zone, columns.kind, columns.modification,
		columns.grossCurrency, columns.netCurrency, columns.booked, columns.bookedZone, columns.modificationReference, columns.batch,
		columns.sagaKey,
	}, file.amounts...)...)
	return &Reader{provider: adyen, name: "settlement details report", format: file, again: head, netTold: true, tally: newTally()}, nil
}

func (f *adyenFile) learn(read row) bool { return f.numbers.learn(read, f.amounts...) }
func (f *adyenFile) end(func(Line))      {}
func (f *adyenFile) controls() []Control { return f.batches.controls() }

func (f *adyenFile) read(read row, emit func(Line)) error {
	columns := &f.columns
	if err := f.head.check(read, f.last, columns.psp, columns.modification, columns.reference, columns.merchant); err != nil {
		return err
	}
	texts, err := read.texts(
		columns.psp, columns.modification, columns.reference, columns.modificationReference, columns.batch, columns.merchant, columns.sagaKey)
	if err != nil {
		return err
	}
	kind := strings.ToLower(read.raw(columns.kind))
	if kind == "" {
		return columns.kind.fail(errMissing)
	}
	line := Line{
		Number: read.number, Kind: adyenKind(kind),
		Payment: texts[0], Reference: texts[1], Key: providers.SubKey(texts[2]), Payout: texts[4], SagaKey: texts[6],
	}
	if line.SagaKey == "" {
		if key, ok := providers.SubKey(texts[2]).SagaKey(); ok {
			line.SagaKey = key.String()
		}
	}
	line.Key = adyenKey(line, providers.SubKey(texts[3]))
	gross, err := f.money(read, &line)
	if err != nil {
		return err
	}
	created, err := f.times(read, &line)
	if err != nil {
		return err
	}
	line.ID = digest(
		texts[5], texts[0], texts[1], texts[2], kind, texts[4], line.Currency, strconv.FormatInt(line.Net, 10),
		gross.currency, strconv.FormatInt(gross.amount, 10), created.Format(time.RFC3339))
	if line.Payment == "" {
		// Nothing in the row identifies it but what it says.
		if line.ID, err = f.twins.id(line.ID); err != nil {
			return err
		}
	}
	f.sum(&line, texts[5])
	emit(line)
	return nil
}

// adyenKey is our reference of the call that made a line: a refund's and a capture's are modifications with references of their own. What
// was captured by itself was made by the payment's call.
func adyenKey(line Line, modification providers.SubKey) providers.SubKey {
	if _, ours := modification.SagaKey(); line.Kind == LineRefund || line.Kind == LineCharge && ours {
		return modification
	}
	return line.Key
}

// sum holds the payout of a batch against everything else in it, what was carried over from the batch before and into the next included.
func (f *adyenFile) sum(line *Line, merchant string) {
	if line.Payout == "" {
		return
	}
	key := batch{name: "payout of batch " + line.Payout + " of " + merchant, currency: line.Currency}
	if line.Kind == LinePayout {
		f.batches.payout(key, line.Net)
		return
	}
	f.batches.line(key, line.Net)
}

// signed is an amount with its currency, that may be negative.
type signed struct {
	amount   int64
	currency string
}

// money reads what a row is about. Where customer and settlement have one currency, the row tells gross, fee and net. Where they have two,
// it tells no gross in the settlement's: that is then what net and fee come to.
func (f *adyenFile) money(read row, line *Line) (gross signed, err error) {
	columns := &f.columns
	line.Currency = strings.ToUpper(read.raw(columns.netCurrency))
	if _, ok := providers.CurrencyExponent(line.Currency); !ok {
		return signed{}, columns.netCurrency.fail(errCurrency)
	}
	if line.Net, err = f.balance(read, columns.netCredit, columns.netDebit, line.Currency, true); err != nil {
		return signed{}, err
	}
	parts, err := f.feeParts(read, line.Currency)
	if err != nil {
		return signed{}, err
	}
	gross.currency = strings.ToUpper(read.raw(columns.grossCurrency))
	if read.raw(columns.grossCredit) == "" && read.raw(columns.grossDebit) == "" {
		line.Fee = rounded(parts)
		line.Gross = line.Net + line.Fee
		return signed{}, nil
	}
	if _, ok := providers.CurrencyExponent(gross.currency); !ok {
		return signed{}, columns.grossCurrency.fail(errCurrency)
	}
	if gross.amount, err = f.balance(read, columns.grossCredit, columns.grossDebit, gross.currency, false); err != nil {
		return signed{}, err
	}
	if gross.currency == line.Currency {
		line.Gross = gross.amount
		line.Fee = toldFee(parts, line.Gross-line.Net)
		return gross, nil
	}
	line.Fee = rounded(parts)
	line.Gross = line.Net + line.Fee
	line.Original = providers.Money{Amount: max(gross.amount, -gross.amount), Currency: gross.currency}
	return gross, nil
}

// balance is credit less debit, of which one may be empty.
func (f *adyenFile) balance(read row, credit, debit column, currency string, needed bool) (int64, error) {
	if needed && read.raw(credit) == "" && read.raw(debit) == "" {
		return 0, credit.fail(errUnwritten)
	}
	sum := int64(0)
	for _, side := range []struct {
		from column
		sign int64
	}{{credit, 1}, {debit, -1}} {
		text := read.raw(side.from)
		if text == "" {
			continue
		}
		value, err := f.numbers.amount(text, currency)
		if err != nil {
			return 0, side.from.fail(err)
		}
		sum += side.sign * value
	}
	return sum, nil
}

// feeParts is the sum of the fee's parts, in 10^-feeDigits of a minor unit.
func (f *adyenFile) feeParts(read row, currency string) (int64, error) {
	sum := int64(0)
	for _, from := range f.columns.fees {
		text := read.raw(from)
		if text == "" {
			continue
		}
		value, err := f.numbers.fee(text, currency)
		if err != nil {
			return 0, from.fail(err)
		}
		sum += value
	}
	return sum, nil
}

// toldFee is the fee in minor units. Parts of a fee have more decimals than money has, and the row's net shows how their sum was rounded:
// where gross less net is less than a minor unit away from it, that is the fee.
func toldFee(parts, difference int64) int64 {
	unit := powerOfTen(feeDigits)
	if difference > maxFee || difference < -maxFee {
		return rounded(parts)
	}
	if away := parts - difference*unit; away > -unit && away < unit {
		return difference
	}
	return rounded(parts)
}

// rounded gives whole minor units, halves away from zero.
func rounded(parts int64) int64 {
	unit := powerOfTen(feeDigits)
	if parts < 0 {
		return (parts - unit/2) / unit
	}
	return (parts + unit/2) / unit
}

// times reads when the row's entry was made, and when it was booked where the file tells that too.
func (f *adyenFile) times(read row, line *Line) (created time.Time, err error) {
	created, err = f.time(read, f.columns.created, f.columns.zone)
	if err != nil {
		return time.Time{}, err
	}
	line.BookedAt = created
	if read.raw(f.columns.booked) != "" {
		zone := f.columns.bookedZone
		if read.raw(zone) == "" {
			zone = f.columns.zone
		}
		if line.BookedAt, err = f.time(read, f.columns.booked, zone); err != nil {
			return time.Time{}, err
		}
	}
	return created, nil
}

func (f *adyenFile) time(read row, from, zone column) (time.Time, error) {
	place, name := f.zones.own, read.raw(zone)
	if name != "" {
		found, err := f.zones.find(name)
		if err != nil {
			return time.Time{}, zone.fail(err)
		}
		place = found
	}
	if place == nil {
		return time.Time{}, zone.fail(errUnzoned)
	}
	at, err := localTime(read.raw(from), place)
	if err != nil {
		return time.Time{}, from.fail(err)
	}
	return at, nil
}

// adyenKinds are the journal types that are more than an adjustment of the balance; lower case.
var adyenKinds = map[string]LineKind{
	"settled": LineCharge, "settledbulk": LineCharge, "settledreversed": LineCharge,
	"refunded": LineRefund, "refundedbulk": LineRefund, "refundedreversed": LineRefund,
	"chargeback": LineChargeback, "secondchargeback": LineChargeback, "chargebackreversed": LineChargeback,
	"fee": LineFee, "misccosts": LineFee, "authorisationschemefee": LineFee, "paymentcost": LineFee, "settlecost": LineFee,
	"invoicededuction": LineFee,
	"merchantpayout":   LinePayout, "bankinstructionreturned": LinePayout,
}

// adyenKind is what a journal type books. A type that is not known moves money all the same: it is an adjustment.
func adyenKind(kind string) LineKind {
	if known, ok := adyenKinds[kind]; ok {
		return known
	}
	return LineAdjustment
}
