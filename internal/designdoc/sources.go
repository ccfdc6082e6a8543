package designdoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources is all that the page is made from beside its prose.
type sources struct {
	root     string
	tests    map[string]map[string]string // by folder and name: the file of each test
	consts   constants
	tables   map[string]*table
	routines map[string]string // functions of the database, as their migrations make them
	intents  map[string]intent // by operation: what goes into its fingerprint
	rules    []alertGroup
	vectors  vectorFile
	runbook  []string          // lines
	values   map[string]string // by the names that the prose uses
}

func readSources(root string) (*sources, error) {
	s := &sources{root: root}
	var errs []error
	must := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	var err error
	s.tests, err = readTests(root)
	must("find the tests", err)
	s.consts, err = readConstants(root)
	must("read the constants", err)
	s.tables, s.routines, err = readSchema()
	must("read the migrations", err)
	s.intents, err = readIntents(root)
	must("read the fingerprints", err)
	s.rules, err = readAlerts(filepath.Join(root, filepath.FromSlash(alertsPath)))
	must("read the alert rules", err)
	must("read the test vectors", readJSON(filepath.Join(root, "saga", "testdata", "keys.json"), &s.vectors))
	runbook, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md")) //nolint:gosec // a file of this project
	must("read the runbook", err)
	s.runbook = strings.Split(string(runbook), "\n")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.values, err = s.readValues()
	return s, err
}

func readJSON(path string, value any) error {
	content, err := os.ReadFile(path) //nolint:gosec // a file of this project
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// section gives the lines of the runbook below a heading of the second level, up to the next one.
func (s *sources) section(title string) ([]string, bool) {
	for i, line := range s.runbook {
		if line != "## "+title {
			continue
		}
		rest := s.runbook[i+1:]
		for end, next := range rest {
			if strings.HasPrefix(next, "## ") {
				return rest[:end], true
			}
		}
		return rest, true
	}
	return nil, false
}
