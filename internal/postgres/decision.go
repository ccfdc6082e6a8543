package postgres

import (
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// queuePaymentCheck makes sure that a payment is known as no other order's, of whatever account, as there is one account at the provider;
// that nobody gives it back as one that is beside its order's own; and, where asked for, that it is not this order's own. Two that name the
// same one wait for each other.
func queuePaymentCheck(batch *pgx.Batch, after *saga.Saga, provider, payment string, notOwn bool) {
	batch.Queue(`SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))`, provider, payment)
	batch.Queue(`
		SELECT paysaga_require(NOT EXISTS (SELECT 1 FROM saga_steps t
			WHERE t.provider = $1 AND t.provider_reference = $2 AND t.name = 'charge'
				AND ((t.account_id, t.saga_key) <> ($3, $4) OR $6 AND t.status = 'done'))
			AND NOT EXISTS (SELECT 1 FROM refunds f WHERE f.account_id = $3 AND f.order_id = $4 AND f.id <> $5
				AND f.payment_provider = $1 AND f.payment_reference = $2 AND f.status <> 'failed'), '`+rulePayment+`')`,
		provider, payment, after.AccountID, after.Order.ID, after.Key, notOwn)
}

// queueDecision writes down what a person decided about a saga, and closes what was found about it before: a finding of the same change
// comes after.
func queueDecision(batch *pgx.Batch, after *saga.Saga, decision saga.Decision) {
	if charge := after.Newest(saga.StepCharge); charge != nil && decision.Resolution == saga.ResolveTaken {
		queuePaymentCheck(batch, after, charge.Provider, decision.Payment, false)
	}
	// A repair ends what the saga waits for; what reconciliation found beside it ends when that is mended, or is not found again.
	batch.Queue(`
		UPDATE findings SET resolved_at = now(), resolution = $3
		WHERE account_id = $1 AND saga_key = $2 AND resolved_at IS NULL AND (source = 'saga' OR $4)`,
		after.AccountID, after.Key, decision.Resolution, decision.Actor != saga.Repairer)
	queueSagaAudit(batch, after, saga.AuditEntry{
		Actor: decision.Actor, Action: "saga." + string(decision.Resolution), Reason: decision.Reason, OutsideProvider: decision.OutsideProvider,
	})
}

// queueSagaAudit writes down what somebody did about a saga.
func queueSagaAudit(batch *pgx.Batch, after *saga.Saga, entry saga.AuditEntry) {
	batch.Queue(`
		INSERT INTO audit_log (account_id, actor, action, subject, reason, outside_provider) VALUES ($1, $2, $3, $4, $5, $6)`,
		after.AccountID, entry.Actor, entry.Action, after.Key.String(), entry.Reason, entry.OutsideProvider)
}
