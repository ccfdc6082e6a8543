package saga

import (
	"strings"

	"paysaga/providers"
)

const (
	// mostCode and mostDetail, in bytes, are more than any provider's code, reference or sentence.
	mostCode   = 255
	mostDetail = 1000
)

// storable is an outcome as every store can keep it. What a provider or a service tells need not be text: an outcome that could not be
// written would leave money taken and its call repeated. References that do not fit name nothing.
func storable(o providers.Outcome) providers.Outcome {
	o.Code, o.Detail = text(o.Code, mostCode), text(o.Detail, mostDetail)
	if o.Reference != text(o.Reference, mostCode) {
		o.Reference = ""
	}
	if o.Decline != nil {
		o.Decline = &providers.Decline{Code: text(o.Decline.Code, mostCode), Bank: text(o.Decline.Bank, mostCode), Hard: o.Decline.Hard}
	}
	return o
}

// text is what is left of a text without NUL and broken UTF-8, up to a limit in bytes.
func text(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
