package designdoc

import (
	"strings"

	"paysaga/internal/telemetry"
)

// metrics writes the metrics whose names begin so, as package telemetry offers them.
func (w *writer) metrics(prefix string) {
	var rows [][]string
	for _, m := range telemetry.Metrics() {
		if !strings.HasPrefix(m.Name, prefix) {
			continue
		}
		kind, labels := string(m.Kind), "none"
		if unit := strings.Trim(m.Unit, "{}"); unit != "" {
			kind += ", " + unit
		}
		if len(m.Labels) > 0 {
			labels = names(m.PrometheusLabels())
		}
		rows = append(rows, []string{"`" + m.Name + "` `" + m.PrometheusName() + "`", kind, labels, m.Description})
	}
	if len(rows) == 0 {
		w.failf("no metric's name begins with %q", prefix)
		return
	}
	w.table("Metrics of keys", []string{"Metric, and its name in Prometheus", "Kind, unit", "Labels", "What it tells"}, rows)
}
