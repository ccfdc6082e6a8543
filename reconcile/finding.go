package reconcile

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// Kind is what is wrong. docs/runbook.md says what to do about each. Those that a saga finds out by itself have the saga's words, so that
// one thing has one name and one finding, whoever came upon it.
type Kind string

// The kinds.
const (
	MissingLocally       Kind = "missing_locally"              // the provider has a payment that no order knows
	PaymentMissing       Kind = saga.FindingPaymentMissing     // an order has money that the provider knows nothing of
	StatusMismatch       Kind = "status_mismatch"              // one side has it paid, held or refused, the other has not
	AmountMismatch       Kind = saga.FindingAmountMismatch     // the same payment over different amounts
	CurrencyMismatch     Kind = saga.FindingCurrencyMismatch   // or in different currencies
	DuplicateCharge      Kind = saga.FindingDuplicateCharge    // the provider took or holds money of one order more than once
	RefundedAtProvider   Kind = saga.FindingRefundedAtProvider // the provider gave money back that nobody here asked for
	RefundMissing        Kind = "refund_missing"               // a refund counts as given here, and the provider has none
	FeeMismatch          Kind = "fee_mismatch"                 // the provider tells one fee, and settles another
	NetMismatch          Kind = "net_mismatch"                 // a settlement's net is not its gross less its fee
	Chargeback           Kind = "chargeback"                   // the customer's bank has taken money back
	OrphanReservation    Kind = "orphan_reservation"           // stock is held for an order that is over
	AuthorizationExpired Kind = "authorization_expired"        // an order waits for a capture of money that is not held any more
	SagaWithoutEnd       Kind = "saga_without_end"             // an order or a refund has not moved for long
	WebhookNotApplied    Kind = "webhook_not_applied"          // a provider's event has not reached its saga
	StatementMismatch    Kind = "statement_mismatch"           // a settlement file does not add up, or has lines that cannot be read
)

// Kinds are all that there are.
func Kinds() []Kind {
	return []Kind{
		MissingLocally, PaymentMissing, StatusMismatch, AmountMismatch, CurrencyMismatch, DuplicateCharge, RefundedAtProvider, RefundMissing,
		FeeMismatch, NetMismatch, Chargeback, OrphanReservation, AuthorizationExpired, SagaWithoutEnd, WebhookNotApplied, StatementMismatch,
	}
}

// AllKinds are those of reconciliation, and those that a saga alone comes upon.
func AllKinds() []Kind {
	all := Kinds()
	for _, kind := range saga.FindingKinds() {
		if !slices.Contains(all, Kind(kind)) {
			all = append(all, Kind(kind))
		}
	}
	return all
}

// Severity is how soon a person should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // a customer's money is wrong, or will be
	High     Severity = "high"     // the books are wrong
	Low      Severity = "low"      // something is late, or to be looked at some time
)

// SeverityOf is that of a finding that a saga opens: critical where it says that somebody's money is not where it should be.
func SeverityOf(kind Kind) Severity {
	switch kind {
	case PaymentMissing, AmountMismatch, CurrencyMismatch, DuplicateCharge, saga.FindingChargedAfterRefusal:
		return Critical
	default:
		return High
	}
}

// Finding is one disagreement. Two findings are the same one when they are about the same saga and of the same kind; where no saga is
// known, when they are about the same thing at the same provider.
type Finding struct {
	Kind      Kind
	Severity  Severity
	AccountID string    // empty: nobody's, as far as is known
	SagaKey   uuid.UUID // of the order's saga, or of the refund's; zero where none is known
	OrderID   uuid.UUID // zero where none is known
	Provider  string
	Reference string          // the provider's id of what it is about
	AtStake   providers.Money // how much is in question; zero where that is not known
	Detail    string          // a sentence for people, without personal data
	Here      Facts
	There     Facts
	Repair    Repair // what mends it

	// What the repair is about, where it is about something of its own. It is not kept: before a repair all is looked at anew.
	Refunds []saga.FoundRefund  // to be recorded
	Others  []saga.OtherPayment // to be given back
	Notice  *providers.Notice   // to be brought to the saga
	Events  []Event             // to be applied
}

// Facts are what one side says. They are kept sealed: with references and amounts, they tell who paid what.
type Facts struct {
	Status     string    `json:"status,omitempty"`
	Amount     int64     `json:"amount,omitempty"` // minor units, as all amounts here
	Currency   string    `json:"currency,omitempty"`
	Captured   int64     `json:"captured,omitempty"`
	Refunded   int64     `json:"refunded,omitempty"`
	Fee        int64     `json:"fee,omitempty"`
	Net        int64     `json:"net,omitempty"`
	References []string  `json:"references,omitempty"`
	Keys       []string  `json:"keys,omitempty"`
	At         time.Time `json:"at,omitzero"`
	Source     string    `json:"source,omitempty"` // "list", "statement", "notice", "database"
}

// Repair is what mends a finding.
type Repair string

// The repairs. Each but RepairNone is one operation with a key of its own, so that doing it twice does it once.
const (
	RepairNone            Repair = ""                 // only a person can tell
	RepairComplete        Repair = "complete"         // the provider has the money: bring the waiting saga on
	RepairUndo            Repair = "undo"             // the order was given up: let go of its money, or give it back, once
	RepairRecordRefund    Repair = "record_refund"    // write down what the provider gave back
	RepairRelease         Repair = "release"          // free the stock that is held for nothing
	RepairLetGo           Repair = "let_go"           // the hold is over: give the waiting order up
	RepairResume          Repair = "resume"           // have the saga go on
	RepairApplyWebhook    Repair = "apply_webhook"    // bring the event to its saga once more
	RepairReview          Repair = "review"           // stop the saga where it stands, for a person
	RepairRefundDuplicate Repair = "refund_duplicate" // give back what was taken twice
)

// Repairs are all that there are.
func Repairs() []Repair {
	return []Repair{
		RepairComplete, RepairUndo, RepairRecordRefund, RepairRelease, RepairLetGo, RepairResume, RepairApplyWebhook, RepairReview,
		RepairRefundDuplicate,
	}
}
