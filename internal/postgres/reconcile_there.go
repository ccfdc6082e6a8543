package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
)

// toldOfColumns and lineOfColumns are what is read of a transaction and of a settlement line, behind a place.
const (
	toldOfColumns = `
		provider, kind, reference, payment, sub_key, saga_key, status, amount, currency, refunded, fee, fee_currency, made_at, told_at`
	lineOfColumns = `
		provider, number, id, kind, payment, reference, sub_key, gross, fee, net, currency, original_amount, original_currency, payout, booked_at`
)

func toldFields(place any, t *reconcile.Told) []any {
	return []any{
		place, &t.Provider, &t.Kind, &t.Reference, &t.Payment, &t.Key, &t.SagaKey, &t.Status, &t.Money.Amount, &t.Money.Currency, &t.Refunded,
		&t.Fee, &t.FeeCurrency, &t.At, &t.ToldAt,
	}
}

func lineFields(place any, l *reconcile.Settlement) []any {
	return []any{
		place, &l.Provider, &l.Number, &l.ID, &l.Kind, &l.Payment, &l.Reference, &l.Key, &l.Gross, &l.Fee, &l.Net, &l.Currency,
		&l.Original.Amount, &l.Original.Currency, &l.Payout, &l.BookedAt,
	}
}

// theirTransactions are what bears the key of a saga of a pair, or is, or belongs to, something that its steps know; and with it what
// belongs to one of these: the refund of a capture that nobody here asked for.
const theirTransactions = `
	WITH own AS (SELECT o.place, o.own_key FROM unnest($1::int[], $2::uuid[]) AS o (place, own_key)),
	known AS (` + knownReferences + `),
	first AS (
		SELECT place, ` + toldOfColumns + ` FROM own JOIN provider_transactions ON named_saga = own_key
		UNION SELECT place, ` + toldOfColumns + ` FROM known
			JOIN provider_transactions ON provider = of_provider AND payment = of_reference AND payment <> ''
		UNION SELECT place, ` + toldOfColumns + ` FROM known
			JOIN provider_transactions ON provider = of_provider AND reference = of_reference
	), hop AS (
		(SELECT place, provider AS of_provider, reference AS of_reference FROM first
			UNION SELECT place, provider, payment FROM first WHERE payment <> '')
		EXCEPT SELECT place, of_provider, of_reference FROM known
	), everything AS (
		SELECT place, ` + toldOfColumns + ` FROM first
		UNION SELECT place, ` + toldOfColumns + ` FROM hop
			JOIN provider_transactions ON provider = of_provider AND payment = of_reference AND payment <> ''
		UNION SELECT place, ` + toldOfColumns + ` FROM hop
			JOIN provider_transactions ON provider = of_provider AND reference = of_reference)
	SELECT place, ` + toldOfColumns + ` FROM everything ORDER BY made_at, reference, kind`

// knownReferences are what the pairs of a batch know of the providers.
const knownReferences = `
	SELECT k.place, k.of_provider, k.of_reference FROM unnest($3::int[], $4::text[], $5::text[]) AS k (place, of_provider, of_reference)`

const theirLines = `
	WITH own AS (SELECT o.place, o.own_key FROM unnest($1::int[], $2::uuid[]) AS o (place, own_key)),
	known AS (` + knownReferences + `),
	everything AS (
		SELECT place, file_id, ` + lineOfColumns + ` FROM own JOIN settlement_lines ON named_saga = own_key
		UNION SELECT place, file_id, ` + lineOfColumns + ` FROM known
			JOIN settlement_lines ON provider = of_provider AND payment = of_reference AND payment <> ''
		UNION SELECT place, file_id, ` + lineOfColumns + ` FROM known
			JOIN settlement_lines ON provider = of_provider AND reference = of_reference AND reference <> '')
	SELECT place, ` + lineOfColumns + ` FROM everything WHERE ` + ofAReadFile + ` ORDER BY booked_at, id`

// ofAReadFile are the lines that count. Half a file tells half of it: a charge without what was taken off it again.
const ofAReadFile = `file_id IN (SELECT read.id FROM settlement_files read WHERE read.state = 'read')`

