package providers

// RequestError is why a request cannot be sent to a provider at all. It is found without a call: nothing was done.
type RequestError struct {
	// Field is the way to it in an order's body: "amount", "currency", "payment.method", "payment.method_data", "payment.return_url",
	// "customer.reference"; in a continue's "details". "key" and "metadata" are made here and are nobody's to mend.
	Field  string
	Code   string // machine-readable, "amount_too_small"
	Detail string // a sentence for the person who sent the request; never repeats a payment method
}

// Error names the field and the reason.
func (e *RequestError) Error() string { return e.Field + ": " + e.Detail }

// Codes that mean the same whichever provider an outcome is about. The saga's reaction depends on some of them; all other
// codes are the provider's own words, or the adapter's, for the timeline only.
const (
	// CodeAlreadyCaptured marks a Rejected void: the money is taken, only a refund gives it back.
	CodeAlreadyCaptured = "already_captured"
	// CodeNotCancelableYet marks a Busy void: the provider is still moving the money; void again once the payment has an end.
	CodeNotCancelableYet = "not_cancelable_yet"
	// CodeRefunded marks a Canceled look-up: the money was taken and has all been given back.
	CodeRefunded = "refunded"
	// CodePartiallyRefunded marks a Succeeded look-up: the money was taken and a part of it has been given back.
	CodePartiallyRefunded = "partially_refunded"
	// CodeAlreadyRefunded marks a Succeeded refund that moved no money: the payment had been given back in full before.
	CodeAlreadyRefunded = "already_refunded"
	// CodeSeveralPayments marks an Unknown look-up: more than one live payment carries the same key. For a person to see.
	CodeSeveralPayments = "several_payments"
	// CodeServerErrorReplayed marks an Unknown call whose 5xx is the provider's saved answer: the same call brings it
	// again for ever, only a look-up can tell.
	CodeServerErrorReplayed = "server_error_replayed"
	// CodeServerErrorFinal marks an Unknown call whose 5xx the provider asks not to repeat: look up instead.
	CodeServerErrorFinal = "server_error_final"
	// CodeIdempotencyMismatch marks an Unknown call: the key was first used with other parameters, and that first call may
	// have moved money. Look up; never take a new key.
	CodeIdempotencyMismatch = "idempotency_mismatch"
	// CodeCredentialsRefused marks a Busy call: the provider refuses our key, an operator must act. Nothing was done.
	CodeCredentialsRefused = "credentials_refused"
	// CodeNotSent marks a Busy call that was held back here: nothing was sent.
	CodeNotSent = "not_sent"
	// CodeUnreachable marks a Busy call: no connection came about, so nothing was sent.
	CodeUnreachable = "unreachable"
	// CodeApproved marks a Processing payment that the customer has approved and of which nothing is taken until Continue: the only
	// Processing that does not end by itself.
	CodeApproved = "approved"
	// CodeAuthorizationExpired marks a Canceled look-up, capture or notice: the hold reached its end without being taken.
	CodeAuthorizationExpired = "authorization_expired"
	// CodeOtherPayment marks an Unknown call whose answer is about another payment than ours, so says nothing about ours.
	CodeOtherPayment = "other_payment"
	// CodePartiallyCaptured marks an Authorized look-up: a part of the hold is taken. Without it, nothing is.
	CodePartiallyCaptured = "partially_captured"
	// CodeVoidRefused marks a Rejected void of a provider that tells by notices only: it finds nothing held that it could let go.
	CodeVoidRefused = "void_refused"
	// CodeCaptureFailed marks a Declined capture that the card scheme sent back after the provider had taken it on.
	CodeCaptureFailed = "capture_failed"
	// CodeNoLookup marks an Unknown look-up: the provider cannot be asked. Send the same call again inside Windows.Repost, wait for
	// the provider's notice, or undo.
	CodeNoLookup = "no_lookup"
)
