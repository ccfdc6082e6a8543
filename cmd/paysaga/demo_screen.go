package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"paysaga/providers"
)

// screen shows the demo to a person: its story on standard output, its progress on standard error. With --json the story
// is left out.
type screen struct {
	out      io.Writer
	errOut   io.Writer
	colour   bool
	terminal bool // errOut is one, so that a bar can move on it
}

func newScreen(out, errOut io.Writer, asJSON bool) *screen {
	s := &screen{out: out, errOut: errOut, terminal: isTerminal(errOut)}
	s.colour = isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if asJSON {
		s.out = io.Discard
	}
	return s
}

func isTerminal(stream io.Writer) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// paint is one of the terminal's ways to write (ECMA-48, "select graphic rendition").
type paint string

const (
	bold  paint = "1"
	faint paint = "2"
	red   paint = "31"
	green paint = "32"
)

func (s *screen) paint(p paint, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

func (s *screen) mark(ok bool) string {
	if ok {
		return s.paint(green, "✓")
	}
	return s.paint(red, "✗")
}

func (s *screen) opening(o demoOptions) {
	fmt.Fprintf(s.out, "%s\n", s.paint(bold, "paysaga: each order exactly once, whatever is repeated, lost or killed"))
	fmt.Fprintf(s.out, "%s\n", s.paint(faint, fmt.Sprintf("Starting a PostgreSQL, the provider sandbox and a server in %s. Seed %d.",
		filepath.Join(o.dir, "demo"), o.seed)))
}

func (s *screen) ready(set *stage) {
	fmt.Fprintf(s.out, "%s\n", s.paint(faint, fmt.Sprintf("The server listens on %s (process %d); its log: %s",
		set.server.url, set.server.pid(), set.logPath())))
}

func (s *screen) sceneBegins(number int, r sceneReport) {
	fmt.Fprintf(s.out, "\n%s\n  → %s\n", s.paint(bold, fmt.Sprintf("%d %s", number, r.Title)), r.Sent)
}

func (s *screen) sceneEnds(r sceneReport) {
	if r.CameBack != "" {
		lines := strings.ReplaceAll(r.CameBack, "\n", "\n    ")
		fmt.Fprintf(s.out, "%s ← %s\n", s.mark(r.OK), lines)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(s.out, "%s %s\n", s.mark(false), s.paint(red, problem))
	}
}

func (s *screen) closing(r demoReport, dir string) {
	s.checks("Orders, the providers' ledgers and the stock, side by side", r.Table)
	took := float64(r.DurationMS) / float64(time.Second/time.Millisecond)
	if !r.OK {
		fmt.Fprintf(s.out, "\n%s\n", s.paint(red, fmt.Sprintf("Not all that is promised held. It took %.1f s.", took)))
		fmt.Fprintf(s.out, "The server's log is in %s, the database in the same folder, until the next demo.\n", filepath.Join(dir, serverLog))
		return
	}
	fmt.Fprintf(s.out, "\n%s\n", s.paint(green, fmt.Sprintf("All that is promised held. It took %.1f s.", took)))
	fmt.Fprintf(s.out, `
What to do next:
  %-36s a system to play with; it prints a curl to paste
  %-36s another storm
  %-36s what the server saw of this one
`, programName()+" dev", fmt.Sprintf("%s demo --seed %d", programName(), r.Seed+1), "less "+filepath.Join(dir, serverLog))
}

// checks lays the sources side by side.
func (s *screen) checks(title string, checks []check) {
	if len(checks) == 0 {
		return
	}
	var whatWidth, leftWidth, rightWidth int
	for _, c := range checks {
		whatWidth = max(whatWidth, len(c.Left.What))
		leftWidth, rightWidth = max(leftWidth, len(c.Left.String())), max(rightWidth, len(c.Right.String()))
	}
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, title))
	for _, c := range checks {
		sign := "="
		if c.Left.Amount != c.Right.Amount {
			sign = "≠"
		}
		fmt.Fprintf(s.out, "%s %-*s  %*s %s %*s  %s\n", s.mark(c.OK), whatWidth, c.Left.What,
			leftWidth, c.Left, sign, rightWidth, c.Right, c.Right.What)
		for _, problem := range c.Problems {
			fmt.Fprintf(s.out, "    %s\n", s.paint(red, problem))
		}
	}
}

// String is the amount as a person reads it.
func (f figure) String() string {
	if f.money {
		return providers.Money{Amount: f.Amount, Currency: currency}.String()
	}
	return strconv.FormatInt(f.Amount, 10)
}

// progress tells how far something long is: with a bar on a terminal, with a line at each quarter elsewhere. It may be
// stepped by many at once.
type progress struct {
	bar   *progressbar.ProgressBar
	out   io.Writer
	what  string
	total int64
	done  atomic.Int64
}

func (s *screen) progress(what string, total int) *progress {
	p := &progress{out: s.errOut, what: what, total: int64(total)}
	if s.terminal {
		const often = 100 * time.Millisecond // as fast as an eye follows
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(s.errOut), progressbar.OptionSetDescription("    "+what),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(often),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true))
	}
	return p
}

func (p *progress) step() {
	if p.bar != nil {
		_ = p.bar.Add(1) // a bar that cannot be drawn is no reason to stop
		return
	}
	const parts = 4
	done := p.done.Add(1)
	if done*parts/p.total != (done-1)*parts/p.total {
		fmt.Fprintf(p.out, "    %d of %d %s\n", done, p.total, p.what)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}
