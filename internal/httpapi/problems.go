package httpapi

import (
	"net/http"

	"paysaga/internal/httpapi/pages"
)

// problemTypes is the table of all problems that the API answers with; each has a page at /problems/{slug}.
var problemTypes = map[string]pages.ProblemType{}

func problemType(status int, slug, title, meaning, mend string) pages.ProblemType {
	t := pages.ProblemType{Slug: slug, Title: title, Status: status, Meaning: meaning, Mend: mend}
	problemTypes[slug] = t
	return t
}

// finalProblem is the answer to a request that was carried out and came to nothing, or whose key has another answer already.
func finalProblem(status int, slug, title, meaning, mend string) pages.ProblemType {
	t := pages.ProblemType{Slug: slug, Title: title, Status: status, Final: true, Meaning: meaning, Mend: mend}
	problemTypes[slug] = t
	return t
}

// passingProblem ends by itself.
func passingProblem(status int, slug, title, meaning, mend string) pages.ProblemType {
	t := pages.ProblemType{Slug: slug, Title: title, Status: status, Passes: true, Meaning: meaning, Mend: mend}
	problemTypes[slug] = t
	return t
}

// passingConflict is a conflict that ends by itself, unlike those about how an order stands.
func passingConflict(slug, title, meaning, mend string) pages.ProblemType {
	return passingProblem(http.StatusConflict, slug, title, meaning, mend)
}

