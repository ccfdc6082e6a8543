package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

// testFile is promtool's format, as far as the tests here need it.
//
//nolint:tagliatelle // the names are promtool's
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testGroup    `yaml:"tests"`
}

//nolint:tagliatelle // as above
type testGroup struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []inputSeries  `yaml:"input_series"`
	Alerts      []alertTest    `yaml:"alert_rule_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

//nolint:tagliatelle // as above
type alertTest struct {
	EvalTime model.Duration  `yaml:"eval_time"`
	Alert    string          `yaml:"alertname"`
	Expected []expectedAlert `yaml:"exp_alerts"`
}

//nolint:tagliatelle // as above
type expectedAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func readTests(path string) (*testFile, error) {
	text, err := os.ReadFile(path) //nolint:gosec // G304: to read the file that it is given is what it is for
	if err != nil {
		return nil, fmt.Errorf("read the tests: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	file := &testFile{}
	if err := decoder.Decode(file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.EvaluationInterval <= 0 || len(file.Tests) == 0 || len(file.RuleFiles) == 0 {
		return nil, fmt.Errorf("%s: rule_files, evaluation_interval and tests are needed", path)
	}
	return file, nil
}

// shown is what the tests show of one rule.
type shown struct{ firing, resting bool }

// check runs all tests. Beyond promtool it asks that every rule is shown firing and not firing.
func (f *testFile) check(ctx context.Context, rules []rulefmt.Rule) error {
	seen := map[string]shown{}
	var failures []error
	for _, test := range f.Tests {
		failures = append(failures, test.check(ctx, rules, time.Duration(f.EvaluationInterval), seen))
	}
	for _, rule := range rules {
		if is := seen[rule.Alert]; !is.firing || !is.resting {
			failures = append(failures, fmt.Errorf("no test shows %s both firing and not firing", rule.Alert))
		}
	}
	return errors.Join(failures...)
}

func (g testGroup) check(ctx context.Context, rules []rulefmt.Rule, every time.Duration, seen map[string]shown) error {
	interval := every
	if g.Interval > 0 {
		interval = time.Duration(g.Interval)
	}
	data, err := newSeries(g.InputSeries, interval)
	if err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	var failures []error
	for _, test := range g.Alerts {
		at := slices.IndexFunc(rules, func(r rulefmt.Rule) bool { return r.Alert == test.Alert })
		if at < 0 {
			return fmt.Errorf("%s: there is no alert %q", g.Name, test.Alert)
		}
		got, err := data.alerts(ctx, rules[at], every, time.Duration(test.EvalTime))
		if err != nil {
			return fmt.Errorf("%s: %s: %w", g.Name, test.Alert, err)
		}
		if want := test.lines(); !slices.Equal(got, want) {
			failures = append(failures, fmt.Errorf("%s: %s at %s fires as\n  %s\nbut should as\n  %s",
				g.Name, test.Alert, test.EvalTime, strings.Join(got, "\n  "), strings.Join(want, "\n  ")))
		}
		is := seen[test.Alert]
		seen[test.Alert] = shown{firing: is.firing || len(got) > 0, resting: is.resting || len(got) == 0}
	}
	return errors.Join(failures...)
}

// lines gives each alert as one text, in order, for comparing and showing.
func (t alertTest) lines() []string {
	lines := make([]string, 0, len(t.Expected))
	for _, alert := range t.Expected {
		labels := map[string]string{"alertname": t.Alert}
		maps.Copy(labels, alert.Labels)
		lines = append(lines, line(labels, alert.Annotations))
	}
	slices.Sort(lines)
	return lines
}

// line relies on fmt printing maps in the order of their keys.
func line(labels, annotations map[string]string) string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	return fmt.Sprintf("%q %q", labels, annotations)
}
