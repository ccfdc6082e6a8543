// Package saga takes an order through reserve → charge → confirm so that any number of repeats, crashes and lost answers
// gives exactly one result.
//
// The core is pure: keys.go derives every identifier, machine.go holds the table of states, reaction.go what each
// outcome of a provider call means, notice.go what each of a provider's announcements means, next.go what has to be done now, and
// advance.go folds an event into one Change. Beside it stand the ways that a saga can go: charge.go, capture.go and compensate.go
// carry out what follows from an outcome, ask.go what follows from a request about an order; show.go tells what the shop sees.
//
// The shell around it loads, calls and stores: runner.go drives one saga under its lease, call.go makes one provider call,
// operations.go brings requests, refunds and notices to their sagas, recovery.go picks up the sagas that nobody drives, and breaker.go
// spares a provider that does not answer. They know the database and the providers only as the ports in ports.go.
package saga
