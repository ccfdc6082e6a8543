// Package chaos has tests only: what becomes of orders while everything around them breaks for real. Several processes of the real
// program work on one private PostgreSQL and one provider sandbox; shops place, capture, cancel and refund orders through the Go
// client; and a schedule of blows, drawn from a seed, kills and freezes servers, crashes the database, cuts and holds connections and
// takes providers away. When all is quiet again, what the shops asked for and were told is laid beside the sandbox's ledger and the
// database, order by order.
//
// docs/chaos.md says how to run it, and how to read a failure.
package chaos
