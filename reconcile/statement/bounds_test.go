package statement_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"paysaga/reconcile/statement"
)

// rowSource makes a file of any length while it is read.
type rowSource struct {
	head, tail string
	row        func(buffer []byte, at int) []byte
	rows       int

	at      int
	begun   bool
	ended   bool
	pending []byte
	buffer  []byte
}

func (s *rowSource) Read(into []byte) (int, error) {
	for len(s.pending) == 0 {
		switch {
		case !s.begun:
			s.begun, s.pending = true, []byte(s.head)
		case s.at < s.rows:
			s.buffer = s.buffer[:0]
			for range min(200, s.rows-s.at) {
				s.buffer = s.row(s.buffer, s.at)
				s.at++
			}
			s.pending = s.buffer
		case !s.ended:
			s.ended, s.pending = true, []byte(s.tail)
		default:
			return 0, io.EOF
		}
	}
	count := copy(into, s.pending)
	s.pending = s.pending[count:]
	return count, nil
}

// largeFiles are files of any number of rows, one for each format.
var largeFiles = map[string]func(rows int) *rowSource{
	"stripe": func(rows int) *rowSource {
		return &rowSource{
			rows: rows,
			head: "automatic_payout_id,balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,description," +
				"customer_facing_amount,customer_facing_currency,payment_intent_id,charge_id,payment_metadata[saga_key],payment_metadata[sub_key]\n",
			row: func(buffer []byte, at int) []byte {
				return fmt.Appendf(buffer, "po_%d,txn_3Pa%014d,2026-03-05 10:11:12,eur,\"1,%03d.98\",0.85,\"1,%03d.13\",charge,ch_3Pa%014d,\"Order %d, a shirt\","+
					"1039.98,eur,pi_3Pa%014d,ch_3Pa%014d,8c7f6f0e-3b1d-5a52-9c3e-%012d,8c7f6f0e-3b1d-5a52-9c3e-%012d_charge\n",
					at/50_000, at, at%1000, at%1000, at, at, at, at, at, at)
			},
		}
	},
	"adyen": func(rows int) *rowSource {
		return &rowSource{
			rows: rows,
			head: "Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Creation Date,TimeZone,Type,Modification Reference," +
				"Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate,Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC)," +
				"Markup (NC),Scheme Fees (NC),Interchange (NC),Payment Method Variant,Modification Merchant Reference,Batch Number\n",
			row: func(buffer []byte, at int) []byte {
				return fmt.Appendf(buffer, "ShopGroup,ShopEU,8535%012d,8c7f6f0e-3b1d-5a52-9c3e-%012d_charge,visa,2026-03-02 00:30:00,CET,Settled,8536%012d,"+
					"EUR,,1%03d.98,1,EUR,,1%03d.57,,0.24,0.051,0.12,visaclassic,,%d\n",
					at, at, at, at%1000, at%1000, at/50_000)
			},
		}
	},
	"paypal": func(rows int) *rowSource {
		return &rowSource{
			rows: rows,
			head: "\"RH\",2026/03/06 02:15:59 -0800,\"A\",\"SHOPACCOUNT01\",010,\n\"FH\",01\n" +
				"\"SH\",2026/03/05 00:00:00 -0800,2026/03/05 23:59:59 -0800,\"SHOPACCOUNT01\",\"\"\n" +
				"\"CH\",\"Transaction ID\",\"Invoice ID\",\"PayPal Reference ID\",\"PayPal Reference ID Type\",\"Transaction Event Code\"," +
				"\"Transaction Initiation Date\",\"Transaction Completion Date\",\"Transaction  Debit or Credit\",\"Gross Transaction Amount\"," +
				"\"Gross Transaction Currency\",\"Fee Debit or Credit\",\"Fee Amount\",\"Fee Currency\",\"Custom Field\",\"Consumer ID\"\n",
			row: func(buffer []byte, at int) []byte {
				return fmt.Appendf(buffer, "\"SB\",\"5AB%014d\",\"8c7f6f0e-3b1d-5a52-9c3e-%012d_charge\",\"\",\"\",\"T0006\",2026/03/05 10:11:12 -0800,"+
					"2026/03/05 10:11:12 -0800,\"CR\",3998,\"EUR\",\"DR\",175,\"EUR\",\"8c7f6f0e-3b1d-5a52-9c3e-%012d\",\"BUYER%08d\"\n",
					at, at, at, at%100_000_000)
			},
			tail: fmt.Sprintf("\"SF\",\"EUR\",%d,0,0,%d\n\"SC\",%d\n\"FF\",%d\n", int64(rows)*3998, int64(rows)*175, rows, rows),
		}
	},
}