const theirEvents = `
	WITH own AS (SELECT o.place, o.key, o.account_id FROM unnest($1::int[], $2::uuid[], $6::text[]) AS o (place, key, account_id)),
	known AS (` + knownReferences + `),
	called AS (SELECT c.place, c.provider, c.sub_key FROM unnest($7::int[], $8::text[], $9::text[]) AS c (place, provider, sub_key)),
	everything AS (
		SELECT own.place, e.provider, e.event_id, e.status, e.received_at, e.brought_again FROM own
			JOIN webhook_events e ON e.account_id = own.account_id AND e.saga_key = own.key WHERE e.status IN ('waiting', 'parked')
		UNION SELECT known.place, e.provider, e.event_id, e.status, e.received_at, e.brought_again FROM known
			JOIN webhook_events e ON e.provider = known.of_provider AND e.payment_reference = known.of_reference
			WHERE e.status IN ('waiting', 'parked')
		UNION SELECT called.place, e.provider, e.event_id, e.status, e.received_at, e.brought_again FROM called
			JOIN webhook_events e ON e.provider = called.provider AND e.sub_key = called.sub_key WHERE e.status IN ('waiting', 'parked'))
	SELECT place, provider, event_id, status = 'parked', received_at, brought_again FROM everything ORDER BY received_at, event_id`

