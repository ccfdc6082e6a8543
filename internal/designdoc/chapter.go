package designdoc

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// chapter is one file of prose, in the part of Markdown that writer knows: headings, paragraphs, lists, tables with a caption
// ("Table: …" above them), fenced code, notes ("> …"), and directives ("::: name argument") for what comes from the sources.
type chapter struct {
	file  string
	lines []string
}

func readChapters(folder string) ([]chapter, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no chapters in %s: %w", folder, err)
	}
	slices.Sort(files)
	chapters := make([]chapter, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of this project
		if err != nil {
			return nil, fmt.Errorf("read a chapter: %w", err)
		}
		chapters = append(chapters, chapter{filepath.Base(file), strings.Split(strings.TrimRight(string(text), "\n"), "\n")})
	}
	return chapters, nil
}

// entry is a line of the contents.
type entry struct {
	ID, Title string
	Parts     []entry
}

// writer turns chapters into HTML.
type writer struct {
	sources  *sources
	html     strings.Builder
	contents []entry
	file     string          // of the chapter that is being written
	ids      map[string]bool // that are used
	used     map[string]bool // values
	section  string          // id of the section that is being written
	outside  string          // where a link inside the present text leads to when that text comes from another file
	title    string          // of the part that is being written: the caption of a table that has none
	errs     []error
}

func newWriter(s *sources) *writer {
	return &writer{sources: s, ids: map[string]bool{}, used: map[string]bool{}}
}

func (w *writer) failf(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf("%s: "+format, append([]any{w.file}, args...)...))
}

func (w *writer) put(parts ...string) {
	for _, part := range parts {
		w.html.WriteString(part)
	}
	w.html.WriteByte('\n')
}

func (w *writer) chapter(c chapter) {
	w.file = c.file
	w.put(`<section>`)
	w.blocks(c.lines, 1)
	w.put(`</section>`)
}

// id makes an id that is used once.
func (w *writer) id(text string) string {
	var slug strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			slug.WriteRune(c)
		case c == ' ', c == '-', c == '/', c == '_':
			slug.WriteByte('-')
		}
	}
	base := strings.Trim(strings.ReplaceAll(slug.String(), "--", "-"), "-")
	id := base
	for n := 2; w.ids[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	w.ids[id] = true
	return id
}

var markup = regexp.MustCompile(`<[^>]*>`)

// plain is prose without its marks.
func (w *writer) plain(text string) string {
	return html.UnescapeString(markup.ReplaceAllString(w.inline(text), ""))
}

// heading writes a heading; level is that of the page, where 1 is the page's own title.
func (w *writer) heading(level int, title string) {
	plain := w.plain(title)
	name := plain
	if level > 2 && w.section != "" {
		name = w.section + " " + plain
	}
	id := w.id(name)
	w.title = plain
	switch level {
	case 2:
		w.section = id
		w.contents = append(w.contents, entry{ID: id, Title: plain})
	case 3:
		if len(w.contents) == 0 {
			w.failf("%q comes before its chapter's title", title)
			return
		}
		last := &w.contents[len(w.contents)-1]
		last.Parts = append(last.Parts, entry{ID: id, Title: plain})
	default:
	}
	w.put(fmt.Sprintf(`<h%d id="%s"><a class="anchor" href="#%s">%s</a></h%d>`, level, id, id, w.inline(title), level))
}

// blocks writes lines. Their headings begin below the given level of the page.
func (w *writer) blocks(lines []string, above int) {
	for len(lines) > 0 {
		if strings.TrimSpace(lines[0]) == "" {
			lines = lines[1:]
			continue
		}
		write := w.paragraph
		for _, block := range w.kinds(above) {
			if strings.HasPrefix(lines[0], block.mark) {
				write = block.write
				break
			}
		}
		if bullet(lines[0]) != "" {
			write = w.list
		}
		lines = write(lines)
	}
}

// block is a kind of block: what its first line begins with, and what writes it and gives the lines behind it.
type block struct {
	mark  string
	write func(lines []string) []string
}

func (w *writer) kinds(above int) []block {
	return []block{
		{"#", func(lines []string) []string {
			title := strings.TrimLeft(lines[0], "#")
			w.heading(len(lines[0])-len(title)+above, strings.TrimSpace(title))
			return lines[1:]
		}},
		{"```", w.fence},
		{"::: ", func(lines []string) []string {
			name, argument, _ := strings.Cut(strings.TrimPrefix(lines[0], "::: "), " ")
			w.directive(name, argument)
			return lines[1:]
		}},
		{": ", w.card},
		{"Table: ", w.markdownTable},
		{"|", w.markdownTable},
	}
}

func (w *writer) fence(lines []string) []string {
	language := strings.TrimPrefix(lines[0], "```")
	end := slices.Index(lines[1:], "```")
	if end < 0 {
		w.failf("a piece of code has no end")
		return nil
	}
	w.code(language, strings.Join(lines[1:end+1], "\n"))
	return lines[end+2:]
}

// code writes a piece of code that scrolls in its own box.
func (w *writer) code(language, text string) {
	text = html.EscapeString(strings.TrimRight(text, "\n"))
	if mark, known := map[string]string{"sql": "--", "sh": "# ", "go": "//"}[language]; known {
		text = dimComments(text, mark)
	}
	w.put(`<pre tabindex="0"><code>`, text, `</code></pre>`)
}

func dimComments(text, mark string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if at := strings.Index(line, mark); at == 0 || at > 0 && line[at-1] == ' ' {
			lines[i] = line[:at] + `<span class="comment">` + line[at:] + `</span>`
		}
	}
	return strings.Join(lines, "\n")
}

