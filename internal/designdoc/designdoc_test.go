package designdoc

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

const root = "../.."

// kept reads the page as it is kept.
func kept(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pagePath)))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// The page that is kept is what the sources give.
func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	page := kept(t)
	date, ok := dateOf(page)
	if !ok {
		t.Fatal("the page has no date")
	}
	want, err := Page(root, date)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(page), "\n")); diff != "" {
		t.Errorf("%s is not what its sources say: run go generate ./... (-sources +page)\n%s", pagePath, diff)
	}
}

// What has not changed keeps its date, so that generating leaves nothing to commit.
func TestDateIsKept(t *testing.T) {
	t.Parallel()
	first, second := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2031, 3, 4, 0, 0, 0, 0, time.UTC)
	text := "one"
	render := func(date time.Time) ([]byte, error) {
		return []byte(`<time datetime="` + date.Format(time.DateOnly) + `">` + text), nil
	}
	var page []byte
	for _, step := range []struct {
		text string
		now  time.Time
		want string
	}{
		{"one", first, `<time datetime="2030-01-02">one`},
		{"one", second, `<time datetime="2030-01-02">one`},
		{"two", second, `<time datetime="2031-03-04">two`},
	} {
		text = step.text
		var err error
		if page, err = renew(page, step.now, render); err != nil {
			t.Fatal(err)
		}
		if string(page) != step.want {
			t.Errorf("%s, want %s", page, step.want)
		}
	}
}

// The page's elements are those that were written: nothing was closed, opened or moved by a browser that mends it.
func TestPageIsValid(t *testing.T) {
	t.Parallel()
	page := kept(t)
	document, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var tree []string
	for node := range document.Descendants() {
		if node.Type == html.ElementNode {
			tree = append(tree, node.Data)
		}
	}
	if diff := cmp.Diff(written(t, page), tree); diff != "" {
		t.Errorf("a browser sees other elements (-written +seen):\n%s", diff)
	}
	if n := strings.Count(string(page), "<h1>"); n != 1 {
		t.Errorf("%d headings of the first level", n)
	}
	level := 1
	for _, element := range tree {
		if len(element) == 2 && element[0] == 'h' && element[1] >= '1' && element[1] <= '6' {
			next := int(element[1] - '0')
			if next > level+1 {
				t.Errorf("a heading of level %d follows one of level %d", next, level)
			}
			level = next
		}
	}
}

// written lists the elements in the page's text, and makes sure that each is closed where it was opened.
func written(t *testing.T, page []byte) []string {
	t.Helper()
	void := map[string]bool{"meta": true}
	var all, open []string
	tokens := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("not closed: %q", open)
			}
			return all
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := tokens.TagName()
			all = append(all, string(name))
			if kind == html.StartTagToken && !void[string(name)] {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := tokens.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				t.Fatalf("%s closes %q", name, open)
			}
			open = open[:len(open)-1]
		default:
		}
	}
}

// attributes walks over all attributes of the page's elements.
func attributes(t *testing.T, visit func(element *html.Node, name, value string)) {
	t.Helper()
	document, err := html.Parse(bytes.NewReader(kept(t)))
	if err != nil {
		t.Fatal(err)
	}
	for node := range document.Descendants() {
		for _, attribute := range node.Attr {
			visit(node, attribute.Key, attribute.Val)
		}
	}
}

