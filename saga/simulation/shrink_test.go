package simulation

import (
	"slices"
	"testing"
	"time"
)

// mostShrinks bounds the runs that go into making a plan small.
const mostShrinks = 4000

// shrink drops what a failure does not need: events by ever smaller parts (delta debugging), and then whatever makes the plan less plain. A
// smaller plan counts if the same invariant is broken.
func shrink(t *testing.T, p plan, invariant string) plan {
	t.Helper()
	left := mostShrinks
	fails := func(smaller plan) bool {
		if left--; left < 0 {
			return false
		}
		v := run(t, smaller, nil).violation
		return v != nil && v.invariant == invariant
	}
	for before := ""; before != p.String(); {
		before = p.String()
		p = withoutEvents(p, fails)
		for _, plainer := range plainers {
			smaller := p
			smaller.Events, smaller.Orders = slices.Clone(p.Events), slices.Clone(p.Orders)
			if plainer(&smaller); smaller.String() != p.String() && fails(smaller) {
				p = smaller
			}
		}
	}
	return p
}

func withoutEvents(p plan, fails func(plan) bool) plan {
	for size := len(p.Events); size > 0; size /= 2 {
		for from := 0; from < len(p.Events); {
			smaller := p
			smaller.Events = slices.Concat(p.Events[:from], p.Events[min(from+size, len(p.Events)):])
			if fails(smaller) {
				p = smaller
				continue
			}
			from += size
		}
	}
	return p
}

// plainers each make one thing of a plan plainer.
var plainers = []func(p *plan){
	func(p *plan) { p.Slow = false },
	func(p *plan) { p.Wild = false },
	func(p *plan) { p.Stock = 100 },
	func(p *plan) { p.Look = span(5 * time.Second) },
	func(p *plan) {
		if p.Servers--; p.Servers == 0 {
			p.Servers = 1
		}
		for i := range p.Events {
			p.Events[i].Server = min(p.Events[i].Server, p.Servers)
		}
	},
	func(p *plan) {
		for i := range p.Orders {
			p.Orders[i].Ways = p.Orders[i].Ways[:1]
		}
	},
	func(p *plan) {
		for i := range p.Orders {
			p.Orders[i].Quantity = 1
		}
	},
	func(p *plan) { // times that people can read
		for i := range p.Events {
			p.Events[i].At = span(time.Duration(p.Events[i].At).Round(time.Second))
		}
	},
	func(p *plan) {
		for i := range p.Events {
			p.Events[i].For = span(time.Duration(p.Events[i].For).Round(time.Minute))
		}
	},
}
