package designdoc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const alertsPath = "deploy/prometheus/paysaga.rules.yml"

// alertGroup is a group of Prometheus's rules; those that record a series have no alert.
type alertGroup struct {
	Name  string      `yaml:"name"`
	Rules []alertRule `yaml:"rules"`
}

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(path string) ([]alertGroup, error) {
	content, err := os.ReadFile(path) //nolint:gosec // a file of this project
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the chapter that shows them then fails
	}
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	var rules struct {
		Groups []alertGroup `yaml:"groups"`
	}
	if err := yaml.Unmarshal(content, &rules); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return rules.Groups, nil
}

// alerts writes the alert rules that look at keys: whose expression names one of their metrics.
func (w *writer) alerts(prefix string) {
	var rows [][]string
	for _, group := range w.sources.rules {
		for _, rule := range group.Rules {
			if rule.Alert == "" || !strings.Contains(rule.Expr, prefix) {
				continue
			}
			after := rule.For
			if after == "" {
				after = "at once"
			}
			rows = append(rows, []string{
				"`" + rule.Alert + "`", rule.Labels["severity"], after, plain(rule.Annotations["summary"]),
				"`" + strings.Join(strings.Fields(rule.Expr), " ") + "`",
			})
		}
	}
	if len(rows) == 0 {
		w.failf("%s has no alert about %s", alertsPath, prefix)
		return
	}
	w.table("Alert rules", []string{"Alert", "Severity", "For", "It says", "When"}, rows)
}

var (
	valueInSummary = regexp.MustCompile(`\{\{\s*\$value[^}]*\}\}`)
	labelInSummary = regexp.MustCompile(`\{\{\s*\$labels\.(\w+)[^}]*\}\}`)
)

// plain puts words in the places of what Prometheus fills in.
func plain(summary string) string {
	return labelInSummary.ReplaceAllString(valueInSummary.ReplaceAllString(summary, "*n*"), "*$1*")
}
