// Package sandbox is a local server that stands in for the payment providers: it speaks their APIs with their own rules,
// keeps a ledger of the money that it "took", and does on request what real providers do on bad days. It shares no code
// with the adapters that talk to it, so that an error in an adapter's understanding is not repeated here.
//
// It speaks Stripe, API version 2023-10-16, under /stripe; Adyen's Checkout API version 71 under /adyen/v71; PayPal's Orders
// v2, Payments v2, Transaction Search and OAuth under /paypal.
//
// # Stripe: what is simulated
//
//   - Secret keys (Bearer or Basic), form encoding with nested brackets, strict parameters (an unknown or a malformed one is
//     a 400), Stripe's error bodies, Request-Id, Stripe-Should-Retry.
//   - PaymentIntents: create (with or without confirm), update, retrieve, list, search, confirm, capture, cancel. Refunds:
//     create, retrieve, list. Charges: retrieve, list. expand of latest_charge, payment_method, refunds, charge,
//     payment_intent, and of a charge's balance_transaction. Lists are as new as the payments.
//   - Idempotency keys: the first status and body are kept for 24 hours of the sandbox's clock and replayed with
//     Idempotent-Replayed (402s and saved 500s too). Another body or another path under the same key is a 400
//     idempotency_error, a repeat while the first runs is a 409 idempotency_key_in_use. Refused parameters, 401, 409 and 429
//     are not kept; refusals that needed a look at the payment (wrong state, no such payment method) are.
//   - Stripe's test payment methods (see stripe_methods.go): approved, declined, 3-D Secure with a page on which a person
//     approves or refuses, and bank debits that stay in processing until settled.
//   - Amounts in Stripe's own units with its limits. A hold cancels itself after 7 days. The search index can lag.
//
// # Adyen: what is simulated
//
//   - X-API-Key, strict JSON (a field that version 71 does not have is a 400 with errorCode 702), ServiceError bodies.
//   - Payments with the stored methods stored_<CODE>, or with the encrypted test card and the code as its holder's name or in
//     additionalData (see adyen_codes.go); details; captures, cancels, refunds, reversals, and cancels by reference.
//   - Modifications are answered 201 "received" and done when SettleAfter has passed; how they ended only the webhook and the
//     ledger tell. additionalData.manualCapture "true" or captureDelayHours leave an authorization to be captured; it runs out
//     after 28 days. A partial capture releases the rest, unless the account takes several.
//   - Idempotency keys, kept for 7 days with whatever was answered, refusals included; not kept are transient errors, 401, 403
//     and 5xx of the sandbox's own. Chosen where Adyen says nothing: the key alone decides, other parameters bring the saved
//     answer; another endpoint is a 422 with errorCode 704.
//   - The customer's decision on the redirect's page stands at once, as with a local payment method: the webhook tells of it and
//     /payments/details shows it. At a real 3-D Secure card payment nothing happens until /payments/details is called.
//   - Adyen's own exponents (CLP and ISK 2, CVE and IDR 0); the ledger is in ISO 4217.
//
// # PayPal: what is simulated
//
//   - Client credentials; tokens that end after 9 hours of the sandbox's clock, and 401 from then on.
//   - Orders with one purchase unit: create, get, capture, authorize. Authorizations: get, capture, void. Captures: get, refund.
//     Refunds: get. Transaction search, which lags by the search delay, refuses what has over 10,000 results, and has, like PayPal's,
//     no filter by invoice_id: each line shows it; refunds without one show the payment's. Webhook verification.
//     Prefer: return=representation.
//   - Payment sources card, paypal and token with the vault ids vault_COMPLETED, vault_DECLINED, vault_FAILED, vault_PENDING,
//     vault_ECHECK, vault_PAYER_ACTION_REQUIRED, vault_REFUND_PENDING, or vault_<a 422 issue>; paypal without a vault id is
//     approved on a page; CCREJECT-… names; PayPal-Mock-Response.
//   - PayPal-Request-Id, for each kind of call: a repeat is a 200 with the object as it is now. Kept for 6 hours (Orders) or 45
//     days (Payments); refusals are not kept. Chosen where PayPal says nothing: the id alone decides, whatever the parameters.
//   - An invoice_id that was paid is refused, unless the account takes several payments with one.
//
// # Fees
//
// Stripe keeps 1.5 % and 0.25 of what it takes, PayPal 2.49 % and 0.35, rounded half up, in units of the payment's currency; Adyen's
// only its settlement files tell. Nobody gives a fee back.
//
// # Webhooks
//
// Signed as each provider signs: Stripe-Signature with a v1 for each secret; hmacSignature in each item; PayPal's headers with a
// certificate chain that the sandbox makes and serves, its root at GET /_sandbox/paypal-root.pem. Delivered at once, or late,
// doubled, overtaken or lost by seed; what the shop does not accept is sent up to 8 times within a minute. Divergences are not
// announced. Targets are on this machine, unless Options allow others.
//
// # What is not
//
//   - Stripe: customers (an id is stored as given), SetupIntents, saved payment methods, card numbers, Connect, disputes that can be
//     fought (a chargeback can be planted), currency conversion (so no minimum derived from a settlement currency).
//     Events can be received but not asked for.
//   - Adyen: other payment methods than cards, native 3-D Secure, authorizations of nothing, sessions, amount updates, splits.
//   - PayPal: several purchase units, reauthorization, PATCH, trackers, the honor period, captures above the authorization.
//   - Parameters that Stripe has and the sandbox does not act on are refused with a message that says so, never ignored. At
//     Adyen and PayPal what is only information is taken and forgotten.
//   - All keys see the same account.
//
// # Control
//
// GET /_sandbox/ledger, GET /_sandbox/requests, GET|POST|DELETE /_sandbox/faults, POST /_sandbox/divergence,
// GET /_sandbox/settlement/{provider},
// POST /_sandbox/payments/{id}/{approve|refuse|settle|fail}, POST /_sandbox/refunds/{id}/{settle|fail},
// GET|POST /_sandbox/webhooks, POST /_sandbox/webhooks/flush, POST /_sandbox/webhooks/resend {"since"}, GET /_sandbox/paypal-root.pem,
// POST /_sandbox/clock {"advance_ms"}, POST /_sandbox/settings {"search_delay_ms","settle_after_ms"},
// POST /_sandbox/reset, GET /healthz.
//
// # Divergences
//
// POST /_sandbox/divergence {"kind", "provider", "id" or "identifier" or "reference", "amount", "currency"} makes the account differ from
// what the caller knows, and answers with the payment in the ledger; amounts are ISO 4217 minor units. The kinds: charge_without_order,
// duplicate, amount_changed, currency_changed, payment_lost, refund_in_dashboard, refund_lost, captured_in_dashboard,
// voided_in_dashboard, authorization_expired, chargeback (divergence.go says what each takes); and fee_changed, net_changed (not at
// PayPal, whose report has no net) and settled_amount_changed, of which only settlement files tell. Webhooks get lost by
// POST /_sandbox/webhooks {"loss"}.
//
// # Settlement files
//
// GET /_sandbox/settlement/{stripe|adyen|paypal}?from=&until=&timezone=&batch= writes what came onto the balance and left it in a time
// (from included, until not; all up to now by default) in the provider's own format: Stripe's itemized payout reconciliation, Adyen's
// settlement details report of a batch, PayPal's settlement report (STL, version 9). Fees are as above; Adyen's are 0.6 % markup, 0.1 %
// scheme fee, 0.2 % interchange, and 0.11 of each payment in one Fee row. A chargeback costs 15.00, 7.50, 14.00 beside its amount. Each
// currency is settled for itself, begins at nothing, and is paid out whole by its last row; nothing is converted. The same order gives
// the same file.
//
// # Bounds
//
// Everything lives in memory: at each provider at most 200,000 payments, 400,000 charges or captures, 400,000 refunds or
// modifications, 500,000 idempotency keys with 512 MiB of saved answers, 20,000 waiting webhooks; in all 10,000 recorded
// requests (4 KiB of each body), 100 faults, 1,000,000 counted identifiers. An order at Stripe costs some 7 kB, so that
// a full account takes about 1.4 GB. At a full store new money calls get a 503 and change nothing, because forgetting a
// key would charge twice: POST /_sandbox/reset empties it. A fault lets a client wait a minute at most.
package sandbox
