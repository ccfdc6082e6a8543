package postgres

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// keptStatement are the columns of a settlement file, in the order in which scanStatement scans them.
const keptStatement = `
	id, name, zone, state = 'read', read_to, ARRAY(
		SELECT DISTINCT r.mode FROM reconciliation_runs r WHERE r.statement_id = f.id AND r.state = 'done' AND r.finished_at >= f.read_at),
	provider, format, lines, malformed, faults, totals, controls, booked_from, booked_until`

func scanStatement(row pgx.Row) (reconcile.KeptStatement, error) {
	var k reconcile.KeptStatement
	var faults []keptFault
	var totals map[string]keptTotal
	var controls []keptControl
	var from, until *time.Time
	r := &k.Report
	err := row.Scan(&k.ID, &k.Name, &k.Zone, &k.IsRead, &k.ReadTo, &k.Reconciled, &r.Provider, &r.Format, &r.Lines, &r.Malformed, &faults,
		&totals, &controls, &from, &until)
	if err != nil {
		return reconcile.KeptStatement{}, err //nolint:wrapcheck // wrapped by the caller
	}
	for _, fault := range faults {
		r.Faults = append(r.Faults, statement.Fault(fault))
	}
	for _, control := range controls {
		r.Controls = append(r.Controls, statement.Control(control))
	}
	r.Totals = make(map[string]statement.Total, len(totals))
	for currency, total := range totals {
		r.Totals[currency] = statement.Total(total)
	}
	r.From, r.Until = value(from).UTC(), value(until).UTC()
	return k, nil
}

// OpenStatement notes a settlement file, or finds it by its digest, under whatever name it comes.
func (s *Store) OpenStatement(ctx context.Context, provider, name string, digest [32]byte) (reconcile.KeptStatement, error) {
	kept, err := scanStatement(s.pool.QueryRow(ctx, `
		INSERT INTO settlement_files AS f (provider, name, digest) VALUES ($1, $2, $3)
		ON CONFLICT (provider, digest) DO UPDATE SET name = f.name RETURNING `+keptStatement, provider, nameOfFile(name), digest[:]))
	if err != nil {
		return reconcile.KeptStatement{}, fmt.Errorf("open statement: %w", mapError(err))
	}
	return kept, nil
}

// ReadStatement reads how a settlement file is kept. Errors: saga.ErrNotFound.
func (s *Store) ReadStatement(ctx context.Context, id int64) (reconcile.KeptStatement, error) {
	kept, err := scanStatement(s.pool.QueryRow(ctx, `SELECT `+keptStatement+` FROM settlement_files f WHERE id = $1`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return reconcile.KeptStatement{}, saga.ErrNotFound
	}
	if err != nil {
		return reconcile.KeptStatement{}, fmt.Errorf("read statement: %w", mapError(err))
	}
	return kept, nil
}

// RestartStatement has the run's settlement file read from its beginning. Errors: reconcile.ErrLeaseLost.
func (s *Store) RestartStatement(ctx context.Context, run reconcile.Run, zone string) error {
	batch := longBatch()
	queueRunFence(batch, run)
	batch.Queue(`
		UPDATE settlement_files SET state = 'reading', read_at = NULL, read_to = 0, zone = $2, malformed = 0, faults = '[]' WHERE id = $1`,
		run.StatementID, zone)
	batch.Queue(`DELETE FROM settlement_lines WHERE file_id = $1`, run.StatementID)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("restart statement: %w", err)
	}
	return nil
}

// maxFileName is how much is kept of a file's name, in characters: its end.
const maxFileName = 255

func nameOfFile(name string) string {
	letters := []rune(strings.ToValidUTF8(strings.ReplaceAll(filepath.Base(name), "\x00", ""), "�"))
	return string(letters[max(0, len(letters)-maxFileName):])
}

// lineColumns gather lines column by column.
type lineColumns struct {
	ids, kinds, payments, references, keys, currencies, originals, payouts []string
	named                                                                  []*uuid.UUID
	numbers                                                                []int
	gross, fees, net, originalAmounts                                      []int64
	booked                                                                 []time.Time
}

func (c *lineColumns) add(line statement.Line) {
	c.ids, c.kinds, c.payments = append(c.ids, line.ID), append(c.kinds, string(line.Kind)), append(c.payments, line.Payment)
	c.references, c.keys = append(c.references, line.Reference), append(c.keys, string(line.Key))
	c.named, c.numbers = append(c.named, namedByLine(line)), append(c.numbers, line.Number)
	c.gross, c.fees, c.net = append(c.gross, line.Gross), append(c.fees, line.Fee), append(c.net, line.Net)
	c.currencies, c.payouts = append(c.currencies, line.Currency), append(c.payouts, line.Payout)
	c.originals, c.originalAmounts = append(c.originals, line.Original.Currency), append(c.originalAmounts, line.Original.Amount)
	c.booked = append(c.booked, line.BookedAt)
}

// namedByLine is the saga that a line is about. A capture bears the key of the request for it, which the order's saga alone knows.
func namedByLine(line statement.Line) *uuid.UUID {
	if order := namedSaga("", line.SagaKey); line.Kind == statement.LineCharge && order != nil {
		return order
	}
	return namedSaga(line.Key, line.SagaKey)
}

