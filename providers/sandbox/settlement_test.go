package sandbox_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
	"paysaga/reconcile/statement"
)

// settlement orders a settlement file and reads it, as shops do. Nothing of it may be malformed, and its own figures must hold.
func (b *bench) settlement(t *testing.T, provider, query string) ([]statement.Line, statement.Report) {
	t.Helper()
	lines, report := b.readSettlement(t, provider, query)
	for _, control := range report.Controls {
		if !control.Holds() {
			t.Errorf("%s: %+v", provider, control)
		}
	}
	return lines, report
}

func (b *bench) readSettlement(t *testing.T, provider, query string) ([]statement.Line, statement.Report) {
	t.Helper()
	answer := b.get(t, "/_sandbox/settlement/"+provider+"?"+query).want(t, 200)
	reader, err := statement.Open(strings.NewReader(answer.body), statement.Options{Provider: provider})
	if err != nil {
		t.Fatalf("%v: %s", err, answer.body)
	}
	var lines []statement.Line
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	report := reader.Report()
	if report.Malformed != 0 || !strings.Contains(answer.header.Get("Content-Disposition"), "filename=") {
		t.Errorf("%s: %+v\n%s", provider, report, answer.body)
	}
	return lines, report
}

// settledSums are the gross sums of a file by kind of line, and its fees.
type settledSums map[statement.LineKind]statement.Total

func sumsOf(lines []statement.Line) settledSums {
	sums := settledSums{}
	for _, line := range lines {
		total := sums[line.Kind]
		sums[line.Kind] = statement.Total{Gross: total.Gross + line.Gross, Fee: total.Fee + line.Fee, Net: total.Net + line.Net}
	}
	return sums
}

// lived is a bench with one payment of 39.98 EUR of each kind at a provider: one refunded in part by us and by others, one charged back.
func lived(t *testing.T, provider string) *bench {
	t.Helper()
	b := newBench(t, sandbox.Options{PayPalReusedInvoices: true})
	payments := diverging[provider]
	plant := func(body string) {
		b.control(t, "/divergence", `{"provider":"`+provider+`","kind":`+body+`}`, http.StatusCreated)
	}
	id := payments.taken(t, b)
	b.AdvanceClock(time.Hour)
	payments.refund(t, b, id)
	plant(`"refund_in_dashboard","amount":500`)
	plant(`"charge_without_order","amount":2000,"currency":"EUR","reference":"theirs"`)
	plant(`"chargeback","reference":"theirs"`)
	b.AdvanceClock(time.Hour)
	plant(`"charge_without_order","amount":3000,"currency":"EUR"`)
	return b
}

// TestSettlement: the file tells what the ledger has, with fees by the schedule, in a form that a reader knows who never saw the sandbox.
func TestSettlement(t *testing.T) {
	t.Parallel()
	const day = "from=2026-03-01T00:00:00Z&until=2026-03-02T00:00:00Z"
	tests := map[string]struct {
		fees       int64 // of 39.98, 20.00 and 30.00 together
		chargeback statement.Total
		fee        statement.Total
	}{
		"stripe": {85 + 55 + 70, statement.Total{Gross: -2000, Fee: 1500, Net: -3500}, statement.Total{}},
		"adyen":  {(24 + 4 + 8) + (12 + 2 + 4) + (18 + 3 + 6), statement.Total{Gross: -2000, Fee: 750, Net: -2750}, statement.Total{Gross: -33, Net: -33}},
		"paypal": {135 + 85 + 110, statement.Total{Gross: -2000, Net: -2000}, statement.Total{Gross: -1400, Net: -1400}},
	}
	for provider, test := range tests {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			b := lived(t, provider)
			lines, report := b.settlement(t, provider, day)
			charges := statement.Total{Gross: 8998, Fee: test.fees, Net: 8998 - test.fees}
			want := settledSums{
				statement.LineCharge: charges, statement.LineRefund: {Gross: -1500, Net: -1500}, statement.LineChargeback: test.chargeback,
			}
			if test.fee != (statement.Total{}) {
				want[statement.LineFee] = test.fee
			}
			payout := int64(0)
			for _, total := range want {
				payout -= total.Net
			}
			want[statement.LinePayout] = statement.Total{Gross: payout, Net: payout}
			if diff := cmp.Diff(want, sumsOf(lines)); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
			if len(report.Controls) == 0 || report.Totals["EUR"].Net != 0 {
				t.Errorf("a batch comes to nothing when it is paid out: %+v", report)
			}
			b.expectMarks(t, lines)
		})
	}
}

