package postgres

import (
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// queuePaymentCheck makes sure that a payment which a person names is known as no other saga's, of whatever account: there is one account
// at the provider. Two decisions that name the same one wait for each other.
func queuePaymentCheck(batch *pgx.Batch, after *saga.Saga, decision saga.Decision) {
	charge := after.Newest(saga.StepCharge)
	if decision.Resolution != saga.ResolveTaken || charge == nil {
		return
	}
	batch.Queue(`SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))`, charge.Provider, decision.Payment)
	batch.Queue(`
		SELECT paysaga_require(NOT EXISTS (SELECT 1 FROM saga_steps t
			WHERE t.provider = $1 AND t.provider_reference = $2 AND t.name = 'charge'
				AND (t.account_id, t.saga_key) <> ($3, $4)), '`+rulePayment+`')`,
		charge.Provider, decision.Payment, after.AccountID, after.Key)
}

// queueDecision writes down what a person decided about a saga, and closes what was found about it before: a finding of the same change
// comes after.
func queueDecision(batch *pgx.Batch, after *saga.Saga, decision saga.Decision) {
	queuePaymentCheck(batch, after, decision)
	batch.Queue(`UPDATE findings SET resolved_at = now(), resolution = $3 WHERE account_id = $1 AND saga_key = $2 AND resolved_at IS NULL`,
		after.AccountID, after.Key, decision.Resolution)
	batch.Queue(`
		INSERT INTO audit_log (account_id, actor, action, subject, reason, outside_provider) VALUES ($1, $2, $3, $4, $5, $6)`,
		after.AccountID, decision.Actor, "saga."+string(decision.Resolution), after.Key.String(), decision.Reason, decision.OutsideProvider)
}
