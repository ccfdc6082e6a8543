// Package lifecycle has tests only: the whole life of a payment, from the order to the last refund, on a stage (internal/stage) where
// everything is as it is in production but the providers themselves. Each life is tried by name, schedules of happenings are drawn by
// chance, and webhooks that must change nothing are brought.
package lifecycle
