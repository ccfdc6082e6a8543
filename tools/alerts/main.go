// Command alerts checks alert rules and runs their unit tests, offline. It reads the files that promtool reads (`promtool check rules`,
// `promtool test rules`) and judges with Prometheus's own parsers and query engine. It stands here as promtool itself takes eight minutes
// to compile, for the clients of every cloud that it links.
//
//	go -C tools/alerts run . ../../deploy/prometheus/paysaga.rules.test.yml
//
// What it does not know of promtool's files, such as recording rules and keep_firing_for, it refuses: nothing passes unread.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var errUsage = errors.New("usage: alerts FILE.test.yml…")

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return errUsage
	}
	for _, path := range paths {
		file, err := readTests(path)
		if err != nil {
			return err
		}
		rules, err := readRules(filepath.Dir(path), file.RuleFiles)
		if err != nil {
			return err
		}
		if err := file.check(ctx, rules); err != nil {
			return fmt.Errorf("%s:\n%w", path, err)
		}
		fmt.Fprintf(os.Stdout, "alerts: %d rules in %d tests fire when they should, and only then\n", len(rules), len(file.Tests))
	}
	return nil
}

// readRules reads the rules as Prometheus does: names, expressions, durations and templates are checked.
func readRules(folder string, paths []string) ([]rulefmt.Rule, error) {
	var rules []rulefmt.Rule
	known := map[string]bool{}
	for _, path := range paths {
		groups, errs := rulefmt.ParseFile(
			filepath.Join(folder, path), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				if rule.Alert == "" || rule.KeepFiringFor != 0 || known[rule.Alert] {
					return nil, fmt.Errorf("%s: rule %q is no alert, has keep_firing_for, or comes twice", path, rule.Alert+rule.Record)
				}
				known[rule.Alert] = true
				rules = append(rules, rule)
			}
		}
	}
	return rules, nil
}
