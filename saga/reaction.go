package saga

import "paysaga/providers"

// Call is one kind of question or order to a provider.
type Call string

// The calls that a saga makes.
const (
	CallNone        Call = ""
	CallCharge      Call = "charge"
	CallLookup      Call = "lookup" // how does the charge stand?
	CallVoid        Call = "void"
	CallRefund      Call = "refund"
	CallCheckRefund Call = "check_refund" // how does a refund stand that was accepted, or must not be sent again?
)

// move is what a saga does about an outcome; advance.go carries it out.
type move int

const (
	moveReview      move = iota // no rule decides: a person must look
	moveRepeat                  // nothing learned: the same call again, later
	moveTake                    // the money is taken: go on to confirm
	moveAwait                   // wait for the customer or the provider, until the deadline
	moveUndo                    // nothing was taken: undo the earlier steps
	moveAbsent                  // the look-up found nothing: undo, if that is conclusive yet
	moveVoided                  // the payment is closed at the provider
	moveVoidRefused             // the payment can't be voided: refund it if it was captured
	moveRefunded                // the money is back
	moveAwaitRefund             // the refund is on its way: ask again later
)

// reaction is a move and what becomes of the step whose call it was; an empty status leaves it as it is.
type reaction struct {
	move move
	step StepStatus
}

// fits tells whether a call is made in this state, and so whether its outcome may come in.
func fits(call Call, state State) bool {
	switch call {
	case CallCharge:
		return state == Charging
	case CallLookup:
		return state == Charging || state == Awaiting
	case CallVoid, CallRefund, CallCheckRefund:
		return state == Compensating
	case CallNone:
	}
	return false
}

// reactions is the table of what each outcome of each call means. It has a row for every pair. Two things it never says:
// that an unknown outcome is a failure, and that a busy provider says anything about an earlier send.
var reactions = map[Call]map[providers.OutcomeKind]reaction{
	CallCharge: {
		providers.Succeeded:      {moveTake, StepDone},
		providers.Authorized:     {moveReview, StepUnknown}, // the capture was asked for and did not happen
		providers.ActionRequired: {moveAwait, StepPending},
		providers.Processing:     {moveAwait, StepPending},
		providers.Declined:       {moveUndo, StepFailed},
		providers.Canceled:       {moveUndo, StepFailed},
		providers.Rejected:       {moveUndo, StepFailed},
		providers.NotFound:       {moveReview, StepUnknown}, // no answer to a charge
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
	},
	CallLookup: {
		providers.Succeeded:      {moveTake, StepDone},
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveAwait, StepPending},
		providers.Processing:     {moveAwait, StepPending},
		providers.Declined:       {moveUndo, StepFailed},
		providers.Canceled:       {moveUndo, StepFailed},
		providers.NotFound:       {moveAbsent, ""},
		providers.Rejected:       {moveReview, ""}, // the question itself is refused: it will not get better
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, ""},
	},
	CallVoid: {
		providers.Succeeded:      {moveVoided, StepDone},
		providers.Canceled:       {moveVoided, StepDone},
		providers.Rejected:       {moveVoidRefused, StepFailed},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
		providers.Processing:     {moveRepeat, ""},
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveReview, StepUnknown},
		providers.Declined:       {moveReview, StepUnknown},
		providers.NotFound:       {moveReview, StepUnknown},
	},
	CallRefund: {
		providers.Succeeded:      {moveRefunded, StepDone},
		providers.Processing:     {moveAwaitRefund, StepPending},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
		providers.Declined:       {moveReview, StepFailed},
		providers.Rejected:       {moveReview, StepFailed},
		providers.Canceled:       {moveReview, StepFailed},
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveReview, StepUnknown},
		providers.NotFound:       {moveReview, StepUnknown},
	},
	CallCheckRefund: {
		providers.Succeeded:      {moveRefunded, StepDone},
		providers.Processing:     {moveAwaitRefund, ""},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, ""},
		providers.Declined:       {moveReview, StepFailed}, // the bank sent the money back
		providers.Canceled:       {moveReview, StepFailed},
		providers.NotFound:       {moveReview, ""}, // and it is too late to ask for it again under the same key
		providers.Rejected:       {moveReview, ""},
		providers.Authorized:     {moveReview, ""},
		providers.ActionRequired: {moveReview, ""},
	},
}