// readLarge reads a large file, and gives the most memory that was in use at any of some fifty looks, in bytes.
func readLarge(t testing.TB, source io.Reader, rows int) (report statement.Report, peak uint64) {
	t.Helper()
	reader, err := statement.Open(source, statement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var memory runtime.MemStats
	for count := 0; ; count++ {
		_, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return reader.Report(), peak
		}
		if err != nil {
			t.Fatal(err)
		}
		if count%max(rows/50, 1) == 0 {
			runtime.ReadMemStats(&memory)
			peak = max(peak, memory.HeapAlloc)
		}
	}
}

// roomForAll is far more than reading needs, and less than the files that are read with it.
const roomForAll = 14 << 20

//nolint:paralleltest // it measures the memory of the whole process
func TestMemoryDoesNotGrow(t *testing.T) {
	const rows = 60_000
	for name, large := range largeFiles {
		t.Run(name, func(t *testing.T) {
			report, peak := readLarge(t, large(rows), rows)
			if report.Lines != rows || report.Malformed != 0 {
				t.Fatalf("%d lines, faults %v", report.Lines, report.Faults)
			}
			for _, control := range report.Controls {
				if !control.Holds() {
					t.Errorf("control figure does not hold: %+v", control)
				}
			}
			if peak > roomForAll {
				t.Errorf("%d rows needed %d MiB", rows, peak>>20)
			}
		})
	}
}

// endless repeats a text without end, as far as it is read.
type endless struct {
	text string
	left int
}

func (e *endless) Read(into []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	count := 0
	for count < len(into) && e.left > 0 {
		copied := copy(into[count:], e.text)
		count += copied
		e.left -= copied
	}
	return count, nil
}

