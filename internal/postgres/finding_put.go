package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
	"paysaga/saga"
)

// identity is what makes a finding the same one when it is found again.
type identity struct {
	kind                reconcile.Kind
	account             string
	saga                uuid.UUID
	provider, reference string // of one that no saga is about
}

func identityOf(f *reconcile.Finding) identity {
	if f.SagaKey != uuid.Nil {
		return identity{kind: f.Kind, account: f.AccountID, saga: f.SagaKey}
	}
	return identity{kind: f.Kind, provider: f.Provider, reference: f.Reference}
}

// PutFindings writes what a batch came to, in one transaction. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutFindings(ctx context.Context, run reconcile.Run, judged reconcile.Judged) (reconcile.Counts, error) {
	var counts reconcile.Counts
	found, err := s.withoutResolved(ctx, inOrder(judged.Found))
	if err != nil {
		return counts, err
	}
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	queueHeal(batch, run, judged, found, &counts)
	if err := s.queueFindings(batch, run, found, &counts); err != nil {
		return counts, err
	}
	if err := s.send(ctx, batch); err != nil {
		return reconcile.Counts{}, fmt.Errorf("keep findings: %w", err)
	}
	return counts, nil
}

// inOrder brings findings into one order for everybody who writes some, each once: the more severe of two that are the same.
func inOrder(found []reconcile.Finding) []reconcile.Finding {
	ordered := slices.Clone(found)
	for i := range ordered {
		if f := &ordered[i]; f.SagaKey == uuid.Nil {
			f.SagaKey = f.OrderID // an order's saga has its key
		}
	}
	rank := []reconcile.Severity{reconcile.Critical, reconcile.High, reconcile.Low}
	slices.SortStableFunc(ordered, func(a, b reconcile.Finding) int {
		x, y := identityOf(&a), identityOf(&b)
		return cmp.Or(
			cmp.Compare(x.account, y.account), cmp.Compare(x.saga.String(), y.saga.String()), cmp.Compare(x.provider, y.provider),
			cmp.Compare(x.reference, y.reference), cmp.Compare(x.kind, y.kind),
			cmp.Compare(slices.Index(rank, a.Severity), slices.Index(rank, b.Severity)),
		)
	})
	return slices.CompactFunc(ordered, func(a, b reconcile.Finding) bool { return identityOf(&a) == identityOf(&b) })
}

// lastResolved are the newest resolved findings of the identities of a batch. Each identity is looked up by an index of its own: findings
// are kept for good.
const lastResolved = `
	WITH n AS (SELECT n_kind, n_account, n_saga, n_provider, n_reference
		FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::text[]) AS n (n_kind, n_account, n_saga, n_provider, n_reference)
	), last AS (
		SELECT (SELECT f.id FROM findings f
			WHERE f.resolved_at IS NOT NULL AND f.account_id = n_account AND f.saga_key = n_saga AND f.kind = n_kind
			ORDER BY f.resolved_at DESC LIMIT 1) AS last_id FROM n WHERE n_saga IS NOT NULL
		UNION ALL SELECT (SELECT f.id FROM findings f
			WHERE f.resolved_at IS NOT NULL AND f.saga_key IS NULL AND f.provider = n_provider AND f.reference = n_reference AND f.kind = n_kind
			ORDER BY f.resolved_at DESC LIMIT 1) FROM n WHERE n_saga IS NULL)
	SELECT here, there, ` + keptColumns + ` FROM last JOIN findings ON id = last_id`

