package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
)

// ofSaga are the sub-keys of which every saga with a payment has one: by their index, what bears a saga's key finds the saga without its
// account, which no provider knows.
const ofSaga = `(VALUES ('_charge'), ('_refund')) AS first (step)`

// touchedSagas are the sagas that a run is about. $1 is the run, $2 its providers, $3 and $4 its window, $5 since when a saga has not
// moved, $6 since when an event waits. A row may come more than once.
const touchedSagas = `
	WITH told AS (
		SELECT provider, payment, reference, named_saga, sub_key FROM provider_transactions WHERE run_id = $1
		UNION ALL SELECT provider, payment, reference, named_saga, sub_key FROM settlement_lines
			WHERE file_id = (SELECT statement_id FROM reconciliation_runs WHERE id = $1)
		UNION ALL SELECT provider, payment_reference, reference, ` + namedBySubKey + `, sub_key
			FROM webhook_events WHERE status IN ('waiting', 'parked') AND provider = ANY ($2) AND received_at < $6
	), touched AS (
		SELECT account_id, saga_key FROM saga_steps WHERE started_at >= $3 AND started_at < $4 AND provider = ANY ($2)
		UNION ALL SELECT t.account_id, t.saga_key FROM told CROSS JOIN ` + ofSaga + `
			JOIN saga_steps t ON t.sub_key = told.named_saga || first.step AND t.provider <> ''
		UNION ALL SELECT t.account_id, t.saga_key FROM told -- as a capture's, which bears the key of the request for it
			JOIN saga_steps t ON t.sub_key = told.sub_key AND t.provider <> ''
		UNION ALL SELECT t.account_id, t.saga_key FROM told
			JOIN saga_steps t ON t.provider = told.provider AND t.provider_reference = told.payment AND t.provider_reference <> ''
		UNION ALL SELECT t.account_id, t.saga_key FROM told
			JOIN saga_steps t ON t.provider = told.provider AND t.provider_reference = told.reference AND t.provider_reference <> ''
			WHERE told.reference <> told.payment
		UNION ALL SELECT account_id, saga_key FROM webhook_events
			WHERE saga_key IS NOT NULL AND status IN ('waiting', 'parked') AND provider = ANY ($2) AND received_at < $6
	), open AS ( -- of ours, whatever the providers tell
		SELECT account_id, key AS saga_key FROM sagas WHERE next_attempt_at IS NOT NULL AND updated_at < $5
		UNION ALL SELECT r.account_id, r.saga_key FROM reservations r JOIN sagas s ON s.account_id = r.account_id AND s.key = r.saga_key
			WHERE r.status = 'held' AND s.state IN ('completed', 'rolled_back')
		UNION ALL SELECT account_id, saga_key FROM findings WHERE resolved_at IS NULL AND saga_key IS NOT NULL
	), all_of_them AS (
		SELECT s.account_id, s.order_id FROM touched JOIN sagas s ON s.account_id = touched.account_id AND s.key = touched.saga_key
		UNION ALL
		SELECT s.account_id, s.order_id FROM open JOIN sagas s ON s.account_id = open.account_id AND s.key = open.saga_key
			JOIN orders o ON o.account_id = s.account_id AND o.id = s.order_id WHERE o.payment_provider = ANY ($2))`

// fillScope writes down which payments a run looks at, when it begins to, unless this was done before. Whoever works on the run after it
// was left goes on in the same list.
func (s *Store) fillScope(ctx context.Context, scope reconcile.Scope, anew bool) error {
	isFilled, err := s.isFilled(ctx, `scope_of`, scope.Run)
	if err != nil || isFilled && !anew {
		return err
	}
	batch := longBatch()
	batch.Queue(`TRUNCATE reconciliation_scope`)
	batch.Queue(touchedSagas+` -- in order: so the list lies as it is read
		INSERT INTO reconciliation_scope (account_id, order_id) SELECT DISTINCT account_id, order_id FROM all_of_them ORDER BY 1, 2`,
		scope.Run, scope.Providers, scope.Since, scope.Until, scope.StuckSince, scope.EventSince)
	if err := s.sendFill(ctx, batch, `scope_of`, scope.Run); err != nil {
		return fmt.Errorf("find the payments to compare: %w", err)
	}
	return nil
}

// isFilled tells whether a list is this run's. Errors: reconcile.ErrLeaseLost.
func (s *Store) isFilled(ctx context.Context, column string, run uuid.UUID) (isFilled bool, err error) {
	var isHolder bool
	err = s.pool.QueryRow(ctx, `
		SELECT COALESCE(run_id = $1, false), COALESCE(`+column+` = $1, false) FROM reconciliation_lease`, run).Scan(&isHolder, &isFilled)
	switch {
	case err != nil:
		return false, fmt.Errorf("ask for the lease: %w", mapError(err))
	case !isHolder:
		return false, reconcile.ErrLeaseLost
	}
	return isFilled, nil
}

// sendFill fills a list by fresh statistics: what was loaded since the last ones would else pass for next to nothing. The lease is looked
// at last, so that it can be prolonged meanwhile.
func (s *Store) sendFill(ctx context.Context, batch *pgx.Batch, column string, run uuid.UUID) error {
	analyze := longBatch()
	analyze.Queue(`ANALYZE provider_transactions, settlement_lines, saga_steps`)
	if err := s.send(ctx, analyze); err != nil {
		return err
	}
	batch.Queue(`
		WITH held AS (UPDATE reconciliation_lease SET `+column+` = $1 WHERE run_id = $1 RETURNING 1)
		SELECT paysaga_require(count(*) = 1, '`+ruleRun+`') FROM held`, run)
	return s.send(ctx, batch)
}