func TestIDsAndLinks(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	attributes(t, func(_ *html.Node, name, value string) {
		if name != "id" {
			return
		}
		if ids[value] || value == "" {
			t.Errorf("id %q is not the only one", value)
		}
		ids[value] = true
	})
	for _, reference := range regexp.MustCompile(`url\(#([^)]*)\)`).FindAllStringSubmatch(string(kept(t)), -1) {
		if !ids[reference[1]] {
			t.Errorf("a drawing refers to %s, which is not there", reference[1])
		}
	}
	links := 0
	attributes(t, func(element *html.Node, name, value string) {
		switch name {
		case "aria-labelledby":
			for id := range strings.FieldsSeq(value) {
				if !ids[id] {
					t.Errorf("%s is labelled by %s, which is not there", element.Data, id)
				}
			}
		case "href":
			links++
			checkLink(t, ids, value)
		default:
		}
	})
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// checkLink follows a link to a part of the page, to a file of the project, or to a heading in one.
func checkLink(t *testing.T, ids map[string]bool, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	switch {
	case strings.Contains(target, "//"):
		t.Errorf("a link leads outside: %s", target)
	case file == "" && !ids[anchor]:
		t.Errorf("a link leads to #%s, which is not there", anchor)
	case file == "":
	case anchor == "":
		if _, err := os.Stat(filepath.Join(root, "docs", file)); err != nil {
			t.Errorf("a link leads to %s, which is not there", file)
		}
	default:
		if !hasHeading(t, file, anchor) {
			t.Errorf("a link leads to %s, which has no heading %s", file, anchor)
		}
	}
}

// hasHeading tells whether a page of Markdown has a heading to which an anchor leads.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", file))
	if err != nil {
		t.Error(err)
		return false
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		slug := strings.ReplaceAll(strings.ToLower(regexp.MustCompile("[^A-Za-z0-9 _-]").ReplaceAllString(heading[1], "")), " ", "-")
		if slug == anchor {
			return true
		}
	}
	return false
}

// The page is one file: it loads nothing and runs nothing.
func TestPageLoadsNothing(t *testing.T) {
	t.Parallel()
	page := string(kept(t))
	loads := regexp.MustCompile(`(?i)<(link|script|img|iframe|object|embed|base)\b|\ssrc\s*=|@import|@font-face|url\([^#]|https?://[^<"\s]*\.(css|js)\b`)
	if found := loads.FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	for _, must := range []string{`<html lang="en">`, `width=device-width`, `prefers-color-scheme: dark`, `@media print`, `<caption`, `scope="row"`} {
		if !strings.Contains(page, must) {
			t.Errorf("the page has no %s", must)
		}
	}
	if left := regexp.MustCompile(`ZgotmplZ|\{\{|\[\[|: : `).FindString(page); left != "" {
		t.Errorf("the page has %q, which was to become something else", left)
	}
	attributes(t, func(element *html.Node, name, value string) {
		if strings.HasPrefix(name, "on") || strings.HasPrefix(value, "javascript:") {
			t.Errorf("%s has %s=%q", element.Data, name, value)
		}
	})
}

func TestTablesHaveCaptions(t *testing.T) {
	t.Parallel()
	page := string(kept(t))
	tables := strings.Split(page, "<table>")[1:]
	if len(tables) < 15 {
		t.Errorf("only %d tables", len(tables))
	}
	for _, table := range tables {
		if !strings.HasPrefix(table, `<caption id="`) || !strings.Contains(table, `<th scope="col">`) {
			t.Errorf("a table has no caption, or no heading: %.60s", table)
		}
	}
}

