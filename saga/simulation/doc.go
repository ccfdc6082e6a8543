// Package simulation runs the real saga.Runner, saga.Recovery and idempotency.Guard, several servers of them at once, over a database
// and payment providers in memory, all driven by one seed: orders, faults, crashes at every boundary, lost and late answers, doubled and
// reordered notices, frozen servers, lost leases and jumps of the clock. After each run it holds what came of it against the ten
// invariants of docs/ARCHITECTURE.md, by a ledger that the providers keep and that paysaga never sees.
//
// A run is a pure function of its plan, and the plan of its seed. All goroutines of a run live in one bubble of testing/synctest, whose
// clock is not the real one. Each call of the store or of a provider is a boundary: the goroutine waits there until the scheduler, when
// all others wait as well, lets one call through. So there is one order of events, drawn from the seed, and a failure can be had again,
// made smaller, and read.
//
// What is simulated is what lies around package saga. The store in memory passes the same suite as internal/postgres (saga/storetest);
// it does not show what a real PostgreSQL does under load. The providers (saga/simulation/bank) behave as the real ones are documented
// to; the adapters are not in it. All but this comment is in test files, as testing/synctest is for tests.
package simulation
