// Package reconcile finds where provider and database disagree about a payment, says what would mend it, and mends what rules allow.
//
// What is compared and what follows from it is pure (match*.go, rules.go): the same payment, seen from both sides, gives the same findings
// and the same repairs. The worker around it reads both sides in batches, keeps what it found, and hands each repair to the saga, which
// alone moves money. It knows no provider's API, no SQL and no HTTP: those come through the ports. Package statement below it reads the
// providers' settlement files.
package reconcile