// Texts can be read by people who see less contrast: WCAG 2.2 AA asks for 4.5 to 1.
func TestContrast(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(style, -1)
	if len(blocks) < 2 {
		t.Fatal("the style has no two sets of colours")
	}
	for i, scheme := range []string{"light", "dark"} {
		colours := map[string]string{}
		for _, one := range regexp.MustCompile(`--([\w-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(blocks[i][1], -1) {
			colours[one[1]] = one[2]
		}
		for _, pair := range [][2]string{
			{"ink", "paper"},
			{"ink", "panel"},
			{"ink", "code"},
			{"ink", "note"},
			{"soft", "paper"},
			{"soft", "panel"},
			{"link", "paper"},
			{"link", "code"},
			{"link", "panel"},
			{"link", "note"},
			{"comment", "panel"},
			{"paper", "bad"},
		} {
			if ratio := contrast(luminance(t, colours[pair[0]]), luminance(t, colours[pair[1]])); ratio < 4.5 {
				t.Errorf("%s: %s on %s has %.2f to 1", scheme, pair[0], pair[1], ratio)
			}
		}
	}
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// luminance is WCAG's relative luminance of "#rrggbb".
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("%q is no colour", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		channel, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		part := float64(channel) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

// Prose that names what is not there makes no page.
func TestProseMustBeTrue(t *testing.T) {
	t.Parallel()
	all, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"a test":         "[[saga TestThatNobodyWrote]]",
		"a file":         "`internal/nowhere.go`",
		"a page":         "[there](nowhere.md)",
		"a value":        "{{nowhere}}",
		"a directive":    "::: nowhere",
		"a table":        "::: table nowhere",
		"a function":     "::: function nowhere",
		"a problem":      "::: problems nowhere",
		"a setting":      "::: settings NOWHERE",
		"a metric":       "::: metrics nowhere.",
		"an alert":       "::: alerts nowhere_",
		"a figure":       "::: figure nowhere It shows nothing.",
		"code":           "::: code internal/idempotency/record.go Nowhere",
		"a part":         "::: runbook Nowhere",
		"a short row":    "Table: T\n| a | b |\n|---|---|\n| c |",
		"a table's rule": "Table: T\n| a | b |\n| c | d |",
		"code's end":     "```\nx",
		"a term":         ": Term without text",
	} {
		w := newWriter(all)
		w.chapter(chapter{"x.md", append([]string{"# Title"}, strings.Split(line, "\n")...)})
		if len(w.errs) == 0 {
			t.Errorf("%s that is not there: no error", name)
		}
	}
	w := newWriter(all)
	w.chapter(chapter{"x.md", []string{"# Title", "A [[saga TestDeathAtAnyPoint]], `saga/keys.go`, {{lease}}."}})
	if len(w.errs) > 0 {
		t.Errorf("what is there: %v", w.errs)
	}
	if w.mustTellFieldsOf([]string{"POST /v1/orders"}); len(w.errs) != 1 {
		t.Errorf("an endpoint without its action: %v", w.errs)
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for prose, want := range map[string]string{
		"a < b & `c < d`":               "<p>a &lt; b &amp; <code>c &lt; d</code></p>",
		"**a *b* c**":                   "<p><strong>a <em>b</em> c</strong></p>",
		"2^61 * 3":                      "<p>2<sup>61</sup> * 3</p>",
		"- a\n  b\n- c":                 "<ul>\n<li>a b</li>\n<li>c</li>\n</ul>",
		"1. a\n2. b":                    "<ol>\n<li>a</li>\n<li>b</li>\n</ol>",
		"> a\n> b":                      `<p class="note">a b</p>`,
		"```sql\nSELECT 1 -- < 2\n```":  `<pre tabindex="0"><code>SELECT 1 <span class="comment">-- &lt; 2</span></code></pre>`,
		": A | b\n  c":                  "<dl class=\"card\">\n<dt>A</dt><dd>b c</dd>\n</dl>",
		"an unended ` and [ and ** one": "<p>an unended ` and [ and ** one</p>",
	} {
		w := newWriter(&sources{root: root})
		w.blocks(strings.Split(prose, "\n"), 1)
		if got := strings.TrimSpace(w.html.String()); got != want || len(w.errs) > 0 {
			t.Errorf("%q\nbecomes %s %v\nwant    %s", prose, got, w.errs, want)
		}
	}
}

func TestChance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, bits float64
		want    string
	}{
		{2, 10, "1 in 10^3"}, // 1024
		{3e6, 122, "1 in 10^24"},
		{1e9, 122, "1 in 10^19"},
		{3e6, 64, "1 in 4 × 10^6"},
		{1e9, 64, "2.7 %"},
		{1e9, 30, "certain"},
	} {
		if got := chance(c.n, c.bits); got != c.want {
			t.Errorf("%g keys of %g bits: %s, want %s", c.n, c.bits, got, c.want)
		}
	}
	if got := fmt.Sprint(grouped(7), " ", grouped(1_234), " ", grouped(1_234_567)); got != "7 1,234 1,234,567" {
		t.Error(got)
	}
}
