package saga

import (
	"slices"

	"paysaga/providers"
)

// Call is one kind of question or order to a provider.
type Call string

// The calls that a saga makes.
const (
	CallNone        Call = ""
	CallCharge      Call = "charge"
	CallContinue    Call = "continue" // go on with the charge after the customer acted
	CallLookup      Call = "lookup"   // how does the charge stand?
	CallCapture     Call = "capture"
	CallVoid        Call = "void"
	CallRefund      Call = "refund"
	CallCheckRefund Call = "check_refund" // how does a refund stand that was accepted, or must not be sent again?
	CallStep        Call = "step"         // a step of a deployment's own
	CallUndo        Call = "undo"         // takes one back
)

// move is what a saga does about an outcome; advance.go and the files beside it carry it out.
type move int

const (
	moveReview         move = iota // no rule decides: a person must look
	moveRepeat                     // nothing learned: the same call again, later
	moveTake                       // the money is taken: go on to confirm
	moveHold                       // the money is held: wait for a capture, until the hold ends
	moveAwait                      // wait for the customer or the provider, until the deadline
	moveDecline                    // the payment was refused: undo, or wait for another one
	moveUndo                       // nothing is taken or held any more: undo the earlier steps
	moveAbsent                     // the look-up found nothing: undo, if that is conclusive yet
	moveContinueFailed             // what the customer's way back brought leads nowhere; the payment stands as before
	moveCaptured                   // held money is taken
	moveAwaitCapture               // the capture is on its way
	moveCaptureFailed              // the capture was refused; the hold stands as before
	moveVoided                     // the payment is closed at the provider
	moveAwaitVoid                  // the void is on its way
	moveVoidRefused                // the payment can't be voided: refund it if it was captured
	moveRefunded                   // the money is back
	moveAwaitRefund                // the refund is on its way: ask again later
	moveRefundFailed               // the money stays with the shop
	moveStepDone                   // a step of a deployment's own is carried out, or taken back: go on
	moveStepFailed                 // it was refused: undo
	moveAwaitStep                  // it is on its way: ask again later
)

// reaction is a move and what becomes of the step whose call it was; an empty status leaves it as it is.
type reaction struct {
	move move
	step StepStatus
}

// places are the states in which each call is made, and so in which its outcome may come in.
var places = map[Call][]State{
	CallCharge:      {Charging},
	CallContinue:    {Awaiting},
	CallLookup:      {Charging, Awaiting},
	CallCapture:     {Awaiting},
	CallVoid:        {Compensating, Awaiting},
	CallRefund:      {Compensating, Refunding},
	CallCheckRefund: {Compensating, Refunding, Completed}, // a refund that was given can come back
	CallStep:        {Reserved, Charged},
	CallUndo:        {Compensating},
}

func fits(call Call, s Saga) bool {
	ofRefund := s.State == Refunding || s.State == Completed
	return slices.Contains(places[call], s.State) && (!ofRefund || s.Kind == KindRefund)
}

// reactionTo finds what an outcome of a call means for a saga of this kind.
func reactionTo(kind Kind, call Call, outcome providers.OutcomeKind) (reaction, bool) {
	if kind == KindRefund {
		if found, ok := refundReactions[call][outcome]; ok {
			return found, true
		}
	}
	found, ok := reactions[call][outcome]
	return found, ok
}

// reactions is the table of what each outcome of each call means. It has a row for every pair. Two things it never says:
// that an unknown outcome is a failure, and that a busy provider says anything about an earlier send.
var reactions = map[Call]map[providers.OutcomeKind]reaction{
	CallCharge: {
		providers.Succeeded:      {moveTake, StepDone},
		providers.Authorized:     {moveHold, StepDone},
		providers.ActionRequired: {moveAwait, StepPending},
		providers.Processing:     {moveAwait, StepPending},
		providers.Declined:       {moveDecline, StepFailed},
		providers.Canceled:       {moveUndo, StepFailed},
		providers.Rejected:       {moveUndo, StepFailed},
		providers.NotFound:       {moveReview, StepUnknown}, // no answer to a charge
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
	},
	CallLookup: {
		providers.Succeeded:      {moveTake, StepDone},
		providers.Authorized:     {moveHold, StepDone},
		providers.ActionRequired: {moveAwait, StepPending},
		providers.Processing:     {moveAwait, StepPending},
		providers.Declined:       {moveDecline, StepFailed},
		providers.Canceled:       {moveUndo, StepFailed},
		providers.NotFound:       {moveAbsent, ""},
		providers.Rejected:       {moveReview, ""}, // the question itself is refused: it will not get better
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, ""},
	},
	// An answer to a continue tells how the charge stands; what it means for that is the look-up's row.
	CallContinue: {
		providers.Succeeded:      {moveTake, StepDone},
		providers.Authorized:     {moveHold, StepDone},
		providers.ActionRequired: {moveAwait, StepDone},
		providers.Processing:     {moveAwait, StepDone},
		providers.Declined:       {moveDecline, StepDone},
		providers.Canceled:       {moveUndo, StepDone},
		providers.Rejected:       {moveContinueFailed, StepFailed},
		providers.NotFound:       {moveReview, StepUnknown},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
	},
	CallCapture: {
		providers.Succeeded:      {moveCaptured, StepDone},
		providers.Processing:     {moveAwaitCapture, StepPending},
		providers.Declined:       {moveCaptureFailed, StepFailed},
		providers.Rejected:       {moveCaptureFailed, StepFailed},
		providers.Canceled:       {moveUndo, StepFailed}, // the hold has ended
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveReview, StepUnknown},
		providers.NotFound:       {moveReview, StepUnknown},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
	},
	CallVoid: {
		providers.Succeeded:      {moveVoided, StepDone},
		providers.Canceled:       {moveVoided, StepDone},
		providers.Processing:     {moveAwaitVoid, StepPending},
		providers.Rejected:       {moveVoidRefused, StepFailed},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
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
	CallStep: {
		providers.Succeeded:      {moveStepDone, StepDone},
		providers.Declined:       {moveStepFailed, StepFailed},
		providers.Rejected:       {moveStepFailed, StepFailed},
		providers.Canceled:       {moveStepFailed, StepFailed},
		providers.Processing:     {moveAwaitStep, StepPending},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveReview, StepUnknown},
		providers.NotFound:       {moveReview, StepUnknown},
	},
	CallUndo: {
		providers.Succeeded:      {moveStepDone, StepDone},
		providers.Canceled:       {moveStepDone, StepDone},
		providers.NotFound:       {moveStepDone, StepDone}, // it was never done
		providers.Processing:     {moveAwaitStep, StepPending},
		providers.Busy:           {moveRepeat, ""},
		providers.Unknown:        {moveRepeat, StepUnknown},
		providers.Declined:       {moveReview, StepFailed},
		providers.Rejected:       {moveReview, StepFailed},
		providers.Authorized:     {moveReview, StepUnknown},
		providers.ActionRequired: {moveReview, StepUnknown},
	},
}

// refundReactions are the rows that differ where the shop asked for the refund: it may fail, and the shop is told so. A refund
// that undoes an order may not.
var refundReactions = map[Call]map[providers.OutcomeKind]reaction{
	CallRefund: {
		providers.Declined: {moveRefundFailed, StepFailed},
		providers.Rejected: {moveRefundFailed, StepFailed},
		providers.Canceled: {moveRefundFailed, StepFailed},
	},
	CallCheckRefund: {
		providers.Declined: {moveRefundFailed, StepFailed},
		providers.Canceled: {moveRefundFailed, StepFailed},
	},
}
