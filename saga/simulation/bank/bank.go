// Package bank is a payment provider in memory, for simulations of what is built on it. It has a truth of its own and keeps a ledger of
// every movement of money, which nobody who calls it sees.
//
// There are three kinds, after the three ways in which providers are: customers of a self-paying one pay by themselves (Stripe's way); at
// an approving one only we take what a customer approved (PayPal's); a deferring one cannot be asked, carries all modifications out later,
// and tells of everything by notices (Adyen's). It speaks the nouns of package providers and knows nothing of sagas. What chance or a
// person decides comes from outside (World), so that whoever runs it can decide the same once more.
//
// A bank is not for concurrent use.
package bank

import (
	"fmt"
	"slices"
	"time"

	"paysaga/providers"
)

// Kind is one of the ways in which providers are.
type Kind string

// The kinds.
const (
	SelfPaying Kind = "self-paying"
	Approving  Kind = "approving"
	Deferring  Kind = "deferring"
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{SelfPaying, Approving, Deferring} }

// Windows are the limits of a kind, as the adapters of the real providers have them.
func (k Kind) Windows() providers.Windows {
	switch k {
	case Approving:
		return providers.Windows{Repost: 5 * time.Hour, LookupDelay: 3 * time.Hour, Hold: 29 * 24 * time.Hour}
	case Deferring:
		return providers.Windows{Repost: 6 * 24 * time.Hour, NoLookup: true, Hold: 28 * 24 * time.Hour}
	case SelfPaying:
	}
	return providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, StaysPayable: true, Hold: 7 * 24 * time.Hour}
}

// memoryMargin is how much longer than Windows.Repost a provider remembers a key. After that the same call is a new one.
const memoryMargin = time.Hour

// Way is how a charge goes.
type Way string

// The ways. Moves is decided later, by Decide.
const (
	Pays     Way = "pays"
	Asks     Way = "asks" // the customer must act
	Declines Way = "declines"
	Moves    Way = "moves" // the bank takes its time
	Short    Way = "short" // it takes or holds less than was asked for
	Rejects  Way = "rejects"
)

// World is what a bank lives in.
type World struct {
	Now func() time.Time
	// Way decides how the charge with a key goes.
	Way func(key providers.SubKey) Way
	// Lag is how long a new payment is not found by its key; it must be within Windows.LookupDelay.
	Lag func(key providers.SubKey) time.Duration
	// Accepted is told of a modification that is to be carried out later.
	Accepted func(key providers.SubKey, carryOut func())
	// Tell sends a notice.
	Tell func(n providers.Notice)
}

// Bank is one provider.
type Bank struct {
	World

	kind     Kind
	windows  providers.Windows
	payments []*Payment
	answers  map[providers.SubKey]*modification
	given    map[providers.SubKey]func(reference string) // takes a refund back
	ledger   []Entry
	notices  int
	accepted int // modifications that were to be carried out later
}

// New opens a bank.
func New(kind Kind, world World) *Bank {
	return &Bank{
		World: world, kind: kind, windows: kind.Windows(), answers: map[providers.SubKey]*modification{},
		given: map[providers.SubKey]func(string){},
	}
}

// Movement is what happened to money.
type Movement string

// The movements.
const (
	Held     Movement = "held"     // promised by the bank
	Released Movement = "released" // let go of without being taken
	Taken    Movement = "taken"    // from a hold, or at once
	Returned Movement = "returned" // given back after it was taken
	Bounced  Movement = "bounced"  // came back from the customer's bank after it was given back
)

// Entry is one movement of money: a line of the ledger.
type Entry struct {
	At       time.Time
	Movement Movement
	Payment  string           // its reference
	Charge   providers.SubKey // under which the payment was made
	Key      providers.SubKey // of the call that moved it; empty where nobody's did
	Amount   int64            // minor units
}

// Ledger is every movement so far.
func (b *Bank) Ledger() []Entry { return b.ledger }

func (b *Bank) record(m Movement, p *Payment, key providers.SubKey, amount int64) {
	b.ledger = append(b.ledger, Entry{At: b.Now(), Movement: m, Payment: p.Reference, Charge: p.Key, Key: key, Amount: amount})
}

// Payments are all that were ever made.
func (b *Bank) Payments() []*Payment { return b.payments }

// find finds a payment by its reference at once, and else by its key. The newest of several counts.
func (b *Bank) find(reference string, key providers.SubKey) *Payment {
	for _, p := range slices.Backward(b.payments) {
		if reference != "" && p.Reference == reference || reference == "" && p.Key == key {
			return p
		}
	}
	return nil
}

// announce sends a notice: all that there is to tell where nobody can ask, and else a hint.
func (b *Bank) announce(about providers.About, key providers.SubKey, p *Payment, reference string, outcome providers.Outcome) {
	b.notices++
	notice := providers.Notice{
		ID: fmt.Sprintf("%s_event_%d", b.kind, b.notices), About: about, Key: key, Reference: reference, Type: string(outcome.Kind), At: b.Now(),
	}
	if p != nil {
		notice.Payment = p.Reference
	}
	if b.windows.NoLookup {
		outcome.Reference = reference
		notice.Outcome = &outcome
	}
	b.Tell(notice)
}