// withoutResolved leaves out what a person ended although it was there, as long as nothing about it has changed since.
func (s *Store) withoutResolved(ctx context.Context, found []reconcile.Finding) ([]reconcile.Finding, error) {
	if len(found) == 0 {
		return nil, nil
	}
	c := identityColumns(found)
	var ended []reconcile.Kept
	batch := batchByIndexes()
	batch.Queue(lastResolved, c.kinds, c.accounts, c.sagas, c.providers, c.references).Query(func(rows pgx.Rows) (err error) {
		ended, err = pgx.CollectRows(rows, s.scanWithFacts)
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return nil, fmt.Errorf("read resolved findings: %w", err)
	}
	accepted := make(map[identity]reconcile.Kept, len(ended))
	for _, kept := range ended {
		if byPerson(kept.Resolution) {
			accepted[identityOf(&kept.Finding)] = kept
		}
	}
	return slices.DeleteFunc(found, func(f reconcile.Finding) bool {
		kept, ok := accepted[identityOf(&f)]
		return ok && kept.AtStake == f.AtStake && sameHere(kept.Here, f.Here) && sameThere(kept.There, f.There)
	}), nil
}

// byPerson tells that a person ended a finding: by a word about it, or by a decision about its saga that leaves things as they are.
func byPerson(resolution string) bool {
	return !slices.Contains([]string{reconcile.ResolutionHealed, reconcile.ResolutionRepaired, string(saga.ResolveRetry)}, resolution)
}

// sameHere tells that our money is as it was. When it was so, and in which state, a decision itself changes.
func sameHere(a, b reconcile.Facts) bool {
	return a.Amount == b.Amount && a.Currency == b.Currency && a.Captured == b.Captured && a.Refunded == b.Refunded
}

// sameThere tells that the provider's money is what it was. A list and a settlement file tell of the same thing in other words, and by
// other ids.
func sameThere(a, b reconcile.Facts) bool {
	if a.Source != b.Source {
		return a.Currency == b.Currency
	}
	sameLists := slices.Equal(a.References, b.References) && slices.Equal(a.Keys, b.Keys)
	return sameLists && a.Status == b.Status && a.Amount == b.Amount && a.Currency == b.Currency && a.Captured == b.Captured &&
		a.Refunded == b.Refunded && a.Fee == b.Fee && a.Net == b.Net
}

// identities gather what identifies findings column by column.
type identities struct {
	kinds, accounts, providers, references []string
	sagas                                  []*uuid.UUID
}

func identityColumns(found []reconcile.Finding) (c identities) {
	for i := range found {
		f := &found[i]
		c.kinds, c.accounts = append(c.kinds, string(f.Kind)), append(c.accounts, f.AccountID)
		c.sagas = append(c.sagas, nullUUID(f.SagaKey))
		c.providers, c.references = append(c.providers, f.Provider), append(c.references, f.Reference)
	}
	return c
}

func nullUUID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// queueHeal ends the open findings of reconciliation of what was judged, except those that were found again. Of a saga that waits for a
// person, everything stays for that person to see.
func queueHeal(batch *pgx.Batch, run reconcile.Run, judged reconcile.Judged, found []reconcile.Finding, counts *reconcile.Counts) {
	accounts, sagas := make([]string, 0, len(judged.Sagas)), make([]uuid.UUID, 0, len(judged.Sagas))
	kinds := make([]string, 0, len(judged.Sagas))
	providers, references := make([]string, 0, len(judged.Unclaimed)), make([]string, 0, len(judged.Unclaimed))
	for _, s := range judged.Sagas {
		accounts, sagas, kinds = append(accounts, s.AccountID), append(sagas, s.SagaKey), append(kinds, listOf(s.Kinds))
	}
	for _, thing := range judged.Unclaimed {
		providers, references = append(providers, thing.Provider), append(references, thing.Reference)
	}
	c := identityColumns(found)
	batch.Queue(`
		WITH looked AS (
			SELECT f.id FROM unnest($2::text[], $3::uuid[], $4::text[]) AS j (account_id, saga_key, kinds)
			JOIN findings f ON f.account_id = j.account_id AND f.saga_key = j.saga_key
			WHERE f.resolved_at IS NULL AND f.source = 'reconciliation' AND f.kind = ANY (string_to_array(j.kinds, ',')) AND NOT EXISTS (
				SELECT FROM sagas s WHERE s.account_id = f.account_id AND s.key = f.saga_key AND s.state = 'needs_review')
			UNION ALL
			SELECT f.id FROM unnest($5::text[], $6::text[]) AS t (provider, reference)
			JOIN findings f ON f.provider = t.provider AND f.reference = t.reference AND f.saga_key IS NULL
			WHERE f.resolved_at IS NULL AND f.source = 'reconciliation'
		), again AS (
			SELECT n.kind, n.account_id, n.saga_key, n.provider, n.reference
			FROM unnest($7::text[], $8::text[], $9::uuid[], $10::text[], $11::text[]) AS n (kind, account_id, saga_key, provider, reference)
		), healed AS (
			UPDATE findings f SET resolved_at = now(), resolution = '`+reconcile.ResolutionHealed+`', run_id = $1
			FROM looked WHERE f.id = looked.id AND f.resolved_at IS NULL AND NOT EXISTS (SELECT FROM again n WHERE n.kind = f.kind AND
				CASE WHEN f.saga_key IS NULL THEN n.saga_key IS NULL AND n.provider = f.provider AND n.reference = f.reference
					ELSE n.saga_key = f.saga_key AND n.account_id = f.account_id END)
			RETURNING 1)
		SELECT count(*) FROM healed`,
		run.ID, accounts, sagas, kinds, providers, references, c.kinds, c.accounts, c.sagas, c.providers, c.references,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&counts.Healed) })
}

// listOf are kinds in one text, as the row of each saga takes them.
func listOf(kinds []reconcile.Kind) string {
	var list strings.Builder
	for i, kind := range kinds {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(string(kind))
	}
	return list.String()
}

// foundAgain is what a finding that is open keeps, and what it takes over: a saga's own words say why it waits.
const foundAgain = `DO UPDATE
	SET account_id = EXCLUDED.account_id, severity = EXCLUDED.severity, provider = EXCLUDED.provider, reference = EXCLUDED.reference,
		at_stake = EXCLUDED.at_stake, currency = EXCLUDED.currency, here = EXCLUDED.here, there = EXCLUDED.there, repair = EXCLUDED.repair,
		detail = CASE f.source WHEN 'saga' THEN f.detail ELSE EXCLUDED.detail END, last_seen_at = now(), run_id = EXCLUDED.run_id
	RETURNING xmax = 0`