// toldOtherwise is why a line is a fault that was read well.
const toldOtherwise = "The line tells a booking that is kept already, with other money."

// maxFaults is how many faults of a file are told one by one, as many as reading it tells.
const maxFaults = 100

// PutLines keeps lines of the run's settlement file. A booking that is kept already, from whatever file, stays as it is; whether the line
// tells it with the same money is looked at once, when it is read first. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutLines(ctx context.Context, run reconcile.Run, provider string, lines []statement.Line) error {
	if len(lines) == 0 {
		return nil
	}
	var c lineColumns
	for _, line := range lines {
		c.add(line)
	}
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		INSERT INTO settlement_lines (provider, file_id, id, number, kind, payment, reference, sub_key, named_saga, gross, fee, net, currency,
			original_amount, original_currency, payout, booked_at)
		SELECT DISTINCT ON (n.id) $1, $2, n.* FROM unnest($3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::uuid[],
			$10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::timestamptz[])
			AS n (id, number) ORDER BY n.id, n.number
		ON CONFLICT (provider, id) DO UPDATE SET file_id = EXCLUDED.file_id, number = EXCLUDED.number -- of a file that was never read to its end
			WHERE settlement_lines.file_id <> EXCLUDED.file_id
				AND (SELECT f.state FROM settlement_files f WHERE f.id = settlement_lines.file_id) = 'reading'`,
		provider, run.StatementID, c.ids, c.numbers, c.kinds, c.payments, c.references, c.keys, c.named, c.gross, c.fees, c.net, c.currencies,
		c.originalAmounts, c.originals, c.payouts, c.booked)
	batch.Queue(`
		WITH otherwise AS (
			SELECT n.number FROM unnest($3::text[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[])
				AS n (id, number, gross, fee, net, currency)
			JOIN settlement_lines l ON l.provider = $2 AND l.id = n.id
			WHERE (l.gross, l.fee, l.net, l.currency) <> (n.gross, n.fee, n.net, n.currency)
				AND n.number > (SELECT f.read_to FROM settlement_files f WHERE f.id = $1))
		UPDATE settlement_files SET malformed = malformed + (SELECT count(*) FROM otherwise), faults = faults || (
			SELECT COALESCE(jsonb_agg(jsonb_build_object('number', number, 'reason', $9::text) ORDER BY number), '[]') FROM (
				SELECT number FROM otherwise ORDER BY number LIMIT GREATEST(0, $10 - jsonb_array_length(faults))) AS first)
		WHERE id = $1 AND state = 'reading' AND EXISTS (SELECT FROM otherwise)`,
		run.StatementID, provider, c.ids, c.numbers, c.gross, c.fees, c.net, c.currencies, toldOtherwise, maxFaults)
	batch.Queue(`UPDATE settlement_files SET read_to = GREATEST(read_to, $2) WHERE id = $1 AND state = 'reading'`,
		run.StatementID, lines[len(lines)-1].Number)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("keep settlement lines: %w", err)
	}
	return nil
}

// What is kept of a file's report, as JSON.
type (
	keptFault struct {
		Number int    `json:"number"`
		Column string `json:"column,omitempty"`
		Reason string `json:"reason"`
	}
	keptTotal struct {
		Gross int64 `json:"gross"`
		Fee   int64 `json:"fee"`
		Net   int64 `json:"net"`
	}
	keptControl struct {
		Name     string `json:"name"`
		Currency string `json:"currency,omitempty"`
		Told     int64  `json:"told"`
		Counted  int64  `json:"counted"`
	}
)

// CloseStatement notes what the run's settlement file came to, with the faults that were found when its lines were kept, and gives that.
// Errors: reconcile.ErrLeaseLost.
func (s *Store) CloseStatement(ctx context.Context, run reconcile.Run, report statement.Report) (statement.Report, error) {
	faults, controls := make([]keptFault, 0, len(report.Faults)), make([]keptControl, 0, len(report.Controls))
	totals := map[string]keptTotal{}
	for _, fault := range report.Faults {
		faults = append(faults, keptFault(fault))
	}
	for _, control := range report.Controls {
		controls = append(controls, keptControl(control))
	}
	for currency, total := range report.Totals {
		totals[currency] = keptTotal(total)
	}
	var kept reconcile.KeptStatement
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		UPDATE settlement_files SET state = 'read', read_at = now(), format = $2, lines = $3, malformed = malformed + $4, totals = $6,
			controls = $7, booked_from = $8, booked_until = $9, faults = (
				SELECT COALESCE(jsonb_agg(fault ORDER BY (fault ->> 'number')::int), '[]') FROM (
					SELECT fault FROM jsonb_array_elements(faults || $5::jsonb) AS fault ORDER BY (fault ->> 'number')::int LIMIT $10) AS first)
		WHERE id = $1 AND state = 'reading'`,
		run.StatementID, report.Format, report.Lines, report.Malformed, faults, totals, controls, nullTime(report.From), nullTime(report.Until),
		maxFaults)
	batch.Queue(`SELECT `+keptStatement+` FROM settlement_files f WHERE id = $1`, run.StatementID).QueryRow(func(row pgx.Row) (err error) {
		kept, err = scanStatement(row)
		return err
	})
	if err := s.send(ctx, batch); err != nil {
		return statement.Report{}, fmt.Errorf("close statement: %w", err)
	}
	return kept.Report, nil
}
