package statement_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paysaga/reconcile/statement"
)

// wholeFiles are the files of testdata, whose every line can be read.
var wholeFiles = []string{"stripe_activity", "stripe_payout_reconciliation", "stripe_balance_history", "adyen_batch", "paypal_stl"}

const stripeHead = "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category\n"

// A number that can be read in two ways is what the file's other numbers say, wherever they stand; where none does, it is an error.
func TestAmbiguousNumbers(t *testing.T) {
	t.Parallel()
	const ambiguous = "txn_1,2026-03-05 10:00:00,jpy,\"1,560\",0,\"1,560\",charge\n"
	cases := map[string]struct {
		rows   string
		gross  []int64
		faults []statement.Fault
	}{
		"alone": {ambiguous, nil, []statement.Fault{{
			Number: 2, Column: "gross",
			Reason: "The field can be read in two ways: nothing in the file tells whether its separator is that of thousands or that of decimals.",
		}}},
		"a point behind it":  {ambiguous + "txn_2,2026-03-05 10:00:00,eur,0.50,0,0.50,charge\n", []int64{1560, 50}, nil},
		"a point before it":  {"txn_2,2026-03-05 10:00:00,eur,0.50,0,0.50,charge\n" + ambiguous, []int64{50, 1560}, nil},
		"in the same line":   {"txn_1,2026-03-05 10:00:00,eur,\"1,560\",0.50,1559.50,charge\n", []int64{156000}, nil},
		"others ambiguous":   {ambiguous + ambiguous, nil, []statement.Fault{{Number: 2, Column: "gross"}, {Number: 3, Column: "gross"}}},
		"others say nothing": {ambiguous + "txn_2,2026-03-05 10:00:00,jpy,50,0,50,charge\n", []int64{50}, []statement.Fault{{Number: 2, Column: "gross"}}},
		"a comma behind it": {
			"txn_1,2026-03-05 10:00:00,kwd,\"1,560\",0,\"1,560\",charge\ntxn_2,2026-03-05 10:00:00,eur,\"0,50\",0,\"0,50\",charge\n",
			[]int64{1560, 50},
			nil,
		},
		"two ways in one file": {
			"txn_1,2026-03-05 10:00:00,eur,0.50,0,0.50,charge\ntxn_2,2026-03-05 10:00:00,eur,\"0,50\",0,\"0,50\",charge\n",
			[]int64{50},
			[]statement.Fault{{Number: 3, Column: "gross"}},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, report := readAll(t, []byte(stripeHead+test.rows), statement.Options{})
			var gross []int64
			for _, line := range lines {
				gross = append(gross, line.Gross)
			}
			if diff := cmp.Diff(test.gross, gross); diff != "" {
				t.Errorf("gross (-want +got):\n%s", diff)
			}
			options := cmpopts.IgnoreFields(statement.Fault{}, "Reason")
			if len(test.faults) > 0 && test.faults[0].Reason != "" {
				options = cmp.Options{}
			}
			if diff := cmp.Diff(test.faults, report.Faults, options); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Rows wait for a number that settles how the file writes them in a room that has a bound; their order stays.
func TestRowsThatWait(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString(stripeHead)
	const rows = 3000
	for at := range rows {
		if at == 1 {
			fmt.Fprintf(&file, "txn_%d,2026-03-05 10:00:00,jpy,\"1,560\",0,\"1,560\",charge\n", at)
			continue
		}
		fmt.Fprintf(&file, "txn_%d,2026-03-05 10:00:00,jpy,%d,0,%d,charge\n", at, at%1000, at%1000)
	}
	file.WriteString("txn_last,2026-03-05 10:00:00,eur,0.50,0,0.50,charge\n")
	lines, report := readAll(t, []byte(file.String()), statement.Options{})
	if len(lines) != rows || report.Malformed != 1 || report.Faults[0].Number != 3 {
		t.Fatalf("%d lines, faults %v, want %d and line 3 only", len(lines), report.Faults, rows)
	}
	for at := 1; at < len(lines); at++ {
		if lines[at].Number <= lines[at-1].Number {
			t.Fatalf("line %d comes behind line %d", lines[at].Number, lines[at-1].Number)
		}
	}
}

// A byte order mark hides no column, and files that were put together have theirs, and their headers, in the middle.
func TestFilesPutTogether(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	for _, name := range []string{"stripe_activity", "adyen_batch"} {
		content := load(t, name)
		alone, _ := readAll(t, content, statement.Options{})
		twice, report := readAll(t, []byte(mark+string(content)+mark+string(content)), statement.Options{})
		if report.Malformed != 0 || len(twice) != 2*len(alone) {
			t.Errorf("%s twice: %d lines, faults %v, want %d lines", name, len(twice), report.Faults, 2*len(alone))
		}
	}
}

func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const good = "txn_%d,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n"
	long := strings.Repeat("x", 70_000)
	cases := map[string]struct {
		row  string
		want statement.Fault
	}{
		"short":                {"txn_2,2026-03-05 10:00:00,eur,1.00\n", statement.Fault{Number: 3, Reason: "The line ends before its last columns, as if it were cut off."}},
		"long":                 {"txn_2,2026-03-05 10:00:00,eur,1,560.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Reason: "The line has more fields than there are columns, as if a separator stood in a text without quotes."}},
		"quote in a field":     {"txn_2,2026-03-05 10:00:00,eur,1.00,0.00,1.00,ch\"arge\n", statement.Fault{Number: 3, Reason: "The line has a quote in the wrong place."}},
		"text behind a quote":  {"\"txn\"_2,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Reason: "The line has a quote in the wrong place."}},
		"quote that stays":     {"\"txn_2,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Reason: "The line has a quoted text that does not end."}},
		"longer than a row":    {"txn_2" + long + ",2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Reason: "The line is longer than a row can be."}},
		"quoted, and too long": {"\"txn_2\n" + long + "\",2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Reason: "The line has a quoted text that does not end."}},
		"no amount":            {"txn_2,2026-03-05 10:00:00,eur,,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "gross", Reason: "The field is empty."}},
		"amount of letters":    {"txn_2,2026-03-05 10:00:00,eur,1.00,O.OO,1.00,charge\n", statement.Fault{Number: 3, Column: "fee", Reason: "The field is no number."}},
		"amount too fine":      {"txn_2,2026-03-05 10:00:00,eur,1.00,0.001,1.00,charge\n", statement.Fault{Number: 3, Column: "fee", Reason: "The field has more decimals than its currency."}},
		"no currency":          {"txn_2,2026-03-05 10:00:00,zzz,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "currency", Reason: "The field is no ISO 4217 currency of payment."}},
		"no time":              {"txn_2,05.03.2026 10:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "created_utc", Reason: "The field is no time that can be read."}},
		"no id":                {",2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "balance_transaction_id", Reason: "The field is missing in this line."}},
		"id of zero bytes":     {"txn\x00_2,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "balance_transaction_id", Reason: "The field has characters that no reference has."}},
		"id in another code":   {"txn\xe9_2,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "balance_transaction_id", Reason: "The field has characters that no reference has."}},
		"id without end":       {strings.Repeat("x", 600) + ",2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", statement.Fault{Number: 3, Column: "balance_transaction_id", Reason: "The field is longer than any reference."}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := stripeHead + fmt.Sprintf(good, 1) + test.row + fmt.Sprintf(good, 3)
			lines, report := readAll(t, []byte(file), statement.Options{})
			// A row over several lines is given up line by line; the ones behind the first are faulty by themselves.
			if len(report.Faults) == 0 || report.Faults[0] != test.want {
				t.Errorf("faults %+v, want %+v", report.Faults, test.want)
			}
			if len(lines) != 2 || lines[0].ID != "txn_1" || lines[1].ID != "txn_3" {
				t.Errorf("the lines around it are not read: %+v", lines)
			}
		})
	}
}

// Wherever a file is cut off: what is read is what stands there, and a row that is cut is told, or says all that matters.
func TestCutOffAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range wholeFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := load(t, name)
			whole, _ := readAll(t, content, statement.Options{})
			want := make(map[int]statement.Line)
			for _, line := range whole {
				want[line.Number] = line
			}
			for length := 0; length < len(content); length += 3 {
				reader, err := statement.Open(bytes.NewReader(content[:length]), statement.Options{})
				if err == nil { // else the header itself is cut
					assertCut(t, reader, content[:length], want)
				}
			}
		})
	}
}

func assertCut(t *testing.T, reader *statement.Reader, content []byte, want map[int]statement.Line) {
	t.Helper()
	lines := drain(t, reader)
	report := reader.Report()
	for _, line := range lines {
		if !sameUnlessPaired(line, want[line.Number]) && !cutInNumber(report) {
			t.Fatalf("cut at %d: line is %+v, the whole file's is %+v", len(content), line, want[line.Number])
		}
	}
	if begun := bytes.Count(content, []byte("\n")) + 1; report.Lines+report.Malformed == 0 && begun > 6 {
		t.Fatalf("cut at %d: nothing is told of %d lines", len(content), begun)
	}
}

// sameUnlessPaired: of a conversion, what it belongs to may be cut off. So may be our own references: a payment has the provider's too.
func sameUnlessPaired(cut, whole statement.Line) bool {
	if strings.HasPrefix(string(whole.Key), string(cut.Key)) && strings.HasPrefix(whole.SagaKey, cut.SagaKey) {
		cut.Key, cut.SagaKey = whole.Key, whole.SagaKey
	}
	return cut == whole || cut.Kind == statement.LineExchange || whole.Original.Currency == "USD" && cut.Currency == "USD"
}

// cutInNumber: where a number is the last field, its rest may be missing without a trace in the row, but not in the control figures.
func cutInNumber(report statement.Report) bool {
	for _, control := range report.Controls {
		if !control.Holds() {
			return true
		}
	}
	return false
}

// A PayPal report that ends early does not look whole, wherever it ends.
func TestCutOffReportIsTold(t *testing.T) {
	t.Parallel()
	content := load(t, "paypal_stl")
	for length := 200; length < len(content)-1; length += 2 {
		reader, err := statement.Open(bytes.NewReader(content[:length]), statement.Options{})
		if err != nil {
			t.Fatalf("cut at %d: %v", length, err)
		}
		drain(t, reader)
		if report := reader.Report(); report.Malformed == 0 && !cutInNumber(report) {
			t.Fatalf("cut at %d: nothing shows it", length)
		}
	}
}

// Adyen's bookings have no ids: the same one in two files has one, two equal ones in one file have two.
func TestSameBookingInTwoFiles(t *testing.T) {
	t.Parallel()
	content := string(load(t, "adyen_batch"))
	rows := strings.SplitAfter(content, "\n")
	march, _ := readAll(t, []byte(content), statement.Options{})
	ids := make(map[string]int)
	for _, line := range march {
		ids[line.ID]++
	}
	if len(ids) != len(march) {
		t.Fatalf("%d bookings have %d ids", len(march), len(ids))
	}
	for at := 1; at < len(rows)-1; at++ {
		day, _ := readAll(t, []byte(rows[0]+strings.Join(rows[at:], "")), statement.Options{})
		for _, line := range day {
			if ids[line.ID] != 1 {
				t.Errorf("file from row %d on: %s %s has an id that it has not in the whole file", at, line.Kind, line.Reference)
			}
		}
	}
	changed, _ := readAll(t, replaced(t, []byte(content), "EUR,,39.98,1,EUR,,39.57", "EUR,,39.98,1,EUR,,39.58"), statement.Options{})
	if changed[1].ID == march[1].ID {
		t.Error("a booking over another net has the same id")
	}
}

// One transaction of PayPal is booked more than once: held and released, and back.
func TestPayPalBookingsOfOneTransaction(t *testing.T) {
	t.Parallel()
	content := replaced(t, load(t, "paypal_stl"),
		"\"SB\",\"8HO00000000000001\",\"\",\"5AB12345CD678901E\",\"TXN\",\"T1503\",2026/03/05 21:00:00 -0800,2026/03/05 21:00:00 -0800,\"DR\"",
		"\"SB\",\"5AB12345CD678901E\",\"\",\"5AB12345CD678901E\",\"TXN\",\"T0006\",2026/03/05 21:00:00 -0800,2026/03/05 21:00:00 -0800,\"DR\"")
	lines, _ := readAll(t, content, statement.Options{})
	ids := make(map[string]bool)
	for _, line := range lines {
		ids[line.ID] = true
	}
	if len(ids) != len(lines) {
		t.Errorf("%d bookings have %d ids", len(lines), len(ids))
	}
}

func TestPayPalConversions(t *testing.T) {
	t.Parallel()
	type change struct{ old, changed string }
	cases := map[string]struct {
		changes []change
		want    string // of the refund, and of what else there is of it
	}{
		"as it is":            {nil, "refund -4600 0 -4600 EUR of 50.00 USD"},
		"other amount":        {[]change{{"\"CR\",5000,\"USD\"", "\"CR\",5001,\"USD\""}}, "exchange -4600 0 -4600 EUR; refund -5000 0 -5000 USD; exchange 5001 0 5001 USD"},
		"of another payment":  {[]change{{"\"7CN00000000000002\",\"\",\"6RF00000000000001\"", "\"7CN00000000000002\",\"\",\"6RF0000000000000X\""}}, "exchange -4600 0 -4600 EUR; refund -5000 0 -5000 USD; exchange 5000 0 5000 USD"},
		"both into it":        {[]change{{"\"DR\",4600,\"EUR\"", "\"CR\",4600,\"EUR\""}}, "exchange 4600 0 4600 EUR; refund -5000 0 -5000 USD; exchange 5000 0 5000 USD"},
		"with a fee returned": {[]change{{"\"DR\",5000,\"USD\",\"\",,\"\"", "\"DR\",5000,\"USD\",\"CR\",150,\"USD\""}, {"\"CR\",5000,\"USD\"", "\"CR\",4850,\"USD\""}}, "refund -4742 -142 -4600 EUR of 50.00 USD"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := load(t, "paypal_stl")
			for _, each := range test.changes {
				content = replaced(t, content, each.old, each.changed)
			}
			lines, report := readAll(t, content, statement.Options{})
			if report.Malformed != 0 {
				t.Fatal(report.Faults)
			}
			if got := told(lines, 7, 9); got != test.want {
				t.Errorf("told %s, want %s", got, test.want)
			}
		})
	}
}

// told is what some lines of a file say, in short.
func told(lines []statement.Line, from, until int) string {
	var texts []string
	for _, line := range lines {
		if line.Number < from || line.Number > until {
			continue
		}
		text := fmt.Sprintf("%s %d %d %d %s", line.Kind, line.Gross, line.Fee, line.Net, line.Currency)
		if line.Original.Currency != "" {
			text += " of " + line.Original.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// faultCase is a file in which one text is changed, and the fault that comes of it.
type faultCase struct {
	old, changed string
	want         statement.Fault
}

func assertFaults(t *testing.T, file string, cases map[string]faultCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, report := readAll(t, replaced(t, load(t, file), test.old, test.changed), statement.Options{})
			if diff := cmp.Diff([]statement.Fault{test.want}, report.Faults, cmpopts.IgnoreFields(statement.Fault{}, "Reason")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPayPalRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	cases := map[string]faultCase{
		"amount with a point":  {"\"DR\",1600,\"EUR\"", "\"DR\",16.00,\"EUR\"", statement.Fault{Number: 12, Column: "Gross Transaction Amount"}},
		"amount with a sign":   {"\"DR\",1600,\"EUR\"", "\"DR\",-1600,\"EUR\"", statement.Fault{Number: 12, Column: "Gross Transaction Amount"}},
		"no direction":         {"\"DR\",1600,\"EUR\"", "\"\",1600,\"EUR\"", statement.Fault{Number: 12, Column: "Transaction  Debit or Credit"}},
		"fee in other money":   {"\"CR\",35,\"EUR\"", "\"CR\",35,\"USD\"", statement.Fault{Number: 10, Column: "Fee Currency"}},
		"no code":              {"\"T0106\"", "\"\"", statement.Fault{Number: 12, Column: "Transaction Event Code"}},
		"row of unknown kind":  {"\"SC\",11", "\"XX\",11", statement.Fault{Number: 18}},
		"count that is none":   {"\"SC\",11", "\"SC\",many", statement.Fault{Number: 18, Column: "number of rows"}},
		"footer without money": {"\"SF\",\"USD\"", "\"SF\",\"\"", statement.Fault{Number: 17, Column: "currency of the balance"}},
		"time without offset":  {"2026/03/05 20:30:00 -0800,2026/03/05 20:30:00 -0800", "2026/03/05 20:30:00,2026/03/05 20:30:00", statement.Fault{Number: 13, Column: "Transaction Completion Date"}},
	}
	assertFaults(t, "paypal_stl", cases)
}

// A transaction detail report has the same rows, and among them what was never settled.
func TestTransactionDetailReportIsRefused(t *testing.T) {
	t.Parallel()
	content := replaced(t, load(t, "paypal_stl"), "\"Custom Field\"", "\"Transactional Status\"")
	lines, report := readAll(t, content, statement.Options{})
	if len(lines) != 0 || report.Malformed != 12 || report.Faults[0].Number != 4 {
		t.Errorf("%d lines are read, %d malformed, first %v", len(lines), report.Malformed, report.Faults[0])
	}
}

// The footers of a report count all its files; the second one alone does not have what they count.
func TestLaterFileOfAReport(t *testing.T) {
	t.Parallel()
	content := replaced(t, load(t, "paypal_stl"), "\"FH\",01", "\"FH\",02")
	content = replaced(t, content, "\"RC\",11", "\"RC\",1000011")
	_, report := readAll(t, content, statement.Options{})
	for _, control := range report.Controls {
		if !control.Holds() || strings.HasSuffix(control.Name, "of the report") {
			t.Errorf("judged: %+v", control)
		}
	}
}

func TestPayPalCurrenciesWithoutDecimals(t *testing.T) {
	t.Parallel()
	content := replaced(t, load(t, "paypal_stl"), "\"DR\",1600,\"EUR\"", "\"DR\",1600,\"HUF\"")
	lines, _ := readAll(t, content, statement.Options{})
	for _, line := range lines {
		if line.Currency == "HUF" {
			if line.Gross != -160000 {
				t.Errorf("1600 forint are %d minor units", line.Gross)
			}
			return
		}
	}
	t.Error("the line is not read")
}

func TestAdyenRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	cases := map[string]faultCase{
		"unknown zone":  {"2026-03-02 00:30:00,CET", "2026-03-02 00:30:00,XYZ", statement.Fault{Number: 3, Column: "TimeZone"}},
		"unclear zone":  {"2026-03-02 00:30:00,CET", "2026-03-02 00:30:00,CST", statement.Fault{Number: 3, Column: "TimeZone"}},
		"no zone":       {"2026-03-02 00:30:00,CET", "2026-03-02 00:30:00,", statement.Fault{Number: 3, Column: "TimeZone"}},
		"no type":       {"CET,Settled,8535516988479876", "CET,,8535516988479876", statement.Fault{Number: 3, Column: "Type"}},
		"no net":        {"EUR,1389.08", "EUR,", statement.Fault{Number: 13, Column: "Net Credit (NC)"}},
		"no currency":   {"EUR,1389.08", ",1389.08", statement.Fault{Number: 13, Column: "Net Currency"}},
		"fee too fine":  {"0.051", "0.0510000001", statement.Fault{Number: 3, Column: "Scheme Fees (NC)"}},
		"broken amount": {"\"1,536.35\"", "\"1,536,35\"", statement.Fault{Number: 4, Column: "Net Credit (NC)"}},
	}
	assertFaults(t, "adyen_batch", cases)
}

// Where Adyen's file has booking dates, those are when a line was booked; its identity does not depend on them.
func TestAdyenBookingDates(t *testing.T) {
	t.Parallel()
	content := load(t, "adyen_batch")
	plain, _ := readAll(t, content, statement.Options{})
	content = bytes.ReplaceAll(content, []byte("Reserved4,Reserved5"), []byte("Booking Date,Booking Date TimeZone"))
	content = replaced(t, content, ",visaclassic,,4,,\nShopGroup,ShopEU,8535516988471235", ",visaclassic,,4,2026-07-03 00:30:00,CEST\nShopGroup,ShopEU,8535516988471235")
	lines, report := readAll(t, content, statement.Options{})
	assertSound(t, report, len(plain))
	if lines[1].BookedAt != at("2026-07-02T22:30:00Z") || lines[1].ID != plain[1].ID {
		t.Errorf("booked at %v with id %s, want 2026-07-02T22:30:00Z and %s", lines[1].BookedAt, lines[1].ID, plain[1].ID)
	}
	if lines[0] != plain[0] {
		t.Errorf("a line without a booking date is %+v, want %+v", lines[0], plain[0])
	}
}

// More faults than are told one by one are counted all the same.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	file := stripeHead + strings.Repeat("txn_1,never,eur,1.00,0.00,1.00,charge\n", 250)
	lines, report := readAll(t, []byte(file), statement.Options{})
	if len(lines) != 0 || report.Malformed != 250 || len(report.Faults) != 100 {
		t.Errorf("%d lines, %d malformed, %d told", len(lines), report.Malformed, len(report.Faults))
	}
}