// queueFindings writes findings that are new, and those that are open already.
func (s *Store) queueFindings(batch *pgx.Batch, run reconcile.Run, found []reconcile.Finding, counts *reconcile.Counts) error {
	ofSagas := slices.DeleteFunc(slices.Clone(found), func(f reconcile.Finding) bool { return f.SagaKey == uuid.Nil })
	ofNobody := slices.DeleteFunc(slices.Clone(found), func(f reconcile.Finding) bool { return f.SagaKey != uuid.Nil })
	for _, part := range []struct {
		found  []reconcile.Finding
		target string
	}{
		{ofSagas, `(account_id, saga_key, kind) WHERE resolved_at IS NULL`},
		{ofNobody, `(kind, provider, reference) WHERE saga_key IS NULL AND resolved_at IS NULL`},
	} {
		if len(part.found) == 0 {
			continue
		}
		columns, err := s.findingColumns(part.found)
		if err != nil {
			return err
		}
		batch.Queue(`
			INSERT INTO findings AS f (source, run_id, account_id, saga_key, order_id, kind, severity, provider, reference, at_stake, currency,
				detail, here, there, repair)
			SELECT 'reconciliation', $1, n.* FROM unnest($2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
				$9::bigint[], $10::text[], $11::text[], $12::bytea[], $13::bytea[], $14::text[]) AS n
			ON CONFLICT `+part.target+` `+foundAgain, append([]any{run.ID}, columns...)...,
		).Query(countFound(counts))
	}
	return nil
}

func countFound(counts *reconcile.Counts) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var isNew bool
		_, err := pgx.ForEachRow(rows, []any{&isNew}, func() error {
			if isNew {
				counts.Opened++
			} else {
				counts.SeenAgain++
			}
			return nil
		})
		return err //nolint:wrapcheck // wrapped by PutFindings
	}
}

// findingColumns gives findings column by column, as queueFindings writes them.
func (s *Store) findingColumns(found []reconcile.Finding) ([]any, error) {
	c := identityColumns(found)
	var orders []*uuid.UUID
	var severities, currencies, details, repairs []string
	var stakes []int64
	var here, there [][]byte
	for i := range found {
		f := &found[i]
		sealedHere, err := s.sealFacts(sideHere, f, f.Here)
		if err != nil {
			return nil, err
		}
		sealedThere, err := s.sealFacts(sideThere, f, f.There)
		if err != nil {
			return nil, err
		}
		here, there = append(here, sealedHere), append(there, sealedThere)
		orders = append(orders, nullUUID(f.OrderID))
		severities, details = append(severities, string(f.Severity)), append(details, f.Detail)
		stakes, currencies = append(stakes, max(f.AtStake.Amount, -f.AtStake.Amount)), append(currencies, f.AtStake.Currency)
		repairs = append(repairs, string(f.Repair))
	}
	return []any{
		c.accounts, c.sagas, orders, c.kinds, severities, c.providers, c.references, stakes, currencies, details, here, there, repairs,
	}, nil
}

// NextRepairs reads open findings that a run came upon.
func (s *Store) NextRepairs(ctx context.Context, run reconcile.Run, after uuid.UUID, limit int) ([]reconcile.Open, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT here, there, `+keptColumns+` FROM findings f
		WHERE run_id = $1 AND resolved_at IS NULL AND (ignored_until IS NULL OR ignored_until <= now()) AND id > $2
			AND NOT (repair = '`+string(reconcile.RepairReview)+`' AND EXISTS (
				SELECT FROM sagas s WHERE s.account_id = f.account_id AND s.key = f.saga_key AND s.state = 'needs_review'))
		ORDER BY id LIMIT $3`, run.ID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read findings to mend: %w", mapError(err))
	}
	kept, err := pgx.CollectRows(rows, s.scanWithFacts)
	if err != nil {
		return nil, fmt.Errorf("read findings to mend: %w", mapError(err))
	}
	open := make([]reconcile.Open, len(kept))
	for i := range kept {
		open[i] = kept[i].Open
	}
	return open, nil
}

// PutRepair notes what came of a repair. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutRepair(ctx context.Context, run reconcile.Run, finding uuid.UUID, mended bool, note string) error {
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		UPDATE findings f SET tried_by = $2, repair_note = $3 WHERE id = $1 AND resolved_at IS NULL`, finding, run.ID, clip(note))
	if mended {
		batch.Queue(`
			UPDATE findings f SET resolved_at = now(), resolution = '`+reconcile.ResolutionRepaired+`', resolved_by = 'reconciliation'
			WHERE id = $1 AND resolved_at IS NULL AND source = 'reconciliation' AND NOT EXISTS (
				SELECT FROM sagas s WHERE s.account_id = f.account_id AND s.key = f.saga_key AND s.state = 'needs_review')`, finding)
	}
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("note a repair: %w", err)
	}
	return nil
}