// readTheirs adds what the providers tell of a batch's payments.
func (s *Store) readTheirs(ctx context.Context, b *pairBatch, accounts []string) error {
	batch := batchByIndexes()
	batch.Queue(theirTransactions, b.sagaPlaces, b.sagas, b.refPlaces, b.providers, b.references).Query(func(rows pgx.Rows) error {
		var place int
		var told reconcile.Told
		_, err := pgx.ForEachRow(rows, toldFields(&place, &told), func() error {
			b.pairs[place].There = append(b.pairs[place].There, told)
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("read transactions: %w", err)
	}
	for place := range b.pairs {
		for _, told := range b.pairs[place].There {
			b.addReference(place, told.Provider, told.Reference)
			b.addReference(place, told.Provider, told.Payment)
		}
	}
	batch = batchByIndexes()
	b.queueLines(batch)
	b.queueNotices(batch, accounts)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("read settlement lines and events: %w", err)
	}
	return nil
}

func (b *pairBatch) queueLines(batch *pgx.Batch) {
	batch.Queue(theirLines, b.sagaPlaces, b.sagas, b.refPlaces, b.providers, b.references).Query(func(rows pgx.Rows) error {
		var place int
		var line reconcile.Settlement
		_, err := pgx.ForEachRow(rows, lineFields(&place, &line), func() error {
			line.BookedAt = line.BookedAt.UTC()
			b.pairs[place].Settled = append(b.pairs[place].Settled, line)
			return nil
		})
		return err //nolint:wrapcheck // wrapped by readTheirs
	})
}

func (b *pairBatch) queueNotices(batch *pgx.Batch, accounts []string) {
	accountsOf := make([]string, len(b.sagas))
	for i, place := range b.sagaPlaces {
		accountsOf[i] = accounts[place]
	}
	var places []int
	var ofProviders, keys []string
	for place, steps := range b.steps {
		for _, t := range steps {
			places, ofProviders, keys = append(places, place), append(ofProviders, t.Provider), append(keys, string(t.SubKey))
		}
	}
	arguments := []any{b.sagaPlaces, b.sagas, b.refPlaces, b.providers, b.references, accountsOf, places, ofProviders, keys}
	batch.Queue(theirEvents, arguments...).Query(func(rows pgx.Rows) error {
		var place int
		var event reconcile.Event
		fields := []any{&place, &event.Provider, &event.ID, &event.Parked, &event.ReceivedAt, &event.Again}
		_, err := pgx.ForEachRow(rows, fields, func() error {
			b.pairs[place].Events = append(b.pairs[place].Events, event)
			return nil
		})
		return err //nolint:wrapcheck // wrapped by readTheirs
	})
}

// claimed tells that a payment of ours is about a row of the providers' side.
func claimed(row string) string {
	return `(EXISTS (SELECT FROM ` + ofSaga + ` JOIN saga_steps s ON s.sub_key = ` + row + `.named_saga || first.step AND s.provider <> '')
		OR EXISTS (SELECT FROM saga_steps s WHERE s.sub_key = ` + row + `.sub_key AND s.provider <> '')
		OR EXISTS (SELECT FROM saga_steps s WHERE s.provider = ` + row + `.provider AND s.provider_reference = ` + row + `.payment
			AND s.provider_reference <> '')
		OR EXISTS (SELECT FROM saga_steps s WHERE s.provider = ` + row + `.provider AND s.provider_reference = ` + row + `.reference
			AND s.provider_reference <> ''))`
}

// aboutIt are the rows of the providers' side that are, or belong to, the thing u.
const aboutIt = `
	SELECT provider, payment, reference, named_saga, sub_key FROM provider_transactions t
		WHERE t.provider = u.provider AND t.payment = u.reference AND t.payment <> ''
	UNION ALL SELECT provider, payment, reference, named_saga, sub_key FROM provider_transactions t
		WHERE t.provider = u.provider AND t.reference = u.reference
	UNION ALL SELECT provider, payment, reference, named_saga, sub_key FROM settlement_lines l
		WHERE l.provider = u.provider AND l.payment = u.reference AND l.payment <> '' AND ` + ofAReadFile + `
	UNION ALL SELECT provider, payment, reference, named_saga, sub_key FROM settlement_lines l
		WHERE l.provider = u.provider AND l.reference = u.reference AND l.reference <> '' AND ` + ofAReadFile

// fillUnclaimed writes down what is left over at the providers, as fillScope does the payments. The conditions are one by one, so that each
// can be a join of whole tables: of what a run was told, most is claimed by the first.
func (s *Store) fillUnclaimed(ctx context.Context, run uuid.UUID, ofProviders []string, anew bool) error {
	isFilled, err := s.isFilled(ctx, `unclaimed_of`, run)
	if err != nil || isFilled && !anew {
		return err
	}
	batch := longBatch()
	batch.Queue(`TRUNCATE reconciliation_unclaimed`)
	batch.Queue(`
		WITH told AS (
			SELECT provider, payment, reference, named_saga, sub_key FROM provider_transactions WHERE run_id = $1
			UNION ALL SELECT provider, payment, reference, named_saga, sub_key FROM settlement_lines
				WHERE file_id = (SELECT statement_id FROM reconciliation_runs WHERE id = $1) AND kind IN ('charge', 'refund', 'chargeback'))
		INSERT INTO reconciliation_unclaimed (provider, reference, claimed)
		SELECT DISTINCT provider, COALESCE(NULLIF(payment, ''), reference), false FROM told
		WHERE (payment <> '' OR reference <> '')
			AND NOT EXISTS (SELECT FROM saga_steps s WHERE s.sub_key = told.named_saga || '_charge' AND s.provider <> '')
			AND NOT EXISTS (SELECT FROM saga_steps s WHERE s.sub_key = told.named_saga || '_refund' AND s.provider <> '')
			AND NOT EXISTS (SELECT FROM saga_steps s WHERE s.sub_key = told.sub_key AND s.provider <> '')
			AND NOT EXISTS (SELECT FROM saga_steps s
				WHERE s.provider = told.provider AND s.provider_reference = told.payment AND s.provider_reference <> '')
			AND NOT EXISTS (SELECT FROM saga_steps s
				WHERE s.provider = told.provider AND s.provider_reference = told.reference AND s.provider_reference <> '')
		ORDER BY 1, 2`, run)
	batch.Queue(`
		DELETE FROM reconciliation_unclaimed u WHERE EXISTS (SELECT FROM (` + aboutIt + `) AS f WHERE ` + claimed("f") + `)`)
	batch.Queue(`
		INSERT INTO reconciliation_unclaimed (provider, reference, claimed)
		SELECT DISTINCT u.provider, u.reference, EXISTS (SELECT FROM (`+aboutIt+`) AS f WHERE `+claimed("f")+`)
		FROM findings u -- also what is told no more: then it is gone
		WHERE u.kind = '`+string(reconcile.MissingLocally)+`' AND u.saga_key IS NULL AND u.resolved_at IS NULL
			AND u.source = 'reconciliation' AND u.provider = ANY ($1) AND u.reference NOT LIKE '%`+reconcile.ReferenceUntold+`'
		ON CONFLICT DO NOTHING`, ofProviders)
	if err := s.sendFill(ctx, batch, `unclaimed_of`, run); err != nil {
		return fmt.Errorf("find what is left over: %w", err)
	}
	return nil
}

// NextUnclaimed reads a batch of what is left over at the providers. Errors: reconcile.ErrLeaseLost.
func (s *Store) NextUnclaimed(
	ctx context.Context, scope reconcile.Scope, after reconcile.Provided, limit int,
) ([]reconcile.Unclaimed, error) {
	if err := s.fillUnclaimed(ctx, scope.Run, scope.Providers, after == reconcile.Provided{}); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT provider, reference, claimed, EXISTS (
			SELECT FROM findings f WHERE f.kind = '`+string(reconcile.MissingLocally)+`' AND f.provider = u.provider AND f.reference = u.reference
				AND f.saga_key IS NULL AND f.resolved_at IS NULL)
		FROM reconciliation_unclaimed u WHERE (provider, reference) > ($1, $2)
		ORDER BY provider, reference LIMIT $3`, after.Provider, after.Reference, limit)
	if err != nil {
		return nil, fmt.Errorf("read what is left over: %w", mapError(err))
	}
	var unclaimed []reconcile.Unclaimed
	var places []int
	var ofProviders, references []string
	var u reconcile.Unclaimed
	var isClaimed bool
	_, err = pgx.ForEachRow(rows, []any{&u.Provider, &u.Reference, &isClaimed, &u.Open}, func() error {
		if !isClaimed {
			places, ofProviders, references = append(places, len(unclaimed)), append(ofProviders, u.Provider), append(references, u.Reference)
		}
		unclaimed = append(unclaimed, u)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what is left over: %w", mapError(err))
	}
	return unclaimed, s.readUnclaimed(ctx, unclaimed, places, ofProviders, references)
}

// CountUnclaimed counts the open findings about what no order knows.
func (s *Store) CountUnclaimed(ctx context.Context, provider string) (open int64, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM findings WHERE kind = $1 AND provider = $2 AND saga_key IS NULL AND resolved_at IS NULL`,
		reconcile.MissingLocally, provider).Scan(&open)
	if err != nil {
		return 0, fmt.Errorf("count what no order knows: %w", mapError(err))
	}
	return open, nil
}

// readUnclaimed adds what is told of things that are left over.
func (s *Store) readUnclaimed(ctx context.Context, unclaimed []reconcile.Unclaimed, places []int, ofProviders, references []string) error {
	if len(places) == 0 {
		return nil
	}
	const of = ` FROM unnest($1::int[], $2::text[], $3::text[]) AS u (place, of_provider, of_reference) JOIN `
	batch := batchByIndexes()
	batch.Queue(`
		SELECT place, `+toldOfColumns+` FROM (
			SELECT place, `+toldOfColumns+of+`provider_transactions ON provider = of_provider AND payment = of_reference AND payment <> ''
			UNION SELECT place, `+toldOfColumns+of+`provider_transactions ON provider = of_provider AND reference = of_reference) AS told
		ORDER BY made_at, reference, kind`, places, ofProviders, references,
	).Query(func(rows pgx.Rows) error {
		var place int
		var told reconcile.Told
		_, err := pgx.ForEachRow(rows, toldFields(&place, &told), func() error {
			unclaimed[place].There = append(unclaimed[place].There, told)
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	})
	batch.Queue(`
		SELECT place, `+lineOfColumns+` FROM (
			SELECT place, file_id, `+lineOfColumns+of+`settlement_lines ON provider = of_provider AND payment = of_reference AND payment <> ''
			UNION SELECT place, file_id, `+lineOfColumns+of+`settlement_lines
				ON provider = of_provider AND reference = of_reference AND reference <> '') AS line
		WHERE `+ofAReadFile+` ORDER BY booked_at, id`, places, ofProviders, references,
	).Query(func(rows pgx.Rows) error {
		var place int
		var line reconcile.Settlement
		_, err := pgx.ForEachRow(rows, lineFields(&place, &line), func() error {
			line.BookedAt = line.BookedAt.UTC()
			unclaimed[place].Settled = append(unclaimed[place].Settled, line)
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("read what is told of it: %w", err)
	}
	return nil
}
