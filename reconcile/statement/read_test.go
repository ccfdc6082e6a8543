package statement_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// readAll reads a file to its end.
func readAll(t testing.TB, content []byte, options statement.Options) ([]statement.Line, statement.Report) {
	t.Helper()
	reader, err := statement.Open(bytes.NewReader(content), options)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return drain(t, reader), reader.Report()
}

func drain(t testing.TB, reader *statement.Reader) []statement.Line {
	t.Helper()
	var lines []statement.Line
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		lines = append(lines, line)
	}
}

// replaced changes a text that stands in the file once.
func replaced(t testing.TB, content []byte, old, changed string) []byte {
	t.Helper()
	if bytes.Count(content, []byte(old)) != 1 {
		t.Fatalf("%q stands in the file %d times, not once", old, bytes.Count(content, []byte(old)))
	}
	return bytes.Replace(content, []byte(old), []byte(changed), 1)
}

func at(text string) time.Time {
	read, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return read
}

const (
	saga1 = "8c7f6f0e-3b1d-5a52-9c3e-1f2d3c4b5a60"
	saga2 = "0b7e2f44-5a0f-5d0e-8a63-7a5d1c9b2e11"
	saga3 = "5e0d1c55-63a5-5c1f-8c53-4b8a41f6b0aa"
	saga7 = "3d0d0a11-0a54-5b83-b7f1-bb1f8d4c7a01"
	back  = providers.SubKey("f41d7a0c-9f4e-5b5b-9d55-2b7c6d1e0f33_refund")
)

func TestStripeFiles(t *testing.T) {
	t.Parallel()
	order1 := statement.Line{
		Number: 2, ID: "txn_3Pa1", Kind: statement.LineCharge, Payment: "pi_3Pa1", Reference: "ch_3Pa1", Key: saga1 + "_charge", SagaKey: saga1,
		Gross: 3998, Fee: 85, Net: 3913, Currency: "EUR", BookedAt: at("2026-03-05T10:11:12Z"),
	}
	paid := order1
	paid.Payout, paid.SagaKey = "po_1Q1", ""
	old := order1
	old.Payment, old.Payout, old.BookedAt = "ch_3Pa1", "po_1Q1", at("2026-03-05T10:11:00Z")
	cases := map[string]struct {
		format string
		want   []statement.Line
	}{
		"stripe_activity": {"itemized balance change from activity", []statement.Line{
			order1,
			{Number: 3, ID: "txn_3Pa2", Kind: statement.LineCharge, Payment: "pi_3Pa2", Reference: "ch_3Pa2", Key: saga2 + "_charge_2", SagaKey: saga2, Gross: 156000, Fee: 2365, Net: 153635, Currency: "EUR", Original: providers.Money{Amount: 170000, Currency: "USD"}, BookedAt: at("2026-03-05T10:30:00Z")},
			{Number: 5, ID: "txn_3Pa3", Kind: statement.LineRefund, Payment: "pi_3Pa1", Reference: "re_3Pa1", Key: back, SagaKey: saga1, Gross: -1000, Net: -1000, Currency: "EUR", BookedAt: at("2026-03-06T08:00:00Z")},
			{Number: 6, ID: "txn_3Pa4", Kind: statement.LineChargeback, Payment: "pi_2Zz9", Reference: "dp_3Pa1", Gross: -2500, Fee: 1500, Net: -4000, Currency: "EUR", BookedAt: at("2026-03-06T09:00:00Z")},
			{Number: 7, ID: "txn_3Pa5", Kind: statement.LineFee, Gross: -150, Net: -150, Currency: "EUR", BookedAt: at("2026-03-07T00:00:01Z")},
			{Number: 8, ID: "txn_3Pa6", Kind: statement.LineAdjustment, Gross: 320, Net: 320, Currency: "EUR", BookedAt: at("2026-03-07T10:00:00Z")},
			{Number: 9, ID: "txn_3Pa7", Kind: statement.LineCharge, Payment: "pi_3Pa7", Reference: "ch_3Pa7", Key: saga7 + "_charge", SagaKey: saga7, Gross: 5000, Fee: 175, Net: 4825, Currency: "JPY", BookedAt: at("2026-03-08T10:00:00Z")},
			{Number: 10, ID: "txn_3Pa8", Kind: statement.LineCharge, Payment: "pi_3Pa8", Reference: "ch_3Pa8", Gross: 10000, Fee: 200, Net: 9800, Currency: "EUR", BookedAt: at("2026-03-08T12:00:00Z")},
			{Number: 11, ID: "txn_3Pa9", Kind: statement.LineCharge, Payment: "pi_3Pa8", Reference: "re_3Pa8", Gross: -4000, Fee: -60, Net: -3940, Currency: "EUR", BookedAt: at("2026-03-08T12:00:00Z")},
		}},
		"stripe_payout_reconciliation": {"itemized payout reconciliation", []statement.Line{
			paid,
			{Number: 3, ID: "txn_3Pa3", Kind: statement.LineRefund, Payment: "pi_3Pa1", Reference: "re_3Pa1", Gross: -1000, Net: -1000, Currency: "EUR", Payout: "po_1Q1", BookedAt: at("2026-03-06T08:00:00Z")},
			{Number: 4, ID: "txn_1Q1p", Kind: statement.LinePayout, Reference: "po_1Q1", Gross: -2913, Net: -2913, Currency: "EUR", Payout: "po_1Q1", BookedAt: at("2026-03-07T00:00:00Z")},
			{Number: 5, ID: "txn_3Pb1", Kind: statement.LineCharge, Payment: "pi_3Pb1", Reference: "ch_3Pb1", Gross: 2000, Fee: 55, Net: 1945, Currency: "EUR", Payout: "po_1Q2", BookedAt: at("2026-03-06T18:00:00Z")},
		}},
		"stripe_balance_history": {"balance history", []statement.Line{
			old,
			{Number: 3, ID: "txn_1Q1p", Kind: statement.LinePayout, Reference: "po_1Q1", Gross: -2913, Net: -2913, Currency: "EUR", Payout: "po_1Q1", BookedAt: at("2026-03-07T00:00:00Z")},
		}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, report := readAll(t, load(t, name), statement.Options{})
			if diff := cmp.Diff(test.want, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if report.Provider != "stripe" || report.Format != test.format {
				t.Errorf("read as %s, %q, want stripe, %q", report.Provider, report.Format, test.format)
			}
			assertSound(t, report, len(test.want))
		})
	}
}

