package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// contractReport is what --json prints.
type contractReport struct {
	OK         bool       `json:"ok"`
	Server     string     `json:"server"`
	OwnSystem  bool       `json:"own_system"`
	Scenarios  []sighting `json:"scenarios"`
	Requests   int64      `json:"requests"`
	DurationMS int64      `json:"duration_ms"`
}

func (r contractReport) count(wanted result) int {
	count := 0
	for _, s := range r.Scenarios {
		if s.Result == wanted {
			count++
		}
	}
	return count
}

// verdict is an error that names what broke.
func (r contractReport) verdict() error {
	var names []string
	for _, s := range r.Scenarios {
		if s.Result == resultBroken {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the contract is broken: %s", strings.Join(names, ", "))
}

func (s *screen) contractBegins(r *contractRun) {
	fmt.Fprintf(s.out, "%s\n", s.paint(bold, "What a server promises about Idempotency-Key, as a client sees it"))
	where := "Asks " + r.shop.server + "."
	if r.own != nil {
		where = fmt.Sprintf("Asks a system of its own at %s; its log: %s", r.shop.server, r.own.logPath())
	}
	fmt.Fprintf(s.out, "%s\n\n", s.paint(faint, where))
}

// nameWidth is that of the longest name.
func nameWidth() int {
	width := 0
	for _, name := range scenarioNames() {
		width = max(width, len(name))
	}
	return width
}

func (s *screen) scenarioEnds(seen sighting) {
	mark, width := s.mark(seen.Result == resultHeld), nameWidth()
	if seen.Result == resultNotShown {
		mark = s.paint(faint, "–")
	}
	fmt.Fprintf(s.out, "%s %-*s  %s\n", mark, width, seen.Name, seen.ClientSees)
	indent := strings.Repeat(" ", width+4) // mark and gaps
	if seen.Result == resultNotShown {
		fmt.Fprintf(s.out, "%s%s\n", indent, s.paint(faint, "not shown: "+seen.NotShown))
	}
	if seen.Saw != "" {
		fmt.Fprintf(s.out, "%s%s\n", indent, s.paint(faint, "saw: "+seen.Saw))
	}
	for _, problem := range seen.Problems {
		fmt.Fprintf(s.out, "%s%s\n", indent, s.paint(red, problem))
	}
}

func (s *screen) contractEnds(r contractReport, run *contractRun) {
	ending := fmt.Sprintf("%d held, %d broken, %d not shown. %d requests in %.1f s.", r.count(resultHeld), r.count(resultBroken),
		r.count(resultNotShown), r.Requests, (time.Duration(r.DurationMS) * time.Millisecond).Seconds())
	colour := green
	if !r.OK {
		colour = red
	}
	fmt.Fprintf(s.out, "\n%s\n", s.paint(colour, ending))
	if !r.OK && run.own != nil {
		fmt.Fprintf(s.out, "The servers' log: %s\n", run.own.logPath())
	}
}

// listed is a scenario without its code.
type listed struct {
	Name       string `json:"name"`
	ClientSees string `json:"client_sees"`
	Needs      string `json:"needs,omitempty"`
}

func listScenarios(cmd *cobra.Command, asJSON bool) error {
	list := make([]listed, len(contractScenarios))
	for i, s := range contractScenarios {
		list[i] = listed{s.name, s.sees, string(s.needs)}
	}
	if asJSON {
		return printJSON(cmd, list)
	}
	for _, s := range list {
		fmt.Fprintf(cmd.OutOrStdout(), "%-*s  %s\n", nameWidth(), s.Name, s.ClientSees)
		if s.Needs != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%*s  needs %s\n", nameWidth(), "", s.Needs)
		}
	}
	return nil
}
