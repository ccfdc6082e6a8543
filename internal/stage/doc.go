// Package stage plays whole lives of payments, from the order to the last refund, with everything as it is in production but the
// providers themselves. The adapters speak to the sandbox over real HTTP, the sandbox's signed webhooks go through the inbox, and all of
// it is kept by a real PostgreSQL. Whoever directs a play holds the webhooks back and brings them in the order, and as often, as they
// like; lets servers die at any of their writes; has the providers' answers lost on the wire; and moves the clocks of the database and of
// the sandbox together, so that nothing is waited for.
//
// It serves the tests of internal/lifecycle and the fixtures of saga/fixture, whose World it is (world.go). It knows no testing package:
// failures go to a Reporter. It is no part of a server, and the only package beside internal/postgres with SQL: it plays the database's
// clock, and what people do to rows by hand. Some of that, Mischief, the demo of reconciliation does to a database of its own.
package stage
