package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What looks like a card number is found among what a person writes, however it was copied.
func TestCardNumbersInReasons(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		"4111111111111111", "card 4111 1111 1111 1111, 12/29", "4111-1111-1111-1111 12-29", "(378282246310005)", "6011.1111.1111.1117",
		"it is 5555_5555_5555_4444.", "ref 17 4111 1111 1111 1111", "4222222222222", "3782 822463 10005", "pan=4000000000000000006", "card4242424242424242",
		"the customer's 2223 0031 2200 3222 of 2026-12-02", "2026-12-02 4242 4242 4242 4242 39.98", "39.98 4242 4242 4242 4242",
		"4242  4242  4242  4242", "4242 - 4242 - 4242 - 4242", "4242\t4242\n4242\r\n4242", "4242\u00a04242\u00a04242\u00a04242",
		"4242\u202f4242\u20094242\u30004242", "4242–4242—4242−4242", "4242‑4242－4242ー4242", "4242/4242/4242/4242", "4242, 4242, 4242, 4242",
		"4242:4242|4242*4242", "4242\u200b4242\ufeff4242\u00ad4242", "4242 \u200b 4242   4242 ·4242", "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2",
		"42.42.42.42.42.42.42.42", "４２４２ ４２４２ ４２４２ ４２４２", "４２４２４２４２４２４２４２４２", "٤٢٤٢ ٤٢٤٢ ٤٢٤٢ ٤٢٤٢", "४२४२४२४२४२४२४२४२", "𝟒𝟐𝟒𝟐-𝟺𝟸𝟺𝟸-4242-4242",
	} {
		if !cardNumberIn(reason) {
			t.Errorf("%q is let through", reason)
		}
	}
}

// What a person needs to write is not taken for a card number.
func TestReasonsThatHaveNoCardNumber(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		"", "2", "bank transfer 4711 of 2026-12-02", "pi_3PqXyZ2eZvKYlo2C", "4111111111111112", "39.98 EUR",
		"order 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "30569309-0259-4423-8123-411111111111", "41111111-1111-4111-8111-411111111111 4711",
		"8535296650153317", "853 529 665 015 3317", "NC6HT9CRT65ZGN82", "Z2424242H4242424", "5O190127TN364715T",
		"called +49 30 1234567", "491512345678", "+491512345678", "0044 7911 123456", "5018 1234 5673 is a telephone", "tel. 501812345673",
		"from 2026-12-02 to 2026-12-31", "2026-12-02T14:02:11.020Z 2026-12-02 14:02", "02.12.2026, 3/12/2026, 04-12-2026", "20261202140211",
		"39.98 + 39.98 + 39.98 + 39.98", "1,999.00 - 1.999,00 = 0.00", "$39.98 (39.98€), 39,98!", "39.98 4711 12.30 47.11 39.98", "3998 of 3998",
		"4111 1111 and 1111 1111", "4111 1111 .... 1111 1111", "**** **** **** 4242", "424242******4242", strings.Repeat("4242424242424242", 2),
	} {
		if cardNumberIn(reason) {
			t.Errorf("%q is refused", reason)
		}
	}
}

// A card number is found with anything of three characters that are no letters and no digits between its groups, and any words around it.
func TestCardNumbersWithAnythingBetween(t *testing.T) {
	t.Parallel()
	between := rapid.StringOfN(rapid.Rune().Filter(func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != utf8.RuneError
	}), 0, widestGap, -1)
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("see ")
		for _, group := range rapid.SampledFrom([][]string{
			{"4242", "4242", "4242", "4242"}, {"3782", "822463", "10005"}, {"4222222", "222222"}, {"6304", "0000", "0000", "0000", "000"},
		}).Draw(t, "card") {
			text.WriteString(group + between.Draw(t, "between"))
		}
		text.WriteString(" of him")
		if !cardNumberIn(text.String()) {
			t.Errorf("%q is let through", text.String())
		}
	})
}

// Every digit that Unicode has is known by its value.
func TestPlainDigits(t *testing.T) {
	t.Parallel()
	rows := 0
	check := func(low, high rune) {
		for c := low; c <= high; c++ {
			if got, want := plainDigits(string(c)), string('0'+(c-low)%10); got != want {
				t.Errorf("%U is %s, want %s", c, got, want)
			}
		}
		rows++
	}
	for _, row := range unicode.Nd.R16 {
		check(rune(row.Lo), rune(row.Hi))
	}
	for _, row := range unicode.Nd.R32 {
		check(rune(row.Lo), rune(row.Hi))
	}
	if rows < 30 || plainDigits("a１²٣") != "a1²3" {
		t.Errorf("%d rows, %q", rows, plainDigits("a１²٣"))
	}
}

// No reason that is kept may have a card number: the request is refused, and reaches nobody.
func TestCardNumbersInReasonsAreRefused(t *testing.T) {
	t.Parallel()
	theSagaPath := "/v1/sagas/" + theKey.String()
	for path, body := range map[string]string{
		theSagaPath + "/retry": `{"reason":"%"}`, theSagaPath + "/cancel": `{"reason":"%"}`,
		theSagaPath + "/resolve": `{"resolution":"given","reason":"%"}`, theOrderPath + "/refunds": `{"amount":7,"reason":"%"}`,
	} {
		for reason, status := range map[string]int{
			`4242\u00a04242\u20134242 / 4242`: http.StatusBadRequest, "５５５５５５５５５５５５４４４４": http.StatusBadRequest,
			"order " + theKey.String() + " of 2026-12-02": http.StatusAccepted,
		} {
			runner := &askedRunner{}
			w := post(t, handlerOf(t, oneOrderStore{}, runner), path, strings.Replace(body, "%", reason, 1))
			refused := strings.Contains(w.Body.String(), `"/reason"`) && runner.calls == 0
			if w.Code != status || refused == (status == http.StatusAccepted) || strings.Contains(w.Body.String(), "4242") {
				t.Errorf("%s with %q: %d %s", path, reason, w.Code, w.Body)
			}
		}
	}
}
