package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// ListReviews reads the sagas of an account that have no end yet, the longest unmoved first, without their steps and lines and without
// what is sealed: the list is there for an operator also while a key is missing. One that moves meanwhile is met again further behind.
func (s *Store) ListReviews(ctx context.Context, account string, filter saga.ReviewFilter) ([]saga.Review, error) {
	var updatedAt *time.Time
	var key *uuid.UUID
	if filter.After != nil {
		updatedAt, key = &filter.After.UpdatedAt, &filter.After.Key
	}
	rows, err := s.pool.Query(ctx, `
		WITH open AS ( -- by the indexes of what is due and of what is found: those that have ended are the many
			SELECT key FROM sagas WHERE account_id = $1 AND next_attempt_at IS NOT NULL
			UNION SELECT saga_key FROM findings WHERE account_id = $1 AND resolved_at IS NULL)
		SELECT s.account_id, s.key, s.kind, s.state, s.failures, s.drives, s.deadline_at, s.next_attempt_at, s.lock_version, s.locked_until,
			s.created_at, s.updated_at, now(), o.id, o.status, o.currency, o.amount, o.payment_provider,
			f.amount, f.reason, f.status, f.created_at, f.updated_at
		FROM open JOIN sagas s ON s.account_id = $1 AND s.key = open.key
		JOIN orders o ON o.account_id = s.account_id AND o.id = s.order_id
		LEFT JOIN refunds f ON f.account_id = s.account_id AND f.id = s.key
		WHERE s.state NOT IN ('completed', 'rolled_back') AND ($2 = '' OR s.state = $2) AND ($3 = '' OR s.kind = $3)
			AND ($4 = '' OR o.payment_provider = $4)
			AND ($5 = '' OR EXISTS (SELECT FROM findings w WHERE w.account_id = s.account_id AND w.saga_key = s.key AND w.kind = $5
				AND w.resolved_at IS NULL))
			AND ($6::timestamptz IS NULL OR (s.updated_at, s.key) > ($6, $7::uuid))
		ORDER BY s.updated_at, s.key LIMIT $8`,
		account, filter.State, filter.Kind, filter.Provider, filter.Finding, updatedAt, key, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list sagas: %w", mapError(err))
	}
	reviews, err := pgx.CollectRows(rows, scanOverview)
	if err != nil {
		return nil, fmt.Errorf("list sagas: %w", mapError(err))
	}
	return reviews, s.fillOpenFindings(ctx, account, reviews)
}

func scanOverview(row pgx.CollectableRow) (saga.Review, error) {
	var g saga.Saga
	var deadline, next *time.Time
	var refund refundRow
	o := &g.Order
	err := row.Scan(
		&g.AccountID, &g.Key, &g.Kind, &g.State, &g.Failures, &g.Drives, &deadline, &next, &g.Lease.Fence, &g.Lease.Until,
		&g.CreatedAt, &g.UpdatedAt, &g.ReadAt, &o.ID, &o.Status, &o.Currency, &o.Amount, &o.Payment.Provider,
		&refund.amount, &refund.reason, &refund.status, &refund.createdAt, &refund.updatedAt,
	)
	if err != nil {
		return saga.Review{}, fmt.Errorf("scan saga: %w", err)
	}
	g.DeadlineAt, g.NextAt, g.Refund = value(deadline), value(next), refund.of(&g)
	return saga.Review{Saga: g}, nil
}

// fillOpenFindings adds what is open to a page of sagas.
func (s *Store) fillOpenFindings(ctx context.Context, account string, reviews []saga.Review) error {
	if len(reviews) == 0 {
		return nil
	}
	keys, place := make([]uuid.UUID, len(reviews)), make(map[uuid.UUID]*saga.Review, len(reviews))
	for i := range reviews {
		keys[i], place[reviews[i].Saga.Key] = reviews[i].Saga.Key, &reviews[i]
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+findingColumns+` FROM findings
		WHERE account_id = $1 AND saga_key = ANY ($2) AND resolved_at IS NULL ORDER BY created_at, id`, account, keys)
	if err != nil {
		return fmt.Errorf("read findings: %w", mapError(err))
	}
	found, err := pgx.CollectRows(rows, scanFinding)
	if err != nil {
		return fmt.Errorf("read findings: %w", mapError(err))
	}
	for _, finding := range found {
		review := place[finding.SagaKey]
		review.Findings = append(review.Findings, finding)
	}
	return nil
}

// GetReview reads one saga with all that was found and decided about it: the newest thousand of each. Errors: saga.ErrNotFound, for
// another account's saga as for none.
func (s *Store) GetReview(ctx context.Context, account string, key uuid.UUID) (saga.Review, error) {
	g, err := s.Load(ctx, saga.Ref{AccountID: account, Key: key})
	if err != nil {
		return saga.Review{}, err
	}
	review := saga.Review{Saga: g}
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT `+findingColumns+` FROM findings
			WHERE id IN (SELECT id FROM findings WHERE account_id = $1 AND saga_key = $2 ORDER BY created_at DESC, id DESC LIMIT $3)
			ORDER BY created_at, id`,
		account, key, maxOfReview,
	).Query(func(rows pgx.Rows) error {
		review.Findings, err = pgx.CollectRows(rows, scanFinding)
		return err //nolint:wrapcheck // wrapped below
	})
	batch.Queue(`
		SELECT `+auditColumns+` FROM (SELECT `+auditColumns+` FROM audit_log
			WHERE account_id = $1 AND subject = $2 ORDER BY id DESC LIMIT $3) AS newest ORDER BY id`,
		account, key.String(), maxOfReview,
	).Query(func(rows pgx.Rows) error {
		review.Audit, err = pgx.CollectRows(rows, pgx.RowToStructByPos[saga.AuditEntry])
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return saga.Review{}, fmt.Errorf("read what was found and decided: %w", err)
	}
	return review, nil
}

// maxOfReview bounds what is read about one saga. Nobody decides about the same one a thousand times.
const maxOfReview = 1000

const (
	findingColumns = `id, kind, detail, created_at, COALESCE(saga_key, '` + noUUID + `'), COALESCE(order_id, '` + noUUID + `'), resolved_at,
		resolution`
	auditColumns = `id, actor, action, subject, reason, outside_provider, created_at`
)

func scanFinding(row pgx.CollectableRow) (saga.FindingRecord, error) {
	var f saga.FindingRecord
	var resolvedAt *time.Time
	var resolution *string
	err := row.Scan(&f.ID, &f.Kind, &f.Detail, &f.CreatedAt, &f.SagaKey, &f.OrderID, &resolvedAt, &resolution)
	if err != nil {
		return saga.FindingRecord{}, fmt.Errorf("scan finding: %w", err)
	}
	f.ResolvedAt, f.Resolution = value(resolvedAt), value(resolution)
	return f, nil
}

// ListAudit reads an account's audit log, newest first.
func (s *Store) ListAudit(ctx context.Context, account string, filter saga.AuditFilter) ([]saga.AuditEntry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+auditColumns+` FROM audit_log
		WHERE account_id = $1 AND ($2 = '' OR subject = $2) AND ($3::bigint = 0 OR id < $3) ORDER BY id DESC LIMIT $4`,
		account, filter.Subject, filter.Before, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", mapError(err))
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[saga.AuditEntry])
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", mapError(err))
	}
	return entries, nil
}
