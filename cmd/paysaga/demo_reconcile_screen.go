package main

import (
	"fmt"
	"path/filepath"
	"time"
	"unicode/utf8"
)

func (s *screen) reconcileOpening(o reconcileDemoOptions) {
	fmt.Fprintf(s.out, "%s\n", s.paint(bold, "paysaga: what the providers have, held against what the database has"))
	dir := filepath.Join(o.dir, "demo-reconcile")
	fmt.Fprintf(s.out, "%s\n", s.paint(faint, "Starting a PostgreSQL, the provider sandbox and a server in "+dir+"."))
}

func (s *screen) reconcileClosing(r reconcileReport, dir string) {
	s.plantedTable(r.Planted)
	s.checks("What the providers' ledgers and the database say", r.Table)
	took := float64(r.DurationMS) / float64(time.Second/time.Millisecond)
	if !r.OK {
		fmt.Fprintf(s.out, "\n%s\n", s.paint(red, fmt.Sprintf("Not all was as it should be. It took %.1f s.", took)))
		fmt.Fprintf(s.out, "What the runs printed, the server's log and the database are in %s until the next time.\n", dir)
		return
	}
	fmt.Fprintf(s.out, "\n%s\n", s.paint(green, fmt.Sprintf("All was found, and repaired or explained. It took %.1f s.", took)))
	fmt.Fprintf(s.out, "What the runs printed: %s. What each kind means: docs/reconciliation.md\n", filepath.Join(dir, "reconcile-*.txt"))
}

// plantedTable tells of each thing that was planted as what it was found, and what came of it.
func (s *screen) plantedTable(all []*planted) {
	if len(all) == 0 {
		return
	}
	widths := []int{0, 0, 0, 0}
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = []string{p.Where, p.Provider, p.What, p.foundAs(), p.cameTo()}
		for column := range widths {
			widths[column] = max(widths[column], utf8.RuneCountInString(rows[i][column]))
		}
	}
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, "What was planted, as what it was found, and what came of it"))
	before := ""
	for i, row := range rows {
		if row[0] != before {
			before = row[0]
			fmt.Fprintf(s.out, "  %s\n", s.paint(faint, before))
		}
		fmt.Fprintf(s.out, "%s %-*s  %-*s  %-*s  %s\n", s.mark(all[i].OK), widths[1], row[1], widths[2], row[2], widths[3], row[3], row[4])
		if !all[i].Mended && all[i].Detail != "" {
			fmt.Fprintf(s.out, "    %s\n", s.paint(faint, all[i].Detail))
		}
		for _, problem := range all[i].Problems {
			fmt.Fprintf(s.out, "    %s\n", s.paint(red, problem))
		}
	}
}

// foundAs is as what it was found.
func (p *planted) foundAs() string {
	if p.Kind == "" {
		return "not found"
	}
	return string(p.Kind) + ", " + string(p.Severity)
}