var (
	invalidRequest = problemType(http.StatusBadRequest, "invalid-request", "The request is not valid",
		"The body or a parameter is not what the contract describes. Nothing was done, and the key was not used.",
		"Mend each place named in `errors`. The mended request may use the same key.")
	keyInvalid = problemType(http.StatusBadRequest, "idempotency-key-invalid", "The Idempotency-Key is not valid",
		"The header has a key that is empty, too short, too long or has other characters than allowed, or there are several.",
		"Send one key of 16 to 255 characters of `A-Z a-z 0-9 . _ ~ : -`, best a UUID made once for each request.")
	keyMissing = problemType(http.StatusUnprocessableEntity, "idempotency-key-missing", "The Idempotency-Key is missing",
		"A request that changes something must say which intent it belongs to, or a repeat could charge twice.",
		"Make a UUID when the customer presses the button, or the clerk decides, keep it with the order, and send it with every repeat.")
	keyReused = finalProblem(http.StatusUnprocessableEntity, "idempotency-key-reuse", "The Idempotency-Key belongs to another request",
		"The key was used for a request with another intent: another amount, other items, another payment.",
		"Use a new key for a new intent. To repeat the first request, send it unchanged.")
	keyExpired = finalProblem(http.StatusGone, "idempotency-key-expired", "The Idempotency-Key has expired",
		"The key was used longer ago than answers are kept, and this server carries nothing out twice under one key. Nothing was done.",
		"Read the order that the first request made. For a new request use a new key.")
	tooManyKeys = passingProblem(http.StatusTooManyRequests, "too-many-new-keys", "Too many new keys in a short time",
		"The account has begun more new requests than it may in a minute. Nothing was done, and the key was not used. Repeats of "+
			"earlier requests are not counted.",
		"Send the same request with the same key again after the seconds in `Retry-After`. A client that makes a new key for each repeat "+
			"is the usual cause; for a shop that is that busy, the operator can raise `PAYSAGA_NEW_KEYS_PER_MINUTE`.")
	inProgress = passingConflict("request-in-progress", "The request is still being worked on",
		"An earlier request with the same key has no answer yet.",
		"Send the same request with the same key again after the seconds in `Retry-After`.")
	unauthorized = problemType(http.StatusUnauthorized, "unauthorized", "The API key is missing or not valid",
		"The `Authorization` header has no API key, or one that is unknown or revoked.",
		"Send `Authorization: Bearer` and a key that `paysaga keys create` gave.")
	operatorRequired = problemType(http.StatusForbidden, "operator-required", "An operator's key is needed",
		"The API key belongs to a shop's server, and this call is for the people who decide where no rule does. Nothing was done, and the "+
			"key was not used.",
		"Make a key for the person with `paysaga keys create --role operator`, and keep it off the shop's servers.")
	notFound = problemType(http.StatusNotFound, "not-found", "There is no such thing",
		"Your account has nothing at this address. Another account's things do not exist for you.",
		"Check the address and the API key's account.")
	methodNotAllowed = problemType(http.StatusMethodNotAllowed, "method-not-allowed", "The method does not fit the address",
		"The address exists, the method does not apply to it.", "See the reference at `/docs`.")
	bodyTooLarge = problemType(http.StatusRequestEntityTooLarge, "body-too-large", "The body is too large",
		"The request's body is over the server's limit, which is 64 KiB unless set otherwise. Nothing was done, and the key was not used.",
		"Send fewer lines or less metadata. Where `details` or `method_data` of a provider's client library are as large, have the operator "+
			"raise `PAYSAGA_MAX_BODY`, up to 1 MiB; `method_data` takes 16 KiB at most.")
	unsupportedMediaType = problemType(http.StatusUnsupportedMediaType, "unsupported-media-type", "The body is not JSON",
		"The `Content-Type` is not `application/json`.", "Send JSON and say so in `Content-Type`.")
	outOfStock = finalProblem(http.StatusUnprocessableEntity, "out-of-stock", "There is too little in stock",
		"A line asks for more than is available. Nothing was charged; the answer stays for this key.",
		"Offer the customer less, or raise the stock, and order under a new key.")
	stepRefused = finalProblem(http.StatusUnprocessableEntity, "step-refused", "A step of this deployment refused the order",
		"A check or a reservation that this deployment has added refused the order. Nothing is kept of the payment; the answer stays for this "+
			"key.",
		"Read why. A changed order needs a new key.")
	unknownSKU = problemType(http.StatusUnprocessableEntity, "unknown-sku", "A SKU has no stock record",
		"A line names a SKU that was never put into stock. Nothing was done, and the key was not used.",
		"Put the SKU into stock with `PUT /v1/stock/{sku}`, then send the order again under the same key.")
	providerUnknown = problemType(http.StatusUnprocessableEntity, "provider-not-configured", "The payment provider is not set up",
		"This server has no settings for the provider that the order names. Nothing was done, and the key was not used.",
		"Name a provider that is set up, or set it up. See the settings in the manual.")
	paymentInvalid = problemType(http.StatusUnprocessableEntity, "payment-not-possible", "The payment cannot be expressed at the provider",
		"The provider does not take this amount, currency or method. Nothing was done, and the key was not used.",
		"Change what `errors` names. The mended request may use the same key.")
	paymentDeclined = finalProblem(http.StatusPaymentRequired, "payment-declined", "The payment was declined",
		"The bank or the provider refused the payment. Nothing was taken, the stock is free again; the answer stays for this key.",
		"Ask the customer for another payment method and order under a new key. The order's `payment.decline` says whether the same "+
			"method may be tried again. An order placed with `on_decline: await` keeps its stock after a decline, for another payment.")
	paymentRejected = finalProblem(http.StatusUnprocessableEntity, "payment-rejected", "The provider refused the payment request",
		"The provider did not accept the request itself, for example a method that it does not know. Nothing was taken; the answer "+
			"stays for this key.",
		"Mend the payment and order under a new key.")
	orderUndone = finalProblem(http.StatusUnprocessableEntity, "order-undone", "The order was undone",
		"The order could not be completed, and everything was undone: nothing is kept of the payment, the stock is free again.",
		"Read the order to see why, and order under a new key.")
	findingInReview = problemType(http.StatusConflict, "finding-in-review", "The saga waits for a person",
		"The finding says why a saga waits for a person. It ends with the decision about that. Nothing was changed, and the key was not used.",
		"Decide the saga: `POST /v1/sagas/{saga}/retry`, `/resolve` or `/cancel`, or `paysaga sagas`.")
	findingResolved = problemType(http.StatusConflict, "finding-resolved", "The finding is resolved already",
		"Somebody has decided about the finding, a run has repaired it, or it is gone by itself. Nothing was changed, and the key was not used.",
		"Read the finding to see what became of it.")
	reconciliationWaiting = problemType(http.StatusConflict, "reconciliation-waiting", "Too many runs wait already",
		"Ten runs that were requested before have not begun: another one is under way, or no process runs the workers. Nothing was "+
			"written, and the key was not used.",
		"Follow the runs that wait, in the list of reconciliations. If none is under way, see that `paysaga serve --role worker` runs.")
	stockReserved = problemType(http.StatusUnprocessableEntity, "stock-reserved", "More is reserved than would be on hand",
		"The count is lower than what running orders have reserved. Nothing was changed.",
		"Wait until those orders have ended, or set a higher count.")
	unavailable = problemType(http.StatusServiceUnavailable, "unavailable", "The service cannot take the request now",
		"The database or the provider does not answer, or the server is about to stop or has too much to do.",
		"Send the same request with the same key again after the seconds in `Retry-After`.")
	_ = problemType(http.StatusBadRequest, "webhook-refused", "The webhook was refused", // package webhook answers with it
		"A message at `/webhooks/{provider}` does not carry the provider's signature, or is none of its events. Nothing is kept of it.",
		"Compare the webhook's secret, keys or id in the server's settings with those at the provider. The server's log says what did not "+
			"fit. The provider sends the message again by itself.")
	internalError = problemType(http.StatusInternalServerError, "internal-error", "Something went wrong here",
		"The server met an error of its own. The request may or may not have begun.",
		"Send the same request with the same key again: it gives one result. Tell the operator the request's id.")
)
