// Package wire is what every adapter needs of HTTP beyond net/http: addresses that are safe, calls that are sent once, answers that are
// bounded, and what was seen of a call on the wire.
//
// It knows no provider and imports nothing of paysaga. What an answer means is each adapter's to say.
package wire