// paragraph writes one, or a note when its lines begin with ">".
func (w *writer) paragraph(lines []string) []string {
	note := strings.HasPrefix(lines[0], "> ")
	var text []string
	for len(lines) > 0 && strings.TrimSpace(lines[0]) != "" && strings.HasPrefix(lines[0], "> ") == note && !w.begins(lines[0]) {
		text = append(text, strings.TrimPrefix(lines[0], "> "))
		lines = lines[1:]
	}
	body := w.inline(strings.Join(text, " "))
	if note {
		w.put(`<p class="note">`, body, `</p>`)
	} else {
		w.put(`<p>`, body, `</p>`)
	}
	return lines
}

// begins tells that a line begins another block than a paragraph.
func (w *writer) begins(line string) bool {
	return bullet(line) != "" || slices.ContainsFunc(w.kinds(0), func(b block) bool { return strings.HasPrefix(line, b.mark) })
}

// bullet is what begins an item of a list.
func bullet(line string) string {
	if strings.HasPrefix(line, "- ") {
		return "- "
	}
	number, rest, ok := strings.Cut(line, ". ")
	if ok && rest != "" && number != "" && strings.Trim(number, "0123456789") == "" {
		return number + ". "
	}
	return ""
}

func (w *writer) list(lines []string) []string {
	tag := "ol"
	if bullet(lines[0]) == "- " {
		tag = "ul"
	}
	w.put(`<`, tag, `>`)
	for len(lines) > 0 && bullet(lines[0]) != "" && (bullet(lines[0]) == "- ") == (tag == "ul") {
		item := strings.TrimPrefix(lines[0], bullet(lines[0]))
		var more []string
		more, lines = indented(lines[1:])
		w.put(`<li>`, w.inline(strings.Join(append([]string{item}, more...), " ")), `</li>`)
	}
	w.put(`</`, tag, `>`)
	return lines
}

// indented takes the lines off that go on with an item.
func indented(lines []string) (more, rest []string) {
	for len(lines) > 0 && strings.HasPrefix(lines[0], "  ") {
		more = append(more, strings.TrimSpace(lines[0]))
		lines = lines[1:]
	}
	return more, lines
}

// card writes terms with what they mean, ": Term | text", lines below that are indented included.
func (w *writer) card(lines []string) []string {
	w.put(`<dl class="card">`)
	for len(lines) > 0 && strings.HasPrefix(lines[0], ": ") {
		term, text, ok := strings.Cut(strings.TrimPrefix(lines[0], ": "), " | ")
		if !ok {
			w.failf("a term has no text: %q", term)
		}
		var more []string
		more, lines = indented(lines[1:])
		w.put(`<dt>`, w.inline(term), `</dt><dd>`, w.inline(strings.Join(append([]string{text}, more...), " ")), `</dd>`)
	}
	w.put(`</dl>`)
	return lines
}

func (w *writer) markdownTable(lines []string) []string {
	caption := w.title
	if text, ok := strings.CutPrefix(lines[0], "Table: "); ok {
		caption, lines = text, lines[1:]
		for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
			lines = lines[1:]
		}
	}
	var rows [][]string
	for len(lines) > 0 && strings.HasPrefix(lines[0], "|") {
		rows = append(rows, cells(lines[0]))
		lines = lines[1:]
	}
	if len(rows) < 2 || !strings.HasPrefix(rows[1][0], "---") {
		w.failf("a table has no heading, or its rule is missing: %q", caption)
		return lines
	}
	w.table(caption, rows[0], rows[2:])
	return lines
}

// cells parts a row at the bars outside of code.
func cells(line string) []string {
	var row []string
	var cell strings.Builder
	inCode := false
	for _, c := range strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|") {
		if c == '`' {
			inCode = !inCode
		}
		if c == '|' && !inCode {
			row = append(row, strings.TrimSpace(cell.String()))
			cell.Reset()
			continue
		}
		cell.WriteRune(c)
	}
	return append(row, strings.TrimSpace(cell.String()))
}

// table writes a table that scrolls in its own box where it is too wide. Its cells are written as prose is. The first column names
// the row. On a phone the cells of a row stand below each other, each under its column's title, which is why they carry it.
func (w *writer) table(caption string, head []string, rows [][]string) {
	id := w.id("table " + caption)
	w.put(fmt.Sprintf(`<div class="scroll columns-%d" role="region" aria-labelledby="%s" tabindex="0">`, len(head), id))
	w.put(`<table>`, `<caption id="`, id, `">`, w.inline(caption), `</caption>`)
	w.put(`<thead><tr>`)
	for _, title := range head {
		if title == "" {
			w.put(`<td></td>`)
			continue
		}
		w.put(`<th scope="col">`, w.inline(title), `</th>`)
	}
	w.put(`</tr></thead><tbody>`)
	for _, row := range rows {
		if len(row) != len(head) {
			w.failf("a row of %q has %d cells, not %d: %q", caption, len(row), len(head), row)
			return
		}
		w.put(`<tr>`)
		for i, cell := range row {
			if i == 0 && cell != "" {
				w.put(`<th scope="row">`, w.inline(cell), `</th>`)
			} else {
				w.put(`<td data-column="`, html.EscapeString(w.plain(head[i])), `">`, w.inline(cell), `</td>`)
			}
		}
		w.put(`</tr>`)
	}
	w.put(`</tbody></table></div>`)
}
