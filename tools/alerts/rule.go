package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// alerts evaluates the rule from the start until the given time, as Prometheus does, and tells how it then fires.
func (s *series) alerts(ctx context.Context, rule rulefmt.Rule, every, until time.Duration) ([]string, error) {
	activeSince := map[uint64]time.Time{}
	var firing promql.Vector
	for at := start; !at.After(start.Add(until)); at = at.Add(every) {
		found, err := s.query(ctx, rule.Expr, at)
		if err != nil {
			return nil, err
		}
		active := map[uint64]time.Time{}
		firing = nil
		for _, element := range found {
			id := element.Metric.Hash()
			since, known := activeSince[id]
			if !known {
				since = at
			}
			active[id] = since
			if at.Sub(since) >= time.Duration(rule.For) {
				firing = append(firing, element)
			}
		}
		activeSince = active
	}
	lines := make([]string, 0, len(firing))
	for _, element := range firing {
		text, err := s.describe(ctx, rule, element, start.Add(until))
		if err != nil {
			return nil, err
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	return lines, nil
}

func (s *series) query(ctx context.Context, expression string, at time.Time) (promql.Vector, error) {
	query, err := s.engine.NewInstantQuery(ctx, s.queryable(), nil, expression, at)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("query: %w", result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		return nil, fmt.Errorf("an alert needs a vector: %w", err)
	}
	copied := slices.Clone(vector) // the engine takes its own back
	for i := range copied {
		copied[i].Metric = copied[i].Metric.DropReserved(func(name string) bool { return name == model.MetricNameLabel })
	}
	return copied, nil
}

// describe gives an alert's labels and annotations, templates expanded.
func (s *series) describe(ctx context.Context, rule rulefmt.Rule, element promql.Sample, at time.Time) (string, error) {
	expand := func(texts map[string]string) (map[string]string, error) {
		expanded := map[string]string{}
		for name, text := range texts {
			const declarations = "{{$labels := .Labels}}{{$value := .Value}}"
			data := template.AlertTemplateData(element.Metric.Map(), nil, "", element)
			result, err := template.NewTemplateExpander(ctx, declarations+text, "__alert_"+rule.Alert, data, model.Time(timestamp.FromTime(at)),
				template.QueryFunc(func(ctx context.Context, q string, t time.Time) (promql.Vector, error) { return s.query(ctx, q, t) }),
				nil, nil).Expand()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			expanded[name] = result
		}
		return expanded, nil
	}
	own, err := expand(rule.Labels)
	if err != nil {
		return "", err
	}
	texts, err := expand(rule.Annotations)
	if err != nil {
		return "", err
	}
	all := element.Metric.Map()
	maps.Copy(all, own)
	all[model.AlertNameLabel] = rule.Alert
	return line(all, texts), nil
}
