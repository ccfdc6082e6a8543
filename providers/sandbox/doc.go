// Package sandbox is a local server that stands in for the payment providers: it speaks their APIs with their own rules,
// keeps a ledger of the money that it "took", and does on request what real providers do on bad days. It shares no code
// with the adapters that talk to it, so that an error in an adapter's understanding is not repeated here.
//
// Today it speaks Stripe, API version 2023-10-16, under /stripe; Adyen (/adyen) and PayPal (/paypal) join as further
// simulations beside it.
//
// # Stripe: what is simulated
//
//   - Secret keys (Bearer or Basic), form encoding with nested brackets, strict parameters (an unknown or a malformed one is
//     a 400), Stripe's error bodies, Request-Id, Stripe-Should-Retry.
//   - PaymentIntents: create (with or without confirm), update, retrieve, list, search, confirm, capture, cancel. Refunds:
//     create, retrieve, list. Charges: retrieve, list. expand of latest_charge, payment_method, refunds, charge,
//     payment_intent.
//   - Idempotency keys: the first status and body are kept for 24 hours of the sandbox's clock and replayed with
//     Idempotent-Replayed (402s and saved 500s too). Another body or another path under the same key is a 400
//     idempotency_error, a repeat while the first runs is a 409 idempotency_key_in_use. Refused parameters, 401, 409 and 429
//     are not kept; refusals that needed a look at the payment (wrong state, no such payment method) are.
//   - Stripe's test payment methods (see stripe_methods.go): approved, declined, 3-D Secure with a page on which a person
//     approves or refuses, and bank debits that stay in processing until settled.
//   - Amounts in Stripe's own units with its limits. A hold cancels itself after 7 days. The search index can lag.
//
// # What is not
//
//   - Webhooks and events, customers (an id is stored as given), SetupIntents, saved payment methods, card numbers, Connect,
//     disputes, fees and balance transactions (only their ids appear), currency conversion (so no minimum derived from a
//     settlement currency).
//   - Parameters that Stripe has and the sandbox does not act on are refused with a message that says so, never ignored.
//   - All secret keys see the same account.
//
// # Control
//
// GET /_sandbox/ledger, GET /_sandbox/requests, GET|POST|DELETE /_sandbox/faults, POST /_sandbox/divergence,
// POST /_sandbox/payments/{id}/{approve|refuse|settle|fail}, POST /_sandbox/refunds/{id}/{settle|fail},
// POST /_sandbox/clock {"advance_ms"}, POST /_sandbox/settings {"search_delay_ms","settle_after_ms"},
// POST /_sandbox/reset, GET /healthz.
//
// # Bounds
//
// Everything lives in memory: at most 200,000 payments, 400,000 charges, 400,000 refunds, 500,000 idempotency keys with 512 MiB
// of saved answers, 10,000 recorded requests (4 KiB of each body), 100 faults, 1,000,000 counted identifiers. An order costs some
// 7 kB, so that a full sandbox takes about 1.4 GB. At a full store new money calls get a 503 and change nothing, because forgetting
// a key would charge twice: POST /_sandbox/reset empties it. A fault lets a client wait a minute at most.
package sandbox
