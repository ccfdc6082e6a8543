package statement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

var kinds = []statement.LineKind{
	statement.LineCharge, statement.LineRefund, statement.LineFee, statement.LineChargeback, statement.LinePayout, statement.LineAdjustment,
}

// drawLine makes up a booking, as any of the providers could tell it.
func drawLine(t *rapid.T, at int) statement.Line {
	line := statement.Line{
		Kind:     rapid.SampledFrom(kinds).Draw(t, "kind"),
		ID:       fmt.Sprintf("txn_%d", at),
		Currency: rapid.SampledFrom(currencies).Draw(t, "currency"),
		Gross:    drawAmount(t, "gross"),
		Fee:      drawAmount(t, "fee") / 100,
		BookedAt: drawMoment(t),
	}
	if line.Currency == "HUF" {
		line.Gross, line.Fee = line.Gross/100*100, line.Fee/100*100 // PayPal has no finer amount
	}
	if line.Kind != statement.LineCharge && rapid.Bool().Draw(t, "debit") {
		line.Gross = -line.Gross
	}
	line.Net = line.Gross - line.Fee
	switch line.Kind {
	case statement.LineCharge, statement.LineRefund, statement.LineChargeback:
		line.Payment = fmt.Sprintf("payment_%d", at/2)
		line.Reference = fmt.Sprintf("reference_%d", at)
		line.Key = providers.SubKey(fmt.Sprintf("key_%d", at))
		line.SagaKey = rapid.SampledFrom([]string{"", saga1, saga2}).Draw(t, "saga")
		if rapid.Bool().Draw(t, "foreign") && line.Currency != "GBP" {
			line.Original = providers.Money{Amount: drawAmount(t, "original"), Currency: "GBP"}
		}
	default:
		line.Reference = fmt.Sprintf("po_%d", at)
	}
	return line
}

func drawLines(t *rapid.T) []statement.Line {
	count := rapid.IntRange(1, 12).Draw(t, "lines")
	lines := make([]statement.Line, count)
	for at := range lines {
		lines[at] = drawLine(t, at)
	}
	settling := rapid.IntRange(0, count-1).Draw(t, "the line that settles how numbers are written")
	lines[settling] = settles(lines[settling])
	return lines
}

func drawNotes(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom(noise), 1, 5).Draw(t, "notes")
}

func drawOrder(t *rapid.T, length int) []int {
	order := make([]int, length)
	for at := range order {
		order[at] = at
	}
	return rapid.Permutation(order).Draw(t, "order of the columns")
}

// write writes the table. A booking's id as the very last thing in a file, without a line end, could be cut off: that is told.
func (t table) write(worn dress) []byte {
	identifying := []string{"balance_transaction_id", "Psp Reference", "Modification Reference", "Merchant Reference", "Merchant Account"}
	if slices.Contains(identifying, t.header[len(t.header)-1]) {
		worn.unfinished = false
	}
	return worn.write(slices.Concat([][]string{t.header}, t.rows))
}

func assertRead(t *rapid.T, content []byte, want []statement.Line, ignored ...string) []statement.Line {
	reader, err := statement.Open(newChunks(content), statement.Options{})
	if err != nil {
		t.Fatalf("Open: %v\n%q", err, content)
	}
	var got []statement.Line
	number := 0
	for {
		line, err := reader.Next()
		if err != nil {
			break
		}
		if line.Number <= number {
			t.Fatalf("line %d comes behind line %d", line.Number, number)
		}
		number = line.Number
		got = append(got, line)
	}
	report := reader.Report()
	if report.Malformed != 0 {
		t.Fatalf("malformed: %v\n%s", report.Faults, content)
	}
	ignored = append(ignored, "Number")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(statement.Line{}, ignored...)); diff != "" {
		t.Fatalf("lines (-want +got):\n%s\n%s", diff, content)
	}
	for _, control := range report.Controls {
		madeUp := strings.HasPrefix(control.Name, "payout ") // of nothing in particular
		if !control.Holds() && !madeUp {
			t.Fatalf("control figure does not hold: %+v", control)
		}
	}
	return got
}

func idsOf(lines []statement.Line) []string {
	ids := make([]string, len(lines))
	for at := range lines {
		ids[at] = lines[at].ID
	}
	return ids
}