// expectMarks: what came of a payment refers to it, and is told apart from everything else.
func (b *bench) expectMarks(t *testing.T, lines []statement.Line) {
	t.Helper()
	ids := make(map[string]bool)
	known := make(map[string]bool)
	for _, charge := range b.Ledger() {
		known[charge.ID] = true
	}
	for _, line := range lines { // PayPal's payments are told by their captures
		if line.Kind == statement.LineCharge {
			known[line.Reference] = true
		}
	}
	for _, line := range lines {
		about := line.Kind == statement.LineCharge || line.Kind == statement.LineRefund || line.Kind == statement.LineChargeback
		if ids[line.ID] || about && !known[line.Payment] {
			t.Errorf("%+v", line)
		}
		ids[line.ID] = true
	}
}

// TestSettlementWindows: files that touch have each booking once; the same order brings the same file; only times change with the zone.
func TestSettlementWindows(t *testing.T) {
	t.Parallel()
	for provider := range diverging {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			b := lived(t, provider)
			path := "/_sandbox/settlement/" + provider + "?from=2026-03-01T00:00:00Z&until=2026-03-02T00:00:00Z"
			if first, again := b.get(t, path), b.get(t, path); first.body != again.body {
				t.Errorf("the same order brought another file:\n%s\n%s", first.body, again.body)
			}
			whole, _ := b.settlement(t, provider, "from=2026-03-01T00:00:00Z&until=2026-03-02T00:00:00Z")
			local, _ := b.settlement(t, provider, "from=2026-03-01T00:00:00Z&until=2026-03-02T00:00:00Z&timezone=Europe/Berlin")
			if diff := cmp.Diff(whole, local); diff != "" {
				t.Errorf("in another zone (-UTC +Berlin):\n%s", diff)
			}
			before, _ := b.settlement(t, provider, "from=2026-03-01T00:00:00Z&until=2026-03-01T13:00:00Z")
			after, _ := b.settlement(t, provider, "from=2026-03-01T13:00:00Z&until=2026-03-02T00:00:00Z")
			if diff := cmp.Diff(bookedIn(whole), bookedIn(append(slices.Clone(before), after...))); diff != "" || len(bookedIn(before)) != 1 {
				t.Errorf("%d before (-whole +parts):\n%s", len(bookedIn(before)), diff)
			}
		})
	}
}

