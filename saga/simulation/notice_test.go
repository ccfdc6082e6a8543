package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// delivery is one copy of a notice in the inbox, as it is tried to bring it to its saga.
type delivery struct {
	provider string
	notice   providers.Notice
	copy     int
	came     time.Time
	event    webhook.Event
}

// send puts a notice into the mail. Only one that is a mere hint can be lost: a provider that cannot be asked repeats what it says.
func (w *world) send(provider string, n providers.Notice) {
	w.notices++
	w.seen.add("notice", provider+" "+string(n.About))
	w.say(fmt.Sprintf("  notice %d (%s) about %s %s is sent", w.notices, n.ID, n.About, n.Key))
	delay, copies := w.spread(10*time.Millisecond, 5*time.Second, "mail", n.ID), 1
	if w.plan.Wild {
		delay = w.spread(10*time.Millisecond, 6*time.Hour, "mail", n.ID)
		copies = 1 + int(w.unit("copies", n.ID)*2.5)
		if mayBeLost(n) && w.unit("lost", n.ID) < 0.2 {
			w.seen.add("notice", "lost")
			copies = 0
		}
	}
	for _, e := range w.plan.Events {
		if e.What == noticeLate && e.Nth == w.notices {
			delay = time.Duration(e.For)
			if e.For == 0 && mayBeLost(n) {
				w.seen.add("notice", "lost")
				copies = 0
			}
		}
	}
	if copies > 1 {
		w.seen.add("notice", "doubled")
	}
	for i := range copies {
		d := &delivery{provider: provider, notice: n, copy: i + 1, event: webhook.Event{Provider: provider, Notice: n}}
		w.after(delay+w.spread(0, time.Minute, "copy", n.ID, strconv.Itoa(i))*time.Duration(i), "", func() {
			d.came = time.Now()
			w.deliver(d)
		})
	}
}

// mayBeLost tells a notice that is only a hint, about what is looked up sooner or later. That a refund has come back nobody would find
// out.
func mayBeLost(n providers.Notice) bool {
	return n.Outcome == nil && (n.About != providers.AboutRefund || n.Type != string(providers.Declined))
}

// deliver has a server bring a notice to its saga.
func (w *world) deliver(d *delivery) {
	d.event.Attempts++
	place := int(w.unit("postman", d.notice.ID, strconv.Itoa(d.copy), strconv.Itoa(d.event.Attempts)) * float64(len(w.servers)))
	s := w.servers[place]
	name := fmt.Sprintf("%s notice %s copy %d try %d", s.name(), d.notice.ID, d.copy, d.event.Attempts)
	w.launch(result{name: name, notice: d}, time.Hour, func(ctx context.Context, r *result) {
		way := &desk{s}
		if r.ref, r.err = way.findSaga(ctx, d.provider, d.notice); r.err != nil {
			return
		}
		r.err = s.runner.Notify(ctx, r.ref, d.notice)
	})
}

// delivered decides by the inbox's own table what follows.
func (w *world) delivered(r result) {
	d := r.notice
	d.event.Age = time.Since(d.came)
	known := errors.Is(r.err, saga.ErrLeaseLost) || errors.Is(r.err, saga.ErrNotFound) || errors.Is(r.err, saga.ErrInReview) ||
		errors.Is(r.err, saga.ErrDraining)
	if r.err != nil && !known {
		w.check.plain(r.name, r.err)
	}
	what := webhook.Reaction(d.event, r.ref, r.err)
	w.say(fmt.Sprintf("%s: %s %s", r.name, what.Status, what.Reason))
	if what.Failed {
		d.event.Failures++
	}
	if what.Status != webhook.Waiting {
		w.seen.add("notice", string(what.Status))
		return
	}
	if errors.Is(r.err, saga.ErrInReview) && w.resting { // nobody decides any more
		w.seen.add("notice", "left to review")
		return
	}
	w.after(what.Pause+time.Duration(w.unit("again", r.name)*float64(time.Millisecond)), "", func() { w.deliver(d) })
}

// announced takes what a bank tells, and plans the end of a hold that begins.
func (w *world) announced(kind bank.Kind, n providers.Notice) {
	w.send(string(kind), n)
	for _, p := range w.banks[kind].Payments() {
		if p.State != bank.OnHold || w.expires[p.Reference] {
			continue
		}
		w.expires[p.Reference] = true
		w.at(w.banks[kind].HoldEnds(p).Add(w.spread(time.Minute, 12*time.Hour, "expires", string(p.Key))), "", func() {
			if p.State == bank.OnHold {
				w.say("the hold of " + p.Reference + " ends")
				w.seen.add("event", "hold ends")
				w.banks[kind].Expire(p)
			}
		})
	}
}

// way decides how a charge, or the taking of an approved one, goes.
func (w *world) way(key providers.SubKey) bank.Way {
	rest := string(key[uuidLength+1:])
	name, number, _ := strings.Cut(rest, "_")
	attempt, err := strconv.Atoi(number)
	if err != nil {
		attempt = 1
	}
	if saga.StepName(name) == saga.StepContinue {
		if w.unit("approved", string(key)) < 0.3 {
			return bank.Declines
		}
		return bank.Pays
	}
	for i, o := range w.plan.Orders {
		if w.check.isOf(key, orderID(w.plan, i)) {
			return o.way(attempt)
		}
	}
	return bank.Pays
}