// However a file is written, the same is read from it.
func TestStripeInAnyDress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines, worn, notes := drawLines(t), drawDress(t), drawNotes(t)
		for at := range lines {
			if lines[at].Kind == statement.LinePayout {
				lines[at].Payout = lines[at].Reference
			}
		}
		written := stripeTable(lines, notes, worn)
		assertRead(t, written.shuffled(drawOrder(t, len(written.header))).write(worn), lines)
	})
}

func TestAdyenInAnyDress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines, worn, notes := drawLines(t), drawDress(t), drawNotes(t)
		for at := range lines {
			if lines[at].Kind == statement.LinePayout {
				continue // a payout without its batch is held against nothing
			}
			if lines[at].Payment == "" {
				lines[at].Fee, lines[at].Net = 0, lines[at].Gross
			}
			lines[at].Payout = "4"
		}
		written := adyenTable(lines, notes, worn)
		dressed := assertRead(t, written.shuffled(drawOrder(t, len(written.header))).write(worn), lines, "ID")
		// A booking's id is its own, however its file is written.
		plain := dress{delimiter: ",", lineEnd: "\n", decimal: "."}
		other := assertRead(t, adyenTable(lines, notes, plain).write(plain), lines, "ID")
		if diff := cmp.Diff(idsOf(other), idsOf(dressed)); diff != "" {
			t.Fatalf("ids of the same bookings (-plain +dressed):\n%s", diff)
		}
		ids := idsOf(dressed)
		slices.Sort(ids)
		if len(slices.Compact(ids)) != len(lines) {
			t.Fatal("two bookings have one id")
		}
	})
}

func TestPayPalInAnyDress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines, worn, notes := drawLines(t), drawDress(t), drawNotes(t)
		for at := range lines {
			lines[at].Original = providers.Money{}
			if lines[at].Kind == statement.LinePayout {
				lines[at].Payout = lines[at].Reference
			}
		}
		const columns = 15
		assertRead(t, worn.write(payPalRows(lines, notes, drawOrder(t, columns))), lines, "ID")
	})
}

// A payment in another currency and the two conversions of its money are one line, in whatever order they stand.
func TestPayPalConversionsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		payments := rapid.IntRange(1, 5).Draw(t, "payments")
		want, told := make([]statement.Line, 0, payments), make([]statement.Line, 0, 3*payments)
		for at := range payments {
			line := statement.Line{
				Kind:      rapid.SampledFrom([]statement.LineKind{statement.LineCharge, statement.LineRefund, statement.LineChargeback}).Draw(t, "kind"),
				Reference: fmt.Sprintf("PAYMENT%d", at), Payment: "ORIGINAL", Currency: "USD",
				Gross: rapid.Int64Range(100, 1_000_000).Draw(t, "gross"), BookedAt: drawMoment(t),
			}
			if line.Kind != statement.LineCharge {
				line.Gross = -line.Gross
			}
			line.Net = line.Gross
			settled := rapid.Int64Range(1, 1_000_000).Draw(t, "settled")
			if line.Gross < 0 {
				settled = -settled
			}
			conversion := func(reference, currency string, gross int64) statement.Line {
				return statement.Line{
					Kind: statement.LineExchange, Reference: reference, Payment: line.Reference, Currency: currency, Gross: gross, Net: gross,
					BookedAt: line.BookedAt,
				}
			}
			told = append(told, line, conversion(line.Reference+"A", "USD", -line.Gross), conversion(line.Reference+"B", "EUR", settled))
			line.Original = providers.Money{Amount: max(line.Gross, -line.Gross), Currency: "USD"}
			line.Currency, line.Gross, line.Net = "EUR", settled, settled
			want = append(want, line)
		}
		told = rapid.Permutation(told).Draw(t, "order")
		rank := make(map[string]int)
		for at := range told {
			rank[told[at].Reference] = at
		}
		slices.SortFunc(want, func(a, b statement.Line) int { return rank[a.Reference] - rank[b.Reference] })
		plain := dress{delimiter: ",", lineEnd: "\n"}
		assertRead(t, plain.write(payPalRows(told, []string{""}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14})), want, "ID")
	})
}
