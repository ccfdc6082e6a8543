package httpapi

import (
	"net/http"

	"paysaga/internal/httpapi/pages"
	"paysaga/saga"
)

// The problems of requests about an order that was taken on before.
var (
	orderBusy = passingConflict("order-busy", "The order is being worked on",
		"Another request about the order is being worked on, or the outcome of an earlier step is not known yet. Nothing was done, and the "+
			"key was not used.",
		"Send the same request with the same key again after the seconds in `Retry-After`.")
	refundInstead = problemType(http.StatusConflict, "refund-instead", "The money is taken, refund it",
		"There is nothing left to cancel: the order's money is taken, and none is held. Nothing was done.",
		"Give the money back with `POST /v1/orders/{id}/refunds`.")
	cancelInstead = problemType(http.StatusConflict, "cancel-instead", "Money is held or awaited, cancel that first",
		"The order's money is not taken, so there is nothing to give back; or a part is taken and more is still held. Nothing was done, and "+
			"the key was not used.",
		"Give the order up with `POST /v1/orders/{id}/cancel`. Where a part is taken already, that completes the order with it and gives "+
			"up the rest; then ask for the refund again.")
	nothingToCapture = problemType(http.StatusConflict, "nothing-to-capture", "No money is held",
		"The order's payment was not placed with `capture: manual`, is not held yet, or is taken already. Nothing was done, and the key was "+
			"not used.",
		"Read the order: while money is held, `payment.capturable_amount` says how much a capture can take.")
	authorizationEnded = finalProblem(http.StatusConflict, "authorization-ended", "The hold has ended",
		"The bank or the provider let go of the held money before it was taken, and the order is canceled. Nothing is taken; the answer stays "+
			"for this key.",
		"Place a new order when the customer still wants the goods. Capture earlier: `deadline_at` says until when.")
	paymentOpen = problemType(http.StatusConflict, "payment-open", "The present payment is still open",
		"Another payment was sent for an order whose present one is not declined: the customer could still complete both. Nothing was done, "+
			"and the key was not used.",
		"Go on with the present payment, without `payment`; or cancel the order and place a new one.")
	orderOver = problemType(http.StatusConflict, "order-over", "The order is over",
		"The order has come to nothing, or is being undone: nothing of it is left to capture, cancel or refund. Nothing was done, and the key "+
			"was not used.",
		"Read the order to see what became of it.")
	orderInReview = problemType(http.StatusConflict, "order-in-review", "A person must decide about the order first",
		"No rule decides how the order stands, so it takes no requests. Nothing was done, and the key was not used.",
		"Wait for the operator. `GET /v1/orders/{id}/saga` says what was found.")
	amountTooLarge = problemType(http.StatusUnprocessableEntity, "amount-too-large", "The amount is too large",
		"A capture of more than is held, or a refund of more than is left of what was taken, refunds under way included. Nothing was done, "+
			"and the key was not used.",
		"Ask for less. The mended request may use the same key.")
	oneCapture = problemType(http.StatusUnprocessableEntity, "one-capture", "The provider captures a payment once",
		"A part was to be captured with more to follow, and this provider lets go of the rest with the first capture. Nothing was done, and "+
			"the key was not used.",
		"Capture the part as `final`, or all of it. The mended request may use the same key.")
	paymentRequired = problemType(http.StatusUnprocessableEntity, "payment-required", "Another payment is needed",
		"The order's payment was declined, so there is nothing to go on with. Nothing was done, and the key was not used.",
		"Ask the customer for another payment method and send it as `payment`. The mended request may use the same key.")
	notInReview = problemType(http.StatusConflict, "not-in-review", "The saga is not in review",
		"The saga moves by itself, so there is nothing for a person to decide. Nothing was done, and the key was not used.",
		"Read the saga to see where it stands. `retry` takes up at once what rests.")
	decisionUnfit = problemType(http.StatusConflict, "decision-unfit", "The decision does not fit",
		"What was decided does not go together with how the saga stands, or a needed detail is missing. Nothing was done, and the key was "+
			"not used.",
		"Read why, and the saga's timeline, and decide what fits: the runbook lists the decisions for each finding.")
	decisionContradicted = problemType(http.StatusConflict, "decision-contradicted", "The provider tells otherwise",
		"The provider was asked how the payment stands, and its answer contradicts the decision: the books would be wrong. Nothing was done, "+
			"and the key was not used.",
		"Put the payment right at the provider, or decide what it tells. Money that went back in another way than at the provider is told by "+
			"`outside_provider`.")
	continueRefused = finalProblem(http.StatusUnprocessableEntity, "continue-refused", "The provider refused to go on",
		"The provider did not take what the customer's way back brought. The order still waits for its customer; the answer stays for this "+
			"key.",
		"Send what the redirect or the client library brought, as it came, under a new key; or send the customer through `next_action` once "+
			"more.")
	captureRefused = finalProblem(http.StatusUnprocessableEntity, "capture-refused", "The provider refused the capture",
		"The provider did not take the money. What is held stays held until its end; the answer stays for this key.",
		"Mend what the provider names and capture under a new key.")
	refundRefused = finalProblem(http.StatusUnprocessableEntity, "refund-refused", "The provider refused the refund",
		"The provider did not give the money back. It stays with the shop, and the refund is `failed`; the answer stays for this key.",
		"Read why, and ask again under a new key, or give the money back in another way.")
)

// refusals is what each of the saga's reasons to refuse a request is to a client, and the place in the body that is at fault.
var refusals = map[saga.RefusalReason]struct {
	kind    pages.ProblemType
	pointer string
}{
	saga.RefusedBusy:            {orderBusy, ""},
	saga.RefusedCaptured:        {refundInstead, ""},
	saga.RefusedNotCaptured:     {cancelInstead, ""},
	saga.RefusedNotHeld:         {nothingToCapture, ""},
	saga.RefusedOneCapture:      {oneCapture, "/final"},
	saga.RefusedTooMuch:         {amountTooLarge, "/amount"},
	saga.RefusedPaymentOpen:     {paymentOpen, "/payment"},
	saga.RefusedPaymentRequired: {paymentRequired, "/payment"},
	saga.RefusedOver:            {orderOver, ""},
	saga.RefusedInReview:        {orderInReview, ""},
	saga.RefusedNotInReview:     {notInReview, ""},
	saga.RefusedUnfit:           {decisionUnfit, ""},
	saga.RefusedContradicted:    {decisionContradicted, ""},
}
