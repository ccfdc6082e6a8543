// Package client calls paysaga's API from Go, and repeats a call until its one answer is known.
//
// An answer can be lost on its way when the money is already taken. Then only a repeat with the same Idempotency-Key tells what became of
// the request, and a repeat with another key is a second order and a second charge. The package does the repeating. What it cannot do is
// remember the key over a crash of the program that uses it. So:
//
//  1. When the intent arises (the customer presses the button, the clerk decides) make its key with [NewKey], once.
//  2. Store the key together with what will be sent, before the first call. The request belongs to the key: client libraries of
//     payment providers encrypt anew each time, and the same key with other content is refused.
//  3. Call with that key, now and after every crash, until there is an answer.
//
// Every method that changes something takes the key of its intent; a capture, a cancel and each refund are intents of their own.
//
// # What a call gives
//
//   - A result: the request was carried out. Where its Pending is true (202) the end is not known yet: follow the order or the refund
//     with [Client.GetOrder] or [Client.GetRefund]; a repeat of the call would get the same 202 again.
//   - A [*ProblemError]: this call was refused. If its Final is true the refusal is kept under the key, and only a new intent with a new
//     key is tried afresh. Else mend what it names and call again with the same key.
//   - An [*UnknownOutcomeError]: nobody here knows whether the request was carried out. Call again later, with the same key and the same
//     request. It wraps the last failure, which may be a *ProblemError such as a 503: look for UnknownOutcomeError first.
//   - An [*UnansweredError]: the same for a call that only reads.
//   - Any other error: the call was not sent, as its key or its body are not valid.
//
// So there is one reason to make another key for the same purpose: a ProblemError that is Final.
//
// # What is repeated
//
// The same bytes with the same key, after: a network error, also one within an answer; an answer that cannot be read; 5xx; 429; and
// 409 with [RequestInProgress] or [OrderBusy]. No other 4xx is repeated, and redirects are not followed. Retry-After is the least that
// is waited, in seconds or as a date. To it comes a random time between zero and a ceiling that doubles with each attempt, from
// Config.BaseBackoff to Config.MaxBackoff ("full jitter"), so that clients which failed together do not come back together.
//
// All this rests on a server that enforces its keys, as it does unless set up otherwise. One in its mode log_only carries repeats out.
//
// The context is the bound on a call. It should have a deadline; Config.MaxAttempts bounds calls whose context has none. A call whose next
// attempt would come after its deadline gives up at once.
package client
