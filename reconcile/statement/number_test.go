package statement

import (
	"errors"
	"testing"
	"time"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text, currency string
		style          style // of the file so far
		want           int64
		err            error
	}{
		{text: "1560", currency: "EUR", want: 156000},
		{text: "1,560.00", currency: "EUR", want: 156000},
		{text: "1.560,00", currency: "EUR", want: 156000},
		{text: "1 560,00", currency: "EUR", want: 156000},
		{text: "1\u00a0560,00", currency: "EUR", want: 156000},
		{text: "1\u202f560.00", currency: "EUR", want: 156000},
		{text: "1'560.00", currency: "CHF", want: 156000},
		{text: "1’560.00", currency: "CHF", want: 156000},
		{text: "1,234,567.89", currency: "EUR", want: 123456789},
		{text: "1.234.567,89", currency: "EUR", want: 123456789},
		{text: "1,234,567", currency: "JPY", want: 1234567},
		{text: "1.234.567", currency: "JPY", want: 1234567},
		{text: "1 560", currency: "JPY", want: 1560},
		{text: "19.99", currency: "EUR", want: 1999},
		{text: "19,99", currency: "EUR", want: 1999},
		{text: "7.5", currency: "EUR", want: 750},
		{text: ".5", currency: "EUR", want: 50},
		{text: ",05", currency: "EUR", want: 5},
		{text: "0", currency: "EUR", want: 0},
		{text: "0.00", currency: "JPY", want: 0},
		{text: "5000.00", currency: "JPY", want: 5000},
		{text: "12.340", currency: "EUR", style: stylePoint, want: 1234},
		{text: "-12.34", currency: "EUR", want: -1234},
		{text: "- 12.34", currency: "EUR", want: -1234},
		{text: "12.34-", currency: "EUR", want: -1234},
		{text: "−12,34", currency: "EUR", want: -1234},
		{text: "(12.34)", currency: "EUR", want: -1234},
		{text: "+12.34", currency: "EUR", want: 1234},
		{text: " 12.34 ", currency: "EUR", want: 1234},
		{text: "1.560", currency: "KWD", style: stylePoint, want: 1560},
		{text: "1.560", currency: "KWD", style: styleComma, want: 1560000},
		{text: "1,560", currency: "KWD", style: styleComma, want: 1560},
		{text: "1,560", currency: "JPY", style: stylePoint, want: 1560},
		{text: "0.560", currency: "KWD", want: 560},
		{text: "1560,000", currency: "KWD", want: 1560000},
		{text: "1 560,000", currency: "KWD", want: 1560000},
		{text: "1,560.000", currency: "KWD", want: 1560000},
		{text: "10000000000000.00", currency: "EUR", want: maxAmount},

		{text: "1,560", currency: "KWD", err: errAmbiguous},
		{text: "1.560", currency: "JPY", err: errAmbiguous},
		{text: "-1,560", currency: "EUR", err: errAmbiguous},
		{text: "12,34", currency: "EUR", style: stylePoint, err: errOtherWay},
		{text: "1.560,00", currency: "EUR", style: stylePoint, err: errOtherWay},
		{text: "1,560.00", currency: "EUR", style: styleComma, err: errOtherWay},
		{text: "1,560", currency: "JPY", style: styleComma, err: errTooFine},
		{text: "12.345", currency: "EUR", style: stylePoint, err: errTooFine},
		{text: "0.5", currency: "JPY", err: errTooFine},
		{text: "10000000000000.01", currency: "EUR", err: errTooLarge},
		{text: "99999999999999999999999999", currency: "EUR", err: errTooLarge},
		{text: "", currency: "EUR", err: errUnwritten},
		{text: "12.34", currency: "XXX", err: errCurrency},
		{text: "12.34", currency: "eur", err: errCurrency},
		{text: "1,56.00", currency: "EUR", err: errNoNumber},
		{text: "1,5600.00", currency: "EUR", err: errNoNumber},
		{text: "15,60.00", currency: "EUR", err: errNoNumber},
		{text: "1,2,3", currency: "EUR", err: errNoNumber},
		{text: "1.560,00.0", currency: "EUR", err: errNoNumber},
		{text: "1 56", currency: "JPY", err: errNoNumber},
		{text: "1 560 .00", currency: "EUR", err: errNoNumber},
		{text: "12,34,567.89", currency: "INR", err: errNoNumber},
		{text: "12.", currency: "EUR", err: errNoNumber},
		{text: ".", currency: "EUR", err: errNoNumber},
		{text: "-", currency: "EUR", err: errNoNumber},
		{text: "--5", currency: "EUR", err: errNoNumber},
		{text: "1e3", currency: "EUR", err: errNoNumber},
		{text: "0x10", currency: "EUR", err: errNoNumber},
		{text: "€12.34", currency: "EUR", err: errNoNumber},
		{text: "12.34 EUR", currency: "EUR", err: errNoNumber},
		{text: "١٢", currency: "EUR", err: errNoNumber},
		{text: "NaN", currency: "EUR", err: errNoNumber},
	}
	for _, test := range cases {
		t.Run(test.text+" "+test.currency, func(t *testing.T) {
			t.Parallel()
			reader := numbers{style: test.style}
			got, err := reader.amount(test.text, test.currency)
			if !errors.Is(err, test.err) || got != test.want {
				t.Errorf("amount(%q, %s) = %d, %v, want %d, %v", test.text, test.currency, got, err, test.want, test.err)
			}
		})
	}
}

