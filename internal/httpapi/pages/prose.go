package pages

import "strings"

// span is a run of text that is all code or all plain.
type span struct {
	Text string
	Code bool
}

// paragraphs splits a description at its empty lines, and each paragraph into plain text and `code`. Nothing else of
// Markdown is understood. A backtick without its partner is plain text.
func paragraphs(description string) [][]span {
	var all [][]span
	for paragraph := range strings.SplitSeq(description, "\n\n") {
		if text := strings.Join(strings.Fields(paragraph), " "); text != "" {
			all = append(all, spans(text))
		}
	}
	return all
}

func spans(text string) []span {
	var all []span
	for text != "" {
		before, rest, opened := strings.Cut(text, "`")
		code, after, closed := strings.Cut(rest, "`")
		if !opened || !closed {
			return append(all, span{Text: text})
		}
		if before != "" {
			all = append(all, span{Text: before})
		}
		if code != "" {
			all = append(all, span{Text: code, Code: true})
		}
		text = after
	}
	return all
}
