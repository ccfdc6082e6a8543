package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
	"paysaga/saga"
)

// keptColumns are the columns of a finding without its facts, in the order in which scanKept scans them.
const keptColumns = `
	id, account_id, COALESCE(saga_key, '` + noUUID + `'), COALESCE(order_id, '` + noUUID + `'), kind, severity, provider, reference,
	at_stake, currency, detail, repair, created_at, last_seen_at, ignored_until, source, ` + findingState + `,
	COALESCE(run_id, '` + noUUID + `'), repair_note, resolved_at, COALESCE(resolution, ''), resolved_by, reason`

// findingState is how a finding stands at this moment. What is ignored comes back by itself.
const findingState = `
	CASE WHEN resolved_at IS NOT NULL THEN 'resolved' WHEN ignored_until > now() THEN 'ignored' ELSE 'open' END`

func keptFields(k *reconcile.Kept, ignored, resolved **time.Time) []any {
	return []any{
		&k.ID, &k.AccountID, &k.SagaKey, &k.OrderID, &k.Kind, &k.Severity, &k.Provider, &k.Reference, &k.AtStake.Amount, &k.AtStake.Currency,
		&k.Detail, &k.Repair, &k.FirstSeen, &k.LastSeen, ignored, &k.FoundBy, &k.State, &k.Run, &k.Note, resolved, &k.Resolution,
		&k.ResolvedBy, &k.Reason,
	}
}

func scanKept(row pgx.CollectableRow) (reconcile.Kept, error) {
	var k reconcile.Kept
	var ignored, resolved *time.Time
	if err := row.Scan(keptFields(&k, &ignored, &resolved)...); err != nil {
		return reconcile.Kept{}, fmt.Errorf("scan finding: %w", err)
	}
	k.Ignored, k.ResolvedAt = value(ignored), value(resolved)
	return k, nil
}

// ReadFindings reads findings without their facts, newest first: the list is there for an operator also while a key is missing.
func (s *Store) ReadFindings(ctx context.Context, filter reconcile.FindingFilter) ([]reconcile.Kept, error) {
	var createdAt *time.Time
	var id *uuid.UUID
	if filter.Before != nil {
		createdAt, id = &filter.Before.CreatedAt, &filter.Before.ID
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+keptColumns+` FROM findings
		WHERE ($1 = '' OR account_id = $1) AND ($2 = '' OR kind = $2) AND ($3 = '' OR severity = $3) AND ($4 = '' OR provider = $4)
			AND ($5 = '' OR `+findingState+` = $5) AND ($6::timestamptz IS NULL OR (created_at, id) < ($6, $7::uuid))
		ORDER BY created_at DESC, id DESC LIMIT $8`,
		filter.AccountID, filter.Kind, filter.Severity, filter.Provider, filter.State, createdAt, id, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", mapError(err))
	}
	findings, err := pgx.CollectRows(rows, scanKept)
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", mapError(err))
	}
	return findings, nil
}

// ReadFinding reads one finding with its facts. An empty account is any. Errors: saga.ErrNotFound, for another account's finding as for
// none.
func (s *Store) ReadFinding(ctx context.Context, account string, id uuid.UUID) (reconcile.Kept, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT here, there, `+keptColumns+` FROM findings WHERE id = $1 AND ($2 = '' OR account_id = $2)`, id, account)
	if err != nil {
		return reconcile.Kept{}, fmt.Errorf("read finding: %w", mapError(err))
	}
	kept, err := pgx.CollectExactlyOneRow(rows, s.scanWithFacts)
	if errors.Is(err, pgx.ErrNoRows) {
		return reconcile.Kept{}, saga.ErrNotFound
	}
	if err != nil {
		return reconcile.Kept{}, fmt.Errorf("read finding: %w", mapError(err))
	}
	return kept, nil
}

func (s *Store) scanWithFacts(row pgx.CollectableRow) (reconcile.Kept, error) {
	var k reconcile.Kept
	var ignored, resolved *time.Time
	var here, there []byte
	if err := row.Scan(append([]any{&here, &there}, keptFields(&k, &ignored, &resolved)...)...); err != nil {
		return reconcile.Kept{}, fmt.Errorf("scan finding: %w", err)
	}
	k.Ignored, k.ResolvedAt = value(ignored), value(resolved)
	var err error
	if k.Here, err = s.openFacts(sideHere, &k.Finding, here); err != nil {
		return reconcile.Kept{}, err
	}
	k.There, err = s.openFacts(sideThere, &k.Finding, there)
	return k, err
}

// The sides of which facts are sealed.
const (
	sideHere  = "here"
	sideThere = "there"
)

func (s *Store) sealFacts(side string, of *reconcile.Finding, facts reconcile.Facts) ([]byte, error) {
	plain, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("encode facts: %w", err)
	}
	sealed, err := s.ring.Seal(plain, factsContext(side, of))
	if err != nil {
		return nil, fmt.Errorf("seal facts: %w", err)
	}
	return sealed, nil
}

func (s *Store) openFacts(side string, of *reconcile.Finding, sealed []byte) (facts reconcile.Facts, err error) {
	if sealed == nil {
		return facts, nil
	}
	plain, err := s.ring.Open(sealed, factsContext(side, of))
	if err != nil {
		return facts, fmt.Errorf("open facts: %w", err)
	}
	if err := json.Unmarshal(plain, &facts); err != nil {
		return facts, fmt.Errorf("read facts: %w", err)
	}
	return facts, nil
}

// factsContext binds sealed facts to their side and to what makes the finding the same one whenever it is found again.
func factsContext(side string, of *reconcile.Finding) []byte {
	identity := of.AccountID + "\x00" + of.SagaKey.String()
	if of.SagaKey == uuid.Nil {
		identity = of.Provider + "\x00" + of.Reference
	}
	return []byte("finding_" + side + "\x00" + string(of.Kind) + "\x00" + identity)
}

// ReadFindingFigures counts what is open, and tells up to when each provider was compared.
func (s *Store) ReadFindingFigures(ctx context.Context) (reconcile.Figures, error) {
	figures := reconcile.Figures{AtStake: map[string]int64{}, Compared: map[string]time.Time{}}
	const open = ` FROM findings WHERE resolved_at IS NULL AND (ignored_until IS NULL OR ignored_until <= now())`
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT kind, severity, count(*)` + open + `
		GROUP BY kind, severity ORDER BY kind, severity`).Query(func(rows pgx.Rows) (err error) {
		figures.Open, err = pgx.CollectRows(rows, pgx.RowToStructByPos[reconcile.OpenFigure])
		return err //nolint:wrapcheck // wrapped below
	})
	batch.Queue(`SELECT COALESCE(now() - min(created_at), '0')` + open).QueryRow(func(row pgx.Row) error { return row.Scan(&figures.Oldest) })
	batch.Queue(`SELECT currency, sum(at_stake)::bigint` + open + ` AND currency <> '' GROUP BY currency`).Query(intoCounts(figures.AtStake))
	batch.Queue(`
		SELECT provider, compared_until FROM provider_compared`).Query(func(rows pgx.Rows) error {
		var provider string
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&provider, &at}, func() error {
			figures.Compared[provider] = at
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return reconcile.Figures{}, fmt.Errorf("read the figures of findings: %w", err)
	}
	return figures, nil
}