func TestFeeParts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		parts, difference, want int64
	}{
		{parts: 41_100_000, difference: 41, want: 41},    // as the net shows
		{parts: 41_900_000, difference: 41, want: 41},    // rounded down
		{parts: 41_900_000, difference: 42, want: 42},    // rounded up
		{parts: 41_000_000, difference: 50, want: 41},    // the row contradicts itself: what it tells stays
		{parts: 41_500_000, difference: 90, want: 42},    // halves away from zero
		{parts: -41_500_000, difference: -90, want: -42}, // a fee that comes back
		{parts: 0, difference: 1_000_000_000_000_000, want: 0},
	}
	for _, test := range cases {
		if got := toldFee(test.parts, test.difference); got != test.want {
			t.Errorf("toldFee(%d, %d) = %d, want %d", test.parts, test.difference, got, test.want)
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	cases := []struct {
		zone, local, want string
	}{
		{"CET", "2026-03-01 00:30:00", "2026-02-28T23:30:00Z"},
		{"CET", "2026-07-01 00:30:00", "2026-06-30T23:30:00Z"}, // at its word: summer time is CEST
		{"CEST", "2026-07-01 00:30:00", "2026-06-30T22:30:00Z"},
		{"BST", "2026-07-01 00:30:00", "2026-06-30T23:30:00Z"},
		{"UTC", "2026-07-01 00:30:00", "2026-07-01T00:30:00Z"},
		{"PST", "2026-01-01 23:00:00", "2026-01-02T07:00:00Z"},
		{"+08", "2026-03-01 00:30:00", "2026-02-28T16:30:00Z"},
		{"-0330", "2026-03-01 00:30:00", "2026-03-01T04:00:00Z"},
		{"UTC+5:45", "2026-03-01 00:30:00", "2026-02-28T18:45:00Z"},
		{"gmt-3", "2026-03-01 00:30:00", "2026-03-01T03:30:00Z"},
		{"cet", "2026-03-01 00:30:00", "2026-02-28T23:30:00Z"},
		{"Europe/Amsterdam", "2026-07-01 00:30:00", "2026-06-30T22:30:00Z"},
		{"Europe/Amsterdam", "2026-03-29 01:59:59", "2026-03-29T00:59:59Z"},
		{"Europe/Amsterdam", "2026-03-29 02:30:00", "2026-03-29T01:30:00Z"}, // left out: counted from before, 03:30 of summer time
		{"Europe/Amsterdam", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
		{"Europe/Amsterdam", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{"Europe/Amsterdam", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z"}, // twice: the earlier one
		{"Europe/Amsterdam", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		{"America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z"},
		{"America/New_York", "2026-03-08 02:30:00", "2026-03-08T07:30:00Z"},
		{"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00Z"}, // half an hour twice
	}
	for _, test := range cases {
		t.Run(test.zone+" "+test.local, func(t *testing.T) {
			t.Parallel()
			place, err := newZones(nil).find(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			got, err := localTime(test.local, place)
			if err != nil || got.Format(time.RFC3339) != test.want {
				t.Errorf("%s in %s is %v, %v, want %s", test.local, test.zone, got, err, test.want)
			}
			if got.Location() != time.UTC {
				t.Errorf("%v is not told in UTC", got)
			}
		})
	}
}

func TestZonesThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Local", "", "XYZ", "CST", "IST", "Europe/Nowhere", "../../etc/passwd", "a/b", "+", "+99", "+08:99", "UTC+"} {
		if _, err := newZones(nil).find(name); err == nil {
			t.Errorf("zone %q is taken for one", name)
		}
	}
	own := time.FixedZone("", -6*3600)
	if found, err := newZones(own).find("CST"); err != nil || found != own {
		t.Errorf("an unclear abbreviation is not the account's own zone: %v, %v", found, err)
	}
}

func TestTimesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2026-13-01 00:00:00", "2026-02-30 00:00:00", "01/02/2026 10:00:00", "2026-03-05 10:0", "26-03-05 10:00:00", "0001-01-01 00:00:00",
		"9999-01-01 00:00:00", "2026-03-05 24:00:00", "1772705472",
	} {
		if read, err := localTime(text, time.UTC); err == nil {
			t.Errorf("%q is read as %v", text, read)
		}
	}
	for _, text := range []string{"", "2026/03/05 10:11:12", "2026/03/05 10:11:12 PST", "2026/03/05 25:11:12 -0800"} {
		if read, err := offsetTime(text); err == nil {
			t.Errorf("%q is read as %v", text, read)
		}
	}
}

func TestSumsNeverWrap(t *testing.T) {
	t.Parallel()
	const most = int64(^uint64(0) >> 1)
	for _, test := range [][3]int64{{1, 2, 3}, {most, 1, most}, {most - 1, 1, most}, {-most, -10, -most - 1}, {most, -1, most - 1}} {
		if got := add(test[0], test[1]); got != test[2] {
			t.Errorf("add(%d, %d) = %d, want %d", test[0], test[1], got, test[2])
		}
	}
}
