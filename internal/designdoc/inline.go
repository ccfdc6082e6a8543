package designdoc

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// inline writes what stands within a block: `code`, **strong**, *emphasis*, [links](target), {{values}} of the sources and
// [[package Test]], a test that must exist.
func (w *writer) inline(text string) string {
	var out strings.Builder
	for text != "" {
		var done bool
		switch {
		case strings.HasPrefix(text, "`"):
			text, done = w.span(&out, text, "`", "`", w.inlineCode)
		case strings.HasPrefix(text, "[["):
			text, done = w.span(&out, text, "[[", "]]", w.test)
		case strings.HasPrefix(text, "{{"):
			text, done = w.span(&out, text, "{{", "}}", w.value)
		case strings.HasPrefix(text, "**"):
			text, done = w.span(&out, text, "**", "**", func(s string) string { return "<strong>" + w.inline(s) + "</strong>" })
		case strings.HasPrefix(text, "*") && !strings.HasPrefix(text, "* "):
			text, done = w.span(&out, text, "*", "*", func(s string) string { return "<em>" + w.inline(s) + "</em>" })
		case strings.HasPrefix(text, "["):
			text, done = w.link(&out, text)
		default:
		}
		if !done {
			end := strings.IndexAny(text[1:], "`[{*") + 1
			if end == 0 {
				end = len(text)
			}
			out.WriteString(escaped(text[:end]))
			text = text[end:]
		}
	}
	return out.String()
}

var power = regexp.MustCompile(`\^(\d+)`)

// escaped writes plain text, powers raised.
func escaped(text string) string {
	return power.ReplaceAllString(html.EscapeString(text), "<sup>$1</sup>")
}

// span writes what stands between two marks. Without the second one nothing is done.
func (*writer) span(out *strings.Builder, text, open, end string, write func(string) string) (rest string, done bool) {
	inner, after, found := strings.Cut(text[len(open):], end)
	if end == "}}" && strings.HasPrefix(after, "}") { // a value whose name ends with a brace: {{fields PUT /v1/stock/{sku}}}
		inner, after = inner+"}", after[1:]
	}
	if !found || inner == "" {
		return text, false
	}
	out.WriteString(write(inner))
	return after, true
}

// filePath is code that names a file of the project.
var filePath = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)+\.(go|sql|md|json|yml|yaml|html|sh)$`)

func (w *writer) inlineCode(code string) string {
	if strings.HasPrefix(code, "{{") && strings.HasSuffix(code, "}}") {
		return "<code>" + w.value(strings.Trim(code, "{}")) + "</code>"
	}
	shown := "<code>" + html.EscapeString(code) + "</code>"
	if filePath.MatchString(code) {
		return w.fileLink(code, shown)
	}
	return shown
}

// fileLink leads to a file of the project, which must exist.
func (w *writer) fileLink(path, shown string) string {
	if _, err := os.Stat(filepath.Join(w.sources.root, filepath.FromSlash(path))); err != nil {
		w.failf("there is no file %s", path)
	}
	return `<a href="../` + html.EscapeString(path) + `">` + shown + `</a>`
}

// test leads to the file of a test, which must exist.
func (w *writer) test(reference string) string {
	folder, name, _ := strings.Cut(reference, " ")
	file, ok := w.sources.tests[folder][name]
	if !ok {
		w.failf("there is no test %s in %s", name, folder)
		return ""
	}
	return `<a class="test" href="../` + html.EscapeString(file) + `"><code>` + html.EscapeString(name) + `</code> <span>` +
		html.EscapeString(file) + `</span></a>`
}

func (w *writer) value(name string) string {
	value, ok := w.sources.values[name]
	if !ok {
		w.failf("there is no value %q", name)
	}
	w.used[name] = true
	if strings.HasPrefix(value, "`") { // a list of names
		return w.inline(value)
	}
	return escaped(value)
}

// link writes a link. Targets are parts of this page, files beside it, and, in a text that comes from such a file, parts of that.
func (w *writer) link(out *strings.Builder, text string) (rest string, done bool) {
	label, after, ok := strings.Cut(text[1:], "](")
	if !ok || strings.Contains(label, "]") {
		return text, false
	}
	target, after, ok := strings.Cut(after, ")")
	if !ok {
		return text, false
	}
	if strings.HasPrefix(target, "#") {
		target = w.outside + target
	}
	if file, _, _ := strings.Cut(target, "#"); file != "" && !strings.Contains(file, "://") {
		if _, err := os.Stat(filepath.Join(w.sources.root, "docs", filepath.FromSlash(file))); err != nil {
			w.failf("a link leads to %s, which does not exist", file)
		}
	}
	out.WriteString(`<a href="` + html.EscapeString(target) + `">` + w.inline(label) + `</a>`)
	return after, true
}
