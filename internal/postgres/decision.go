package postgres

import (
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// queueDecision writes down what a person decided about a saga, and closes what was found about it before: a finding of the same change
// comes after.
func queueDecision(batch *pgx.Batch, after *saga.Saga, decision saga.Decision) {
	batch.Queue(`UPDATE findings SET resolved_at = now(), resolution = $3 WHERE account_id = $1 AND saga_key = $2 AND resolved_at IS NULL`,
		after.AccountID, after.Key, decision.Reason)
	batch.Queue(`
		INSERT INTO audit_log (account_id, actor, action, subject, reason, outside_provider) VALUES ($1, $2, $3, $4, $5, $6)`,
		after.AccountID, decision.Actor, "saga."+string(decision.Resolution), after.Key.String(), decision.Reason, decision.OutsideProvider)
}
