package idempotency_test

import (
	"errors"
	"strings"
	"testing"

	"paysaga/internal/idempotency"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for _, c := range []struct {
		name   string
		values []string
		want   string
	}{
		{"UUID", []string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"every character", []string{"AZaz09._~:-AZaz09"}, "AZaz09._~:-AZaz09"},
		{"shortest", []string{"0123456789abcdef"}, "0123456789abcdef"},
		{"longest", []string{long}, long},
		{"quoted", []string{`"0123456789abcdef"`}, "0123456789abcdef"},
		{"space around", []string{"\t 0123456789abcdef "}, "0123456789abcdef"},
		{"quotes do not count", []string{`"` + long + `"`}, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := idempotency.ParseKey(c.values); err != nil || got != c.want {
				t.Errorf("ParseKey(%q) = %q, %v", c.values, got, err)
			}
		})
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	if _, err := idempotency.ParseKey(nil); !errors.Is(err, idempotency.ErrKeyMissing) {
		t.Errorf("no header: %v, want ErrKeyMissing", err)
	}
	for name, values := range map[string][]string{
		"two headers":        {"0123456789abcdef", "0123456789abcdef"},
		"two in one":         {"0123456789abcdef, 0123456789abcdef"},
		"empty":              {""},
		"blank":              {"  "},
		"quoted empty":       {`""`},
		"only a quote":       {`"`},
		"15 characters":      {"0123456789abcde"},
		"256 characters":     {strings.Repeat("k", 256)},
		"quote not ended":    {`"0123456789abcdef`},
		"quote not begun":    {`0123456789abcdef"`},
		"quote inside":       {`"01234567"9abcdef0"`},
		"escape":             {`"0123456789abcdef\""`},
		"parameter":          {`"0123456789abcdef";a=1`},
		"slash":              {"0123456789/abcdef"},
		"inner space":        {"0123456789 abcdef"},
		"outside of ASCII":   {"0123456789abcdefé"},
		"control character":  {"0123456789abcdef\x00"},
		"not valid as UTF-8": {"0123456789abcdef\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := idempotency.ParseKey(values)
			malformed, ok := errors.AsType[*idempotency.KeyError](err)
			if !ok {
				t.Fatalf("ParseKey(%q): %v, want a KeyError", values, err)
			}
			if strings.Contains(malformed.Detail, "0123456789") {
				t.Errorf("the error repeats the key: %s", malformed.Detail)
			}
		})
	}
}
