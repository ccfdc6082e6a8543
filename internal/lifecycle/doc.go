// Package lifecycle has tests only: the whole life of a payment, from the order to the last refund, with everything as it is in
// production but the providers themselves. The adapters speak to the sandbox over real HTTP, the sandbox's signed webhooks go
// through the inbox, and all of it is kept by a real PostgreSQL. A test holds back the webhooks and brings them in the order,
// and as often, as it likes; it lets servers die at any of their writes; and it moves the clocks of the database and of the sandbox
// together, so that nothing is waited for.
package lifecycle
