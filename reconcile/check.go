package reconcile

import (
	"slices"

	"github.com/google/uuid"

	"paysaga/saga"
)

// Judgement is what a comparison came to.
type Judgement struct {
	Found  []Finding
	Judged []JudgedSaga // the order's, and those of its refunds
}

// JudgedSaga tells what was judged of a saga: the kinds of which nothing kept anybody from telling whether they are there. What is open of
// these and was not found again has healed. Of all other kinds nobody knows, and what is open of them stays.
type JudgedSaga struct {
	AccountID string
	SagaKey   uuid.UUID
	Kinds     []Kind
}

// verdict is what a check says of the kinds that it looks for, beside what it has found.
type verdict bool

// The verdicts. One that a check does not give is that it does not know.
const (
	unjudged verdict = false // what is not found may be there all the same
	judged   verdict = true  // what is not found is not there
)

// check looks for all findings of some kinds that there are for one reason. A kind is judged where all checks that look for it have judged.
type check struct {
	kinds    []Kind
	ofOrder  func(*matcher) verdict
	ofRefund func(*matcher, int) verdict // of each refund, by its place
}

// checks are all that Match does, in their order: the last ones leave out what earlier ones have found.
func checks() []check {
	return []check{
		{kinds: []Kind{OrphanReservation}, ofOrder: (*matcher).ourStock},
		{kinds: []Kind{WebhookNotApplied}, ofOrder: (*matcher).ourEvents},
		{kinds: []Kind{SagaWithoutEnd}, ofOrder: (*matcher).ourEnd},
		{kinds: []Kind{SagaWithoutEnd}, ofRefund: (*matcher).refundEnd},
		{kinds: []Kind{StatusMismatch, AmountMismatch, CurrencyMismatch, AuthorizationExpired}, ofOrder: (*matcher).own},
		{kinds: []Kind{DuplicateCharge}, ofOrder: (*matcher).others},
		{kinds: []Kind{PaymentMissing}, ofOrder: (*matcher).missing},
		{kinds: []Kind{StatusMismatch, AmountMismatch, CurrencyMismatch}, ofRefund: (*matcher).bothRefunds},
		{kinds: []Kind{RefundedAtProvider}, ofOrder: (*matcher).unaskedRefunds},
		{kinds: []Kind{RefundMissing}, ofRefund: (*matcher).missingRefund},
		{kinds: []Kind{FeeMismatch, NetMismatch, Chargeback}, ofOrder: (*matcher).settledLines},
		{kinds: []Kind{AmountMismatch, CurrencyMismatch}, ofOrder: (*matcher).settledCharges},
	}
}

// check makes a check, and notes what it could not judge.
func (m *matcher) check(c check) {
	if c.ofOrder != nil && c.ofOrder(m) == unjudged {
		m.leave(m.payment.OrderID, c.kinds...)
	}
	for i, refund := range m.payment.Refunds {
		if c.ofRefund != nil && c.ofRefund(m, i) == unjudged {
			m.leave(refund.SagaKey, c.kinds...)
		}
	}
}

// leave notes that nobody can tell whether something is wrong with a saga.
func (m *matcher) leave(sagaKey uuid.UUID, kinds ...Kind) {
	m.left[sagaKey] = append(m.left[sagaKey], kinds...)
}

// judged sums up what was judged of each saga. Of an order that no refund undoes, what is looked for in such a one is not there.
func (m *matcher) judged() []JudgedSaga {
	var ofAll, ofRefunds []Kind
	for _, c := range checks() {
		ofAll = append(ofAll, c.kinds...)
		if c.ofRefund != nil {
			ofRefunds = append(ofRefunds, c.kinds...)
		}
	}
	sagas := []JudgedSaga{m.judgedOf(m.payment.OrderID, ofAll)}
	for _, refund := range m.payment.Refunds {
		if refund.SagaKey != m.payment.OrderID {
			sagas = append(sagas, m.judgedOf(refund.SagaKey, ofRefunds))
		}
	}
	return sagas
}

func (m *matcher) judgedOf(sagaKey uuid.UUID, kinds []Kind) JudgedSaga {
	rest := slices.Clone(kinds)
	slices.Sort(rest)
	rest = slices.DeleteFunc(slices.Compact(rest), func(kind Kind) bool { return slices.Contains(m.left[sagaKey], kind) })
	return JudgedSaga{AccountID: m.payment.AccountID, SagaKey: sagaKey, Kinds: rest}
}

// atWork tells that what is seen of an order may be half a change, or that it waits for a person.
func (m *matcher) atWork() bool { return m.payment.Busy || m.payment.State == saga.NeedsReview }