// What would fill the memory of a reader that trusts its file.
//
//nolint:paralleltest // as above
func TestHostileFiles(t *testing.T) {
	const size, lines = 24 << 20, 512 << 10 // without line ends, and with them
	adyenHead := strings.SplitAfter(string(load(t, "adyen_batch")), "\n")[0]
	cases := map[string]struct {
		source io.Reader
		fails  bool // to be opened
		lines  int64
	}{
		"one line without end":         {source: &endless{text: "x", left: size}, fails: true},
		"one row without end":          {source: io.MultiReader(strings.NewReader(stripeHead), &endless{text: "x,", left: size})},
		"one quoted text without end":  {source: io.MultiReader(strings.NewReader(stripeHead+"\""), &endless{text: "x", left: size})},
		"quoted lines without end":     {source: io.MultiReader(strings.NewReader(stripeHead+"\""), &endless{text: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", left: lines})},
		"blank lines without end":      {source: io.MultiReader(strings.NewReader(stripeHead), &endless{text: "\n", left: lines})},
		"nothing but quotes":           {source: io.MultiReader(strings.NewReader(stripeHead), &endless{text: "\"\n", left: lines / 2})},
		"carriage returns without end": {source: io.MultiReader(strings.NewReader(stripeHead), &endless{text: "\r", left: lines})},
		"rows that wait": {
			source: io.MultiReader(strings.NewReader(stripeHead), &endless{text: "txn_1,2026-03-05 10:00:00,jpy,\"1,560\",0,\"1,560\",charge\n", left: lines}),
		},
		"a payout a row": {
			lines: 50_000,
			source: &rowSource{
				rows: 50_000, head: "automatic_payout_id," + stripeHead,
				row: func(buffer []byte, at int) []byte {
					return fmt.Appendf(buffer, "po_%d,txn_%d,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", at, at)
				},
			},
		},
		"bookings without references": {
			lines: 1 << 16,
			source: &rowSource{
				rows: 100_000, head: adyenHead,
				row: func(buffer []byte, at int) []byte {
					return fmt.Appendf(buffer, "G,S,,,,2026-03-04 03:10:00,CET,Fee,fee %d,,,,,EUR,3.42,,,,,,,,4,,\n", at)
				},
			},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			reader, err := statement.Open(test.source, statement.Options{})
			if test.fails != errors.Is(err, statement.ErrUnknownFormat) {
				t.Fatalf("Open: %v", err)
			}
			if read := countLines(reader); read != test.lines {
				t.Errorf("%d lines are read, want %d", read, test.lines)
			}
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			if memory.HeapAlloc > roomForAll {
				t.Errorf("%d MiB are in use", memory.HeapAlloc>>20)
			}
			runtime.KeepAlive(reader)
		})
	}
}

func countLines(reader *statement.Reader) (count int64) {
	if reader == nil {
		return 0
	}
	for {
		if _, err := reader.Next(); err != nil {
			return count
		}
		count++
	}
}

func TestPayoutsBeyondTheBound(t *testing.T) {
	t.Parallel()
	const payouts = 10_500
	reader, err := statement.Open(&rowSource{
		rows: payouts, head: "automatic_payout_id," + stripeHead,
		row: func(buffer []byte, at int) []byte {
			return fmt.Appendf(buffer, "po_%d,txn_%d,2026-03-05 10:00:00,eur,1.00,0.00,1.00,charge\n", at, at)
		},
	}, statement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, reader)
	assertControl(t, reader.Report(), statement.Control{Name: "lines of payouts beyond those that could be summed up", Counted: 500})
}

// FuzzRead: whatever stands in a file, reading it ends, and every line that it gives is sound.
func FuzzRead(f *testing.F) {
	for _, name := range wholeFiles {
		content := load(f, name)
		f.Add(content)
		f.Add(append([]byte{0xEF, 0xBB, 0xBF}, bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n"))...))
		f.Add(bytes.ReplaceAll(content, []byte(","), []byte(";")))
		f.Add(content[:len(content)*2/3])
	}
	f.Add([]byte("\xff\xfeR\x00H\x00,\x00\n\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		reader, err := statement.Open(bytes.NewReader(content), statement.Options{})
		if err != nil {
			return
		}
		lines, number := int64(0), 0
		for {
			line, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			lines++
			if line.Number <= number {
				t.Fatalf("line %d comes behind line %d", line.Number, number)
			}
			number = line.Number
			assertLine(t, line)
		}
		report := reader.Report()
		ends := bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("\r")) + 1
		if report.Lines != lines || lines+report.Malformed > int64(ends) || len(report.Faults) > 100 || len(report.Controls) > 1000 {
			t.Fatalf("report of %d lines and %d malformed (%d told), of %d in the file", report.Lines, report.Malformed, len(report.Faults), ends)
		}
	})
}

func assertLine(t *testing.T, line statement.Line) {
	t.Helper()
	const most = 1_000_000_000_000_000
	switch {
	case line.ID == "", line.Kind == "", len(line.Currency) != 3, line.Original.Amount < 0, line.BookedAt.Year() < 1998, line.BookedAt.Year() > 2100:
	case line.Net > 4*most, line.Net < -4*most, line.Gross > 9*most, line.Gross < -9*most:
	case len(line.ID)+len(line.Payment)+len(line.Reference)+len(line.Key)+len(line.Payout)+len(line.SagaKey) > 6*220:
	default:
		return
	}
	t.Fatalf("line is not sound: %+v", line)
}

// BenchmarkRead reads a million rows of each format.
func BenchmarkRead(b *testing.B) {
	const rows = 1_000_000
	for _, name := range []string{"stripe", "adyen", "paypal"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			peak := uint64(0)
			for b.Loop() {
				report, used := readLarge(b, largeFiles[name](rows), rows)
				if report.Lines != rows {
					b.Fatalf("%d lines", report.Lines)
				}
				peak = max(peak, used)
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}