// bookedIn are the ids of what is about payments.
func bookedIn(lines []statement.Line) (ids []string) {
	for _, line := range lines {
		if line.Kind == statement.LineCharge || line.Kind == statement.LineRefund || line.Kind == statement.LineChargeback {
			ids = append(ids, line.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestSettlementDivergences: a file can be wrong about a payment in three ways, and in nothing else.
func TestSettlementDivergences(t *testing.T) {
	t.Parallel()
	fees := map[string]int64{"stripe": 85, "adyen": 36, "paypal": 135}
	tests := map[string]func(fee int64) (gross, told, net int64){
		`"fee_changed","amount":200`:             func(int64) (int64, int64, int64) { return 3998, 200, 3798 },
		`"fee_changed"`:                          func(fee int64) (int64, int64, int64) { return 3998, fee + 1, 3997 - fee },
		`"net_changed","amount":3900`:            func(fee int64) (int64, int64, int64) { return 3998, fee, 3900 },
		`"settled_amount_changed","amount":4998`: func(fee int64) (int64, int64, int64) { return 4998, fee, 4998 - fee },
	}
	for provider, payments := range diverging {
		for body, want := range tests {
			if provider == "paypal" && strings.HasPrefix(body, `"net`) {
				continue // its report tells no net
			}
			t.Run(provider+" "+body, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, sandbox.Options{})
				payments.taken(t, b)
				b.control(t, "/divergence", `{"provider":"`+provider+`","kind":`+body+`}`, http.StatusCreated)
				b.AdvanceClock(time.Hour)
				lines, report := b.readSettlement(t, provider, "")
				holds := !slices.ContainsFunc(report.Controls, func(control statement.Control) bool { return !control.Holds() })
				if holds == strings.HasPrefix(body, `"net`) { // a wrong net is the one thing that a file shows of itself
					t.Errorf("controls: %+v", report.Controls)
				}
				gross, fee, net := want(fees[provider])
				if line := lines[0]; line.Gross != gross || line.Fee != fee || line.Net != net {
					t.Errorf("%+v, want %d, %d, %d", line, gross, fee, net)
				}
				if entry := b.only(t); entry.Captured != 3998 {
					t.Errorf("ledger: %+v", entry)
				}
			})
		}
	}
}

// TestSettlementOfManyCurrencies: each in its own decimals, and a batch of its own.
func TestSettlementOfManyCurrencies(t *testing.T) {
	t.Parallel()
	amounts := map[string]map[string]int64{
		"stripe": {"JPY": 500, "ISK": 5000, "KWD": 5120, "MGA": 500_000, "USD": 3998},
		"adyen":  {"JPY": 500, "KWD": 5120, "IDR": 500_000, "USD": 3998},
		"paypal": {"JPY": 500, "HUF": 200_000, "TWD": 50_000, "USD": 3998},
	}
	for provider, money := range amounts {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			for currency, amount := range money {
				b.control(t, "/divergence", `{"provider":"`+provider+`","kind":"charge_without_order","currency":"`+currency+`","amount":`+
					strconv.FormatInt(amount, 10)+`}`, http.StatusCreated)
			}
			b.AdvanceClock(time.Hour)
			lines, _ := b.settlement(t, provider, "")
			got := make(map[string]int64)
			for _, line := range lines {
				if line.Kind == statement.LineCharge {
					got[line.Currency] = line.Gross
				}
			}
			if !maps.Equal(money, got) {
				t.Errorf("%v, want %v", got, money)
			}
		})
	}
}

// TestSettlementBelowNothing: more went than came; nothing is paid out, and the file's figures hold all the same.
func TestSettlementBelowNothing(t *testing.T) {
	t.Parallel()
	for provider, payments := range diverging {
		b := newBench(t, sandbox.Options{})
		payments.taken(t, b)
		b.AdvanceClock(time.Hour)
		b.control(t, "/divergence", `{"provider":"`+provider+`","kind":"refund_in_dashboard"}`, http.StatusCreated)
		b.AdvanceClock(time.Hour)
		lines, _ := b.settlement(t, provider, "from=2026-03-01T13:00:00Z")
		if sums := sumsOf(lines); sums[statement.LineRefund].Gross != -3998 || sums[statement.LinePayout].Net < 0 {
			t.Errorf("%s: %+v", provider, lines)
		}
	}
}

func TestSettlementRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for path, status := range map[string]int{
		"stripe?from=yesterday": 400, "stripe?until=2026-03-01": 400, "stripe?from=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z": 400,
		"adyen?batch=0": 400, "adyen?batch=x": 400, "adyen?timezone=Mars/Base": 400, "klarna": 404,
	} {
		if answer := b.get(t, "/_sandbox/settlement/"+path); answer.status != status {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	if empty := b.get(t, "/_sandbox/settlement/stripe").want(t, 200); strings.Count(empty.body, "\n") != 1 {
		t.Errorf("a file without bookings has its header alone: %s", empty.body)
	}
}
