// Package saga takes an order through reserve → charge → confirm so that any number of repeats, crashes and lost answers
// gives exactly one result.
//
// The core is pure: keys.go derives every identifier, machine.go holds the table of states, reaction.go what each
// outcome of a provider call means, next.go what has to be done now, and advance.go folds an event into one Change. The
// shell around it loads, calls and stores: runner.go drives one saga under its lease, recovery.go picks up the sagas that
// nobody drives. Both know the database and the providers only as the ports in ports.go.
package saga
