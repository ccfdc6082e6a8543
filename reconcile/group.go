package reconcile

import (
	"cmp"
	"slices"
	"time"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

// group is one payment at a provider: everything that it tells of it.
type group struct {
	provider string
	id       string // the provider's id of the payment
	ids      []string
	keys     []providers.SubKey
	status   providers.OutcomeKind
	currency string
	taken    int64 // minor units, as all that follow
	held     int64 // before anything was taken of it
	asked    int64 // while nothing is taken or held
	given    int64 // as the payment itself tells it; -1 where it does not
	refunds  []Told
	at       time.Time
	toldAt   time.Time // the earliest of what makes it up
	listed   bool      // by a list or a notice, not by a settlement file alone
	unlisted bool      // by nothing: only a refund of it is told
}

// groups gathers what is told of a pair by payment. What a settlement file alone tells of counts as taken, or as given back: money moved.
func groups(pair Pair) []*group {
	var all []*group
	for _, told := range pair.There {
		if told.Kind != providers.TransactionPayment {
			continue
		}
		g := find(all, told.Provider, told.Payment, told.Reference)
		if g == nil {
			g = &group{
				provider: told.Provider, id: cmp.Or(told.Payment, told.Reference), given: -1, listed: true, toldAt: told.ToldAt, at: told.At,
			}
			all = append(all, g)
		}
		g.add(told)
	}
	for _, line := range pair.Settled {
		g := find(all, line.Provider, line.Payment, line.Reference)
		switch {
		case line.Kind != statement.LineCharge, knows(all, line):
		case g == nil:
			all = append(all, settledGroup(line))
		case !g.listed:
			g.taken = plus(g.taken, line.customers().Amount)
		}
	}
	for _, g := range all {
		g.settle(pair.Settled)
	}
	return sorted(withRefunds(all, toldRefunds(pair)))
}

// withRefunds adds what was given back to the payments.
func withRefunds(all []*group, refunds []Told) []*group {
	for _, told := range refunds {
		if g := paidBack(all, told); g != nil {
			g.refunds = append(g.refunds, told)
		} else if told.Payment != "" && !bears(all, told.Provider) { // its payment is older than all that was listed
			all = append(all, &group{
				provider: told.Provider, id: told.Payment, ids: []string{told.Payment}, given: -1, refunds: []Told{told}, at: told.At,
				toldAt: told.ToldAt, unlisted: true,
			})
		}
	}
	return all
}

// settle adds what settlement files have captured of a payment, where all that was told of it is that it is held.
func (g *group) settle(lines []Settlement) {
	if !g.listed || g.status != providers.Authorized || g.taken != 0 {
		return
	}
	var sum int64
	for _, line := range lines {
		if money := line.customers(); line.Kind == statement.LineCharge && g.isSettledBy(line) && money.Currency == g.currency {
			sum = plus(sum, money.Amount)
		}
	}
	if sum > 0 {
		g.taken, g.status = sum, providers.Succeeded
	}
}

// toldRefunds are all refunds that a provider tells of, in lists, notices and settlement files.
func toldRefunds(pair Pair) []Told {
	refunds := slices.DeleteFunc(slices.Clone(pair.There), func(told Told) bool { return told.Kind != providers.TransactionRefund })
	for i := range refunds {
		bookBack(&refunds[i], pair.Settled)
	}
	return append(refunds, settledRefunds(pair)...)
}

// bookBack: what settlement files book back of a refund has come to nothing since it was given.
func bookBack(told *Told, settled []Settlement) {
	var sum int64
	var lately time.Time
	for _, line := range settled {
		if line.Kind != statement.LineRefund || !line.isRefund(*told) {
			continue
		}
		sum = plus(sum, line.Gross)
		if line.Gross > 0 && line.BookedAt.After(lately) {
			lately = line.BookedAt
		}
	}
	if sum < 0 || lately.IsZero() {
		return
	}
	told.Status = providers.Canceled
	if lately.After(told.ToldAt) {
		told.ToldAt = lately
	}
}

// paidBack is the payment that a refund gives back: the provider's only one where the refund names a capture of which nothing is told.
func paidBack(all []*group, told Told) *group {
	if g := find(all, told.Provider, told.Payment); g != nil {
		return g
	}
	return onlyOf(all, told.Provider)
}

// find finds a provider's payment by any of its ids.
func find(all []*group, provider string, ids ...string) *group {
	for _, g := range all {
		if g.provider == provider && slices.ContainsFunc(ids, func(id string) bool { return id != "" && slices.Contains(g.ids, id) }) {
			return g
		}
	}
	return nil
}

// knows tells that a list has told of the payment of a settlement line, by our key.
func knows(all []*group, line Settlement) bool {
	return slices.ContainsFunc(all, func(g *group) bool {
		return g.listed && g.provider == line.Provider && line.Key != "" && slices.Contains(g.keys, line.Key)
	})
}

// bears tells that a provider told of any payment.
func bears(all []*group, provider string) bool {
	return slices.ContainsFunc(all, func(g *group) bool { return g.provider == provider && !g.unlisted })
}

// onlyOf is a provider's one payment in a pair.
func onlyOf(all []*group, provider string) *group {
	var only *group
	for _, g := range all {
		if g.provider != provider {
			continue
		}
		if only != nil {
			return nil
		}
		only = g
	}
	return only
}

func (g *group) add(told Told) {
	g.ids = append(g.ids, told.Reference)
	if told.Payment != "" {
		g.ids = append(g.ids, told.Payment)
	}
	if told.Key != "" {
		g.keys = append(g.keys, told.Key)
	}
	if told.ToldAt.Before(g.toldAt) {
		g.toldAt = told.ToldAt
	}
	g.currency = told.Money.Currency
	if told.Refunded >= 0 {
		g.given = plus(max(g.given, 0), told.Refunded)
	}
	switch told.Status {
	case providers.Succeeded:
		g.taken = plus(g.taken, told.Money.Amount)
	case providers.Authorized:
		g.held = max(g.held, told.Money.Amount) // one that is held again is held once
	default:
		g.asked = told.Money.Amount
	}
	g.status = stronger(g.status, told.Status)
}

// stronger is the status of a payment of which two things are told: money that is taken or held counts.
func stronger(a, b providers.OutcomeKind) providers.OutcomeKind {
	rank := []providers.OutcomeKind{
		"", providers.Declined, providers.Canceled, providers.ActionRequired, providers.Processing, providers.Authorized, providers.Succeeded,
	}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

func settledGroup(line Settlement) *group {
	money := line.customers()
	g := &group{
		provider: line.Provider, id: line.Payment, status: providers.Succeeded, currency: money.Currency, taken: money.Amount, given: -1,
		at: line.BookedAt, toldAt: line.BookedAt,
	}
	if g.id == "" {
		g.id = line.Reference
	}
	for _, id := range []string{line.Payment, line.Reference} {
		if id != "" {
			g.ids = append(g.ids, id)
		}
	}
	if line.Key != "" {
		g.keys = []providers.SubKey{line.Key}
	}
	return g
}

// customers is what the customer paid or got back. Of a line that does not tell, nothing but its net is looked at: see telling.
func (s Settlement) customers() providers.Money {
	money, _ := s.Customer(s.Provider, s.Currency)
	return money
}

// telling are the lines that tell what became of a customer's money, and by which call. What does not is no evidence of anything.
func telling(pair Pair) []Settlement {
	return slices.DeleteFunc(slices.Clone(pair.Settled), func(line Settlement) bool {
		_, tells := line.Customer(line.Provider, pair.Payment.Money.Currency)
		return (line.Kind == statement.LineCharge || line.Kind == statement.LineRefund) && !tells || !line.Names()
	})
}

// settledRefunds are the refunds that only settlement files tell of. One that was booked back came to nothing.
func settledRefunds(pair Pair) []Told {
	var refunds []Told
	var booked []int64 // of each, by all of its lines
	for _, line := range pair.Settled {
		if line.Kind != statement.LineRefund || slices.ContainsFunc(pair.There, line.isRefund) {
			continue
		}
		if same := slices.IndexFunc(refunds, line.isRefund); same >= 0 {
			booked[same] = plus(booked[same], line.Gross)
			if line.BookedAt.After(refunds[same].ToldAt) {
				refunds[same].ToldAt = line.BookedAt
			}
			continue
		}
		booked = append(booked, line.Gross)
		refunds = append(refunds, Told{Provider: line.Provider, ToldAt: line.BookedAt, Transaction: providers.Transaction{
			Kind: providers.TransactionRefund, Reference: line.Reference, Payment: line.Payment, Key: line.Key, Status: providers.Succeeded,
			Money: line.customers(), Refunded: -1, At: line.BookedAt,
		}, Booked: true})
	}
	for i, gross := range booked {
		if gross >= 0 {
			refunds[i].Status = providers.Canceled
		}
	}
	return refunds
}

// isRefund tells that a line books a refund.
func (s Settlement) isRefund(told Told) bool {
	return told.Kind == providers.TransactionRefund && told.Provider == s.Provider &&
		(told.Reference == s.Reference && s.Reference != "" || told.Key != "" && told.Key == s.Key)
}

// isOf tells that a payment is that of a charge of ours: by a key of ours that it bears, or else by its id.
func (g *group) isOf(charge Charge) bool {
	if g.provider != charge.Provider {
		return false
	}
	for _, key := range g.keys {
		if key == charge.Key || slices.Contains(charge.Captures, key) {
			return true
		}
	}
	return charge.Reference != "" && slices.Contains(g.ids, charge.Reference)
}

// isSettledBy tells that a line of a settlement file is about this payment.
func (g *group) isSettledBy(line Settlement) bool {
	ids := slices.ContainsFunc([]string{line.Payment, line.Reference}, func(id string) bool { return id != "" && slices.Contains(g.ids, id) })
	return g.provider == line.Provider && (ids || line.Key != "" && slices.Contains(g.keys, line.Key))
}

// returned is what was given back of it.
func (g *group) returned() int64 { return max(g.refunded(), g.given) }

// refunded is what the refunds come to that are told one by one.
func (g *group) refunded() (sum int64) {
	for _, refund := range g.refunds {
		if refund.Status == providers.Succeeded || refund.Status == providers.Processing {
			sum = plus(sum, refund.Money.Amount)
		}
	}
	return sum
}

// kept is what the provider has taken and not given back.
func (g *group) kept() int64 { return max(0, g.taken-max(0, g.returned())) }

// holds is what the provider holds beside what it has taken: some tell of a hold as it began.
func (g *group) holds() int64 { return max(0, g.held-max(0, g.taken)) }

// live tells that the provider keeps or holds money.
func (g *group) live() bool { return g.kept() > 0 || g.holds() > 0 }

// settledStatus tells that the provider has decided.
func (g *group) settledStatus() bool {
	switch g.status {
	case providers.Succeeded, providers.Authorized, providers.Declined, providers.Canceled:
		return true
	default:
		return false
	}
}

func (g *group) facts() Facts {
	facts := Facts{
		Source: sourceList, Status: string(g.status), Amount: max(g.taken, g.held, g.asked), Currency: g.currency, Captured: g.taken,
		Refunded: g.returned(), References: []string{g.id}, At: g.at,
	}
	if !g.listed {
		facts.Source = sourceStatement
	}
	for _, key := range g.keys {
		facts.Keys = append(facts.Keys, string(key))
	}
	return facts
}