func TestAdyenFile(t *testing.T) {
	t.Parallel()
	want := []statement.Line{
		{Number: 2, Kind: statement.LineAdjustment, Reference: "Balancetransfer from batch 3 of ShopEU", Gross: 1250, Net: 1250, BookedAt: at("2026-03-01T03:00:00Z")},
		{Number: 3, Kind: statement.LineCharge, Payment: "8535516988471234", Reference: "8535516988479876", Key: saga1 + "_charge", SagaKey: saga1, Gross: 3998, Fee: 41, Net: 3957, BookedAt: at("2026-03-01T23:30:00Z")},
		{Number: 4, Kind: statement.LineCharge, Payment: "8535516988471235", Reference: "8535516988479877", Key: saga2 + "_charge", SagaKey: saga2, Gross: 156000, Fee: 2365, Net: 153635, Original: providers.Money{Amount: 170000, Currency: "USD"}, BookedAt: at("2026-03-02T08:15:00Z")},
		{Number: 5, Kind: statement.LineRefund, Payment: "8535516988471234", Reference: "8535516988470001", Key: back, SagaKey: saga1, Gross: -1000, Net: -1000, BookedAt: at("2026-03-03T09:00:00Z")},
		{Number: 6, Kind: statement.LineChargeback, Payment: "8535516988460007", Reference: "8535516988470002", Key: saga3 + "_charge", SagaKey: saga3, Gross: -2500, Fee: 750, Net: -3250, BookedAt: at("2026-03-03T10:00:00Z")},
		{Number: 7, Kind: statement.LineChargeback, Payment: "8535516988460008", Reference: "8535516988470003", Key: "order-77", Gross: 2500, Net: 2500, BookedAt: at("2026-03-03T10:30:00Z")},
		{Number: 8, Kind: statement.LineChargeback, Payment: "8535516988460009", Reference: "8535516988470004", Key: "order-78", Gross: -2500, Net: -2500, BookedAt: at("2026-03-03T10:45:00Z")},
		{Number: 9, Kind: statement.LineFee, Reference: "Transaction Fees March, 2026", Gross: -342, Net: -342, BookedAt: at("2026-03-04T02:10:00Z")},
		{Number: 10, Kind: statement.LineFee, Reference: "Transaction Fees March, 2026", Gross: -342, Net: -342, BookedAt: at("2026-03-04T02:10:00Z")},
		{Number: 11, Kind: statement.LineFee, Reference: "Invoice 202602000123", Gross: -10000, Net: -10000, BookedAt: at("2026-03-04T02:20:00Z")},
		{Number: 12, Kind: statement.LineAdjustment, Reference: "Deposit of batch 4, ShopEU", Gross: -5000, Net: -5000, BookedAt: at("2026-03-04T02:30:00Z")},
		{Number: 13, Kind: statement.LinePayout, Reference: "TX123456789XT batch 4, ShopEU", Gross: -138908, Net: -138908, BookedAt: at("2026-03-04T03:00:00Z")},
	}
	lines, report := readAll(t, load(t, "adyen_batch"), statement.Options{})
	ids := make(map[string]bool)
	for at := range lines {
		if ids[lines[at].ID] {
			t.Errorf("line %d has the id of another one", lines[at].Number)
		}
		ids[lines[at].ID] = true
		lines[at].ID = ""
		if at < len(want) {
			want[at].Currency, want[at].Payout = "EUR", "4"
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	assertSound(t, report, len(want))
	assertControl(t, report, statement.Control{Name: "payout of batch 4 of ShopEU", Currency: "EUR", Told: 138908, Counted: 138908})
}

func TestPayPalFile(t *testing.T) {
	t.Parallel()
	want := []statement.Line{
		{Number: 5, ID: "5AB12345CD678901E:T0006:CR", Kind: statement.LineCharge, Payment: "5AB12345CD678901E", Reference: "5AB12345CD678901E", Key: saga1 + "_charge", SagaKey: saga1, Gross: 3998, Fee: 175, Net: 3823, Currency: "EUR", BookedAt: at("2026-03-05T18:11:12Z")},
		{Number: 6, ID: "5AB12345CD678902E:T0006:CR", Kind: statement.LineCharge, Payment: "9AU00000000000001", Reference: "5AB12345CD678902E", Key: saga2 + "_capture", SagaKey: saga2, Gross: 156000, Fee: 4600, Net: 151400, Currency: "USD", BookedAt: at("2026-03-06T01:30:00Z")},
		{Number: 8, ID: "6RF00000000000001:T1107:DR", Kind: statement.LineRefund, Payment: "2ZZ00000000000009", Reference: "6RF00000000000001", Key: back, SagaKey: saga3, Gross: -4600, Net: -4600, Currency: "EUR", Original: providers.Money{Amount: 5000, Currency: "USD"}, BookedAt: at("2026-03-06T02:00:00Z")},
		{Number: 10, ID: "6RF00000000000002:T1107:DR", Kind: statement.LineRefund, Payment: "5AB12345CD678901E", Reference: "6RF00000000000002", SagaKey: saga1, Gross: -1000, Fee: -35, Net: -965, Currency: "EUR", BookedAt: at("2026-03-06T03:00:00Z")},
		{Number: 11, ID: "4CB00000000000001:T1201:DR", Kind: statement.LineChargeback, Payment: "2ZZ00000000000008", Reference: "4CB00000000000001", Gross: -2500, Net: -2500, Currency: "EUR", BookedAt: at("2026-03-06T04:00:00Z")},
		{Number: 12, ID: "4CB00000000000002:T0106:DR", Kind: statement.LineFee, Payment: "2ZZ00000000000008", Reference: "4CB00000000000002", Gross: -1600, Net: -1600, Currency: "EUR", BookedAt: at("2026-03-06T04:00:00Z")},
		{Number: 13, ID: "4CB00000000000003:T1106:DR", Kind: statement.LineChargeback, Payment: "2ZZ00000000000007", Reference: "4CB00000000000003", Gross: -990, Net: -990, Currency: "EUR", BookedAt: at("2026-03-06T04:30:00Z")},
		{Number: 14, ID: "8HO00000000000001:T1503:DR", Kind: statement.LineAdjustment, Payment: "5AB12345CD678901E", Reference: "8HO00000000000001", Gross: -300, Net: -300, Currency: "EUR", BookedAt: at("2026-03-06T05:00:00Z")},
		{Number: 15, ID: "3WD00000000000001:T0400:DR", Kind: statement.LinePayout, Reference: "3WD00000000000001", Gross: -20000, Net: -20000, Currency: "EUR", Payout: "3WD00000000000001", BookedAt: at("2026-03-06T06:00:00Z")},
	}
	lines, report := readAll(t, load(t, "paypal_stl"), statement.Options{})
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	assertSound(t, report, len(want))
	for _, control := range []statement.Control{
		{Name: "rows of account SHOPACCOUNT01", Told: 11, Counted: 11},
		{Name: "rows of the report", Told: 11, Counted: 11},
		{Name: "rows of the file", Told: 11, Counted: 11},
		{Name: "files that end", Told: 1, Counted: 1},
		{Name: "sections that end", Told: 1, Counted: 1},
		{Name: "gross debits of the report", Currency: "EUR", Told: 30990, Counted: 30990},
		{Name: "fee credits of account SHOPACCOUNT01", Currency: "EUR", Told: 35, Counted: 35},
		{Name: "fee debits of account SHOPACCOUNT01", Currency: "USD", Told: 4600, Counted: 4600},
		{Name: "ending available balance of account SHOPACCOUNT01", Currency: "EUR", Told: 22868, Counted: 22868},
	} {
		assertControl(t, report, control)
	}
}

// assertSound holds a report of a file in which nothing is wrong.
func assertSound(t *testing.T, report statement.Report, lines int) {
	t.Helper()
	if report.Lines != int64(lines) || report.Malformed != 0 || len(report.Faults) != 0 {
		t.Errorf("report tells %d lines, %d malformed (%v), want %d and none", report.Lines, report.Malformed, report.Faults, lines)
	}
	if len(report.Controls) == 0 {
		t.Error("report has no control figures")
	}
	for _, control := range report.Controls {
		if !control.Holds() {
			t.Errorf("control figure does not hold: %+v", control)
		}
	}
}

func assertControl(t *testing.T, report statement.Report, want statement.Control) {
	t.Helper()
	for _, control := range report.Controls {
		if control.Name == want.Name && control.Currency == want.Currency {
			if control != want {
				t.Errorf("control figure is %+v, want %+v", control, want)
			}
			return
		}
	}
	t.Errorf("report has no control figure %q %s", want.Name, want.Currency)
}

// A wrong figure anywhere shows in the control figures, and in no others than those that it touches.
func TestControlsThatDoNotHold(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		file, old, changed string
		want               []string
	}{
		"net of a Stripe line":       {"stripe_activity", "-1.50,0.00,-1.50", "-1.50,0.00,-1.05", []string{"net of all lines"}},
		"payout of Stripe":           {"stripe_payout_reconciliation", "-29.13,0.00,-29.13", "-29.31,0.00,-29.31", []string{"payout po_1Q1"}},
		"payout of a batch":          {"adyen_batch", "EUR,1389.08", "EUR,1389.80", []string{"payout of batch 4 of ShopEU"}},
		"line of a batch is missing": {"adyen_batch", "12.50", "0.00", []string{"payout of batch 4 of ShopEU"}},
		"rows of PayPal":             {"paypal_stl", "\"SC\",11", "\"SC\",12", []string{"rows of account SHOPACCOUNT01"}},
		"file ends before its end":   {"paypal_stl", "\"FF\",11\n", "", []string{"files that end"}},
		"PayPal's sum": {
			"paypal_stl", "\"RF\",\"EUR\",3998,", "\"RF\",\"EUR\",3999,", []string{"gross credits of the report"},
		},
		"amount of a PayPal row": {"paypal_stl", "\"DR\",1600,\"EUR\"", "\"DR\",1601,\"EUR\"", []string{
			"ending available balance of account SHOPACCOUNT01", "ending available balance of the report",
			"gross debits of account SHOPACCOUNT01", "gross debits of the report",
		}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, report := readAll(t, replaced(t, load(t, test.file), test.old, test.changed), statement.Options{})
			var failed []string
			for _, control := range report.Controls {
				if !control.Holds() {
					failed = append(failed, control.Name)
				}
			}
			if diff := cmp.Diff(test.want, failed); diff != "" {
				t.Errorf("control figures that do not hold (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTotalsAndTimes(t *testing.T) {
	t.Parallel()
	_, report := readAll(t, load(t, "stripe_activity"), statement.Options{})
	want := map[string]statement.Total{"EUR": {Gross: 162668, Fee: 4090, Net: 158578}, "JPY": {Gross: 5000, Fee: 175, Net: 4825}}
	if diff := cmp.Diff(want, report.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if !report.From.Equal(at("2026-03-05T10:11:12Z")) || !report.Until.Equal(at("2026-03-08T12:00:00Z")) {
		t.Errorf("bookings from %v until %v", report.From, report.Until)
	}
}

// Before the end of a file its control figures say nothing.
func TestReportBeforeTheEnd(t *testing.T) {
	t.Parallel()
	reader, err := statement.Open(bytes.NewReader(load(t, "adyen_batch")), statement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	report := reader.Report()
	if report.Lines != 1 || len(report.Controls) != 0 {
		t.Errorf("after one line the report tells %d lines and %d controls", report.Lines, len(report.Controls))
	}
	drain(t, reader)
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next after the end: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		content string
		options statement.Options
		want    string // in the error
	}{
		"nothing":                 {"", statement.Options{}, "no settlement file"},
		"one byte":                {"\xff", statement.Options{}, "no settlement file"},
		"another table":           {"a,b,c\n1,2,3\n", statement.Options{}, "no settlement file"},
		"other provider":          {string(load(t, "adyen_batch")), statement.Options{Provider: "stripe"}, "file of adyen"},
		"header after too much":   {strings.Repeat("title\n", 100) + string(load(t, "adyen_batch")), statement.Options{}, "no settlement file"},
		"Stripe without amounts":  {"balance_transaction_id,created,currency,reporting_category\n", statement.Options{}, "fee, gross, net"},
		"Adyen without time zone": {strings.Replace(string(load(t, "adyen_batch")), "TimeZone", "Zone", 1), statement.Options{}, "TimeZone"},
		"a column twice":          {strings.Replace(string(load(t, "adyen_batch")), "Reserved4", "Net Debit (NC)", 1), statement.Options{}, "more than once"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := statement.Open(strings.NewReader(test.content), test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open: %v, want an error with %q", err, test.want)
			}
		})
	}
}

type brokenSource struct {
	content io.Reader
	err     error
}

func (b *brokenSource) Read(into []byte) (int, error) {
	count, err := b.content.Read(into)
	if errors.Is(err, io.EOF) {
		return count, b.err
	}
	return count, err
}

// A source that fails is no end of the file: what it cut off is not told as read, and the controls are not judged.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("disk is gone")
	content := load(t, "adyen_batch")
	reader, err := statement.Open(&brokenSource{content: bytes.NewReader(content[:len(content)/2]), err: failure}, statement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err = reader.Next()
		if err != nil {
			break
		}
	}
	if !errors.Is(err, failure) {
		t.Errorf("Next: %v, want the source's error", err)
	}
	if report := reader.Report(); len(report.Controls) != 0 || report.Malformed != 0 {
		t.Errorf("report of a file that was not read to its end has controls %v and %d malformed lines", report.Controls, report.Malformed)
	}
}

// Where a report has only times of its own zone, that zone must be told. Summer time ends twice an hour: the earlier one is meant.
func TestStripeReportInAZone(t *testing.T) {
	t.Parallel()
	helsinki, err := time.LoadLocation("Europe/Helsinki")
	if err != nil {
		t.Fatal(err)
	}
	const file = "balance_transaction_id,created,currency,gross,fee,net,reporting_category\n" +
		"txn_1,2026-03-05 01:30:00,eur,1.00,0.00,1.00,charge\n" +
		"txn_2,2026-10-25 03:30:00,eur,1.00,0.00,1.00,charge\n" +
		"txn_3,2026-03-29 03:30:00,eur,1.00,0.00,1.00,charge\n"
	for name, test := range map[string]struct {
		options statement.Options
		want    []time.Time
	}{
		"told":     {statement.Options{Zone: helsinki}, []time.Time{at("2026-03-04T23:30:00Z"), at("2026-10-25T00:30:00Z"), at("2026-03-29T01:30:00Z")}},
		"not told": {statement.Options{}, []time.Time{at("2026-03-05T01:30:00Z"), at("2026-10-25T03:30:00Z"), at("2026-03-29T03:30:00Z")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, _ := readAll(t, []byte(file), test.options)
			got := make([]time.Time, 0, len(lines))
			for _, line := range lines {
				got = append(got, line.BookedAt)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("booked (-want +got):\n%s", diff)
			}
		})
	}
}

// A line of a capture bears the capture's own key, beside the order's; what was captured by itself, or under somebody else's reference, bears
// the payment's.
func TestAdyenKeyOfACapture(t *testing.T) {
	t.Parallel()
	const capture = "0c4f5dd2-5d7a-5c53-9a48-6c2b6c9a1b7e_capture"
	for modification, want := range map[string]providers.SubKey{capture: capture, "": saga1 + "_charge", "by hand": saga1 + "_charge"} {
		content := bytes.Replace(load(t, "adyen_batch"), []byte(",visaclassic,,"), []byte(",visaclassic,"+modification+","), 1)
		lines, _ := readAll(t, content, statement.Options{})
		if line := lines[1]; line.Key != want || line.SagaKey != saga1 {
			t.Errorf("%q: the key is %q, the order's %q", modification, line.Key, line.SagaKey)
		}
	}
}
