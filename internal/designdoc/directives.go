package designdoc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"paysaga/internal/config"
	"paysaga/internal/httpapi"
	"paysaga/internal/httpapi/pages"
)

// directive writes what comes from the sources.
func (w *writer) directive(name, argument string) {
	directives := map[string]func(string){
		"alerts": w.alerts, "code": w.goCode, "collisions": w.collisions, "figure": w.figure, "function": w.function, "intents": w.intents,
		"limits": w.limits, "metrics": w.metrics, "problems": w.problems, "runbook": w.fromRunbook, "scenarios": w.scenarios,
		"settings": w.settings, "table": w.ddl, "vectors": w.vectors, "windows": w.windows,
	}
	write, ok := directives[name]
	if !ok {
		w.failf("there is no directive %q", name)
		return
	}
	write(argument)
}

func (w *writer) ddl(name string) {
	t, ok := w.sources.tables[name]
	if !ok {
		w.failf("there is no table %q", name)
		return
	}
	w.code("sql", t.DDL())
}

func (w *writer) function(name string) {
	text, ok := w.sources.routines[name]
	if !ok {
		w.failf("the migrations make no function %q", name)
		return
	}
	w.code("sql", text)
}

// problems writes the problem types that are named.
func (w *writer) problems(slugs string) {
	wanted := strings.Fields(slugs)
	var rows [][]string
	for _, p := range httpapi.Problems() {
		if named := slices.Contains(wanted, p.Slug); named {
			wanted = slices.DeleteFunc(wanted, func(slug string) bool { return slug == p.Slug })
			rows = append(rows, []string{"`" + p.Slug + "`", strconv.Itoa(p.Status), p.Meaning, keyAfter(p), p.Mend})
		}
	}
	for _, slug := range wanted {
		w.failf("the API has no problem %q", slug)
	}
	w.table("Problems about keys, as the API gives them",
		[]string{"Type", "Status", "When", "The key afterwards", "What the client does"}, rows)
	var others [][]string
	for _, p := range httpapi.Problems() {
		if !slices.Contains(strings.Fields(slugs), p.Slug) {
			others = append(others, []string{"`" + p.Slug + "`", strconv.Itoa(p.Status), p.Title, keyAfter(p)})
		}
	}
	w.table("All other problems", []string{"Type", "Status", "Title", "The key afterwards"}, others)
}

// keyAfter says what a problem does to the key of its request. It follows pages.ProblemType.Repeat.
func keyAfter(p pages.ProblemType) string {
	switch {
	case p.Slug == "idempotency-key-reuse":
		return "Stays with its first request."
	case p.Slug == "refund-instead":
		return "Unused; keeps this answer where it was found out while the cancel was carried out."
	case p.Slug == "idempotency-key-expired":
		return "Used up for good."
	case p.Final:
		return "Keeps this answer."
	case p.Slug == "request-in-progress", p.Status >= 500:
		return "The same request is sent under it again."
	default:
		return "Unused."
	}
}

// settings writes the settings that are named.
func (w *writer) settings(names string) {
	wanted := strings.Fields(names)
	var rows [][]string
	for _, s := range config.Settings() {
		if !slices.Contains(wanted, s.Name) {
			continue
		}
		wanted = slices.DeleteFunc(wanted, func(name string) bool { return name == s.Name })
		byDefault := "none"
		if s.Default != "" {
			byDefault = "`" + s.Default + "`"
		}
		rows = append(rows, []string{"`" + s.Name + "`", byDefault, s.Description})
	}
	for _, name := range wanted {
		w.failf("there is no setting %q", name)
	}
	w.table("Settings that concern keys", []string{"Variable", "Default", "What it sets"}, rows)
}

// windows writes what is counted on at each provider.
func (w *writer) windows(string) {
	// What the providers promise is not ours: it is written here, from their documents, as docs/providers-*.md tells it.
	promises := []struct{ name, folder, identifier, memory, search string }{
		{"Stripe", "providers/stripe", "`Idempotency-Key` = sub-key", "24 h at least", "by `metadata['saga_key']`, up to 1 h behind"},
		{
			"Adyen", "providers/adyen", "`Idempotency-Key` and `reference` = sub-key", "7 days at least, within one region",
			"none: its webhooks tell",
		},
		{
			"PayPal", "providers/paypal", "`PayPal-Request-Id` = UUIDv5 of the sub-key; `invoice_id` = sub-key",
			"6 h for orders, by agreement up to 72 h; 45 days for captures, voids and refunds", "transactions, up to 3 h behind",
		},
	}
	rows := make([][]string, 0, len(promises))
	for _, p := range promises {
		repost, hold := w.duration(p.folder, "repostWindow"), w.duration(p.folder, "holdTime")
		believed := "never"
		if _, ok := w.sources.consts[p.folder]["lookupDelay"]; ok {
			believed = w.duration(p.folder, "lookupDelay") + " after the last send"
		}
		rows = append(rows, []string{p.name, p.identifier, p.memory, repost, p.search, believed, hold})
	}
	w.table("Windows of the providers", []string{
		"Provider", "How it recognizes a repeat", "It remembers", "paysaga repeats for", "Look-up without the payment's id",
		"“Not found” is believed", "A hold lasts",
	}, rows)
}

func (w *writer) number(folder, name string) int64 {
	number, err := w.sources.consts.get(folder, name)
	if err != nil {
		w.errs = append(w.errs, err)
	}
	return number
}

func (w *writer) duration(folder, name string) string {
	return brief(time.Duration(w.number(folder, name)))
}

// brief writes a duration in the largest unit that fits.
func brief(d time.Duration) string {
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"days", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if d >= unit.is && d%unit.is == 0 && (unit.name != "days" || d >= 2*unit.is) {
			return fmt.Sprintf("%d %s", d/unit.is, unit.name)
		}
	}
	return d.String()
}

// fromRunbook writes a section of the runbook as a part of this page.
func (w *writer) fromRunbook(title string) {
	lines, ok := w.sources.section(title)
	if !ok {
		w.failf("the runbook has no section %q", title)
		return
	}
	w.heading(3, title)
	w.outside = "runbook.md"
	w.blocks(lines, 2)
	w.outside = ""
}

// scenarios writes what the command that plays the contract shows.
func (w *writer) scenarios(string) {
	scenarios, err := readScenarios(w.sources.root)
	if err != nil {
		w.errs = append(w.errs, err)
		return
	}
	rows := make([][]string, 0, len(scenarios))
	for _, s := range scenarios {
		rows = append(rows, []string{"`" + s[0] + "`", s[1]})
	}
	w.table("What `make contract` plays over HTTP against a running server", []string{"Scenario", "What the client sees"}, rows)
}
