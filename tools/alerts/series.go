package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Bounds of one query; the tests have a dozen series of some hundred samples.
const (
	maxSamples   = 1_000_000
	queryTimeout = 30 * time.Second
)

// start is where the series of a test begin, as in promtool.
var start = time.Unix(0, 0).UTC()

// series are a test's time series, with an engine that queries them.
type series struct {
	entries []storage.Series
	engine  *promql.Engine
}

func newSeries(inputs []inputSeries, interval time.Duration) (*series, error) {
	promParser := parser.NewParser(parser.Options{})
	made := &series{engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: maxSamples, Timeout: queryTimeout, EnableAtModifier: true, EnableNegativeOffset: true, Parser: promParser,
		NoStepSubqueryIntervalFn: func(int64) int64 { return interval.Milliseconds() },
	})}
	for _, input := range inputs {
		name, values, err := promParser.ParseSeriesDesc(input.Series + " " + input.Values)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", input.Series, err)
		}
		var samples []chunks.Sample
		for i, value := range values {
			if value.Histogram != nil {
				return nil, fmt.Errorf("series %s: native histograms are not supported", input.Series)
			}
			if !value.Omitted {
				samples = append(samples, sample{at: timestamp.FromTime(start.Add(time.Duration(i) * interval)), value: value.Value})
			}
		}
		made.entries = append(made.entries, storage.NewListSeries(name, samples))
	}
	return made, nil
}

// find gives the series that match; the engine cuts them to the times that it looks at.
func (s *series) find(matchers []*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{at: -1}
	for _, entry := range s.entries {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(entry.Labels().Get(m.Name)) }) {
			found.entries = append(found.entries, entry)
		}
	}
	slices.SortFunc(found.entries, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

func (s *series) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return s.find(matchers)
		},
	}}
}

type seriesSet struct {
	entries []storage.Series
	at      int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.entries) }
func (s *seriesSet) At() storage.Series                { return s.entries[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is one number at one time, as the engine reads it.
type sample struct {
	at    int64 // milliseconds
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
