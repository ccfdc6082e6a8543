package telemetry_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/telemetry"
)

const (
	metricsPage = "../../docs/metrics.md"
	tableBegin  = "<!-- metrics:begin -->\n"
	tableEnd    = "<!-- metrics:end -->"
	rulesFile   = "../../deploy/prometheus/paysaga.rules.yml"
)

func TestMetricsPageHasTheTable(t *testing.T) {
	t.Parallel()
	_, after, begun := strings.Cut(read(t, metricsPage), tableBegin)
	got, _, ended := strings.Cut(after, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no table between %q and %q", metricsPage, tableBegin, tableEnd)
	}
	if diff := cmp.Diff(telemetry.Table(), got); diff != "" {
		t.Errorf("the table in %s is not the one of the code (-code +page):\n%s\nIt should be:\n%s", metricsPage, diff, telemetry.Table())
	}
}

// What an expression has beside metrics: PromQL's own words, and the one metric that Prometheus makes.
var notOurs = []string{
	"absent", "and", "by", "group_left", "histogram_quantile", "increase", "max", "min", "on", "or", "rate", "sum", "time", "up",
}

var (
	expression  = regexp.MustCompile(`(?ms)^\s+(?:- )?expr: (.*?)^\s+(?:for|labels):`)
	selector    = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	matcher     = regexp.MustCompile(`([a-z_]+)[!=]`)
	noMetrics   = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|on) \([^)]*\)`)
	word        = regexp.MustCompile(`\b[a-z][a-z_]+\b`)
	runbookLink = regexp.MustCompile(`(?m)^\s+runbook: docs/runbook\.md#(\S+)$`)
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

func TestRulesAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	labels, rules := prometheusLabels(), read(t, rulesFile)
	found := expression.FindAllStringSubmatch(rules, -1)
	if want := strings.Count(rules, "- alert: "); len(found) != want {
		t.Fatalf("found %d expressions of %d alerts", len(found), want)
	}
	for _, each := range found {
		for _, name := range word.FindAllString(noMetrics.ReplaceAllString(each[1], ""), -1) {
			if _, known := labels[name]; !known && !slices.Contains(notOurs, name) {
				t.Errorf("there is no metric %q, which this asks for:\n%s", name, each[1])
			}
		}
		for _, selected := range selector.FindAllStringSubmatch(each[1], -1) {
			for _, label := range matcher.FindAllStringSubmatch(selected[2], -1) {
				if !slices.Contains(labels[selected[1]], label[1]) {
					t.Errorf("%s has no label %q", selected[1], label[1])
				}
			}
		}
	}
}

// prometheusLabels are all metrics as a rule may name them, and their labels.
func prometheusLabels() map[string][]string {
	labels := map[string][]string{"up": {"job"}}
	for _, m := range telemetry.Metrics() {
		if m.Kind != telemetry.Histogram {
			labels[m.PrometheusName()] = m.PrometheusLabels()
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			labels[m.PrometheusName()+suffix] = m.PrometheusLabels()
		}
	}
	return labels
}

// TestRulesPointIntoTheRunbook: each alert has a page to read at three in the morning.
func TestRulesPointIntoTheRunbook(t *testing.T) {
	t.Parallel()
	titles := heading.FindAllStringSubmatch(read(t, "../../docs/runbook.md"), -1)
	anchors := make([]string, 0, len(titles))
	for _, title := range titles {
		anchors = append(anchors, strings.ReplaceAll(strings.ToLower(strings.NewReplacer(",", "", "`", "").Replace(title[1])), " ", "-"))
	}
	rules := read(t, rulesFile)
	links := runbookLink.FindAllStringSubmatch(rules, -1)
	if want := strings.Count(rules, "- alert: "); len(links) != want {
		t.Errorf("%d of %d alerts name a part of the runbook", len(links), want)
	}
	for _, link := range links {
		if !slices.Contains(anchors, link[1]) {
			t.Errorf("docs/runbook.md has no part %q", link[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
