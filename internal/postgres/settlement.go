package postgres

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
	"paysaga/reconcile/statement"
)

// OpenStatement notes a settlement file, or finds it by its digest, under whatever name it comes. Errors: reconcile.ErrReadBefore, with its
// id.
func (s *Store) OpenStatement(ctx context.Context, provider, name string, digest [32]byte) (id int64, readTo int, err error) {
	var isRead bool
	err = s.pool.QueryRow(ctx, `
		INSERT INTO settlement_files AS f (provider, name, digest) VALUES ($1, $2, $3)
		ON CONFLICT (provider, digest) DO UPDATE SET name = f.name RETURNING id, read_to, state = 'read'`, provider, nameOfFile(name), digest[:],
	).Scan(&id, &readTo, &isRead)
	if err != nil {
		return 0, 0, fmt.Errorf("open statement: %w", mapError(err))
	}
	if isRead {
		return id, readTo, reconcile.ErrReadBefore
	}
	return id, readTo, nil
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

// PutLines keeps lines of the run's settlement file. A booking that is kept already, from whatever file, stays as it is. Errors:
// reconcile.ErrLeaseLost.
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
	batch.Queue(`UPDATE settlement_files SET read_to = GREATEST(read_to, $2) WHERE id = $1 AND state = 'reading'`,
		run.StatementID, lines[len(lines)-1].Number)
	batch.Queue(`
		INSERT INTO settlement_lines (provider, file_id, id, number, kind, payment, reference, sub_key, named_saga, gross, fee, net, currency,
			original_amount, original_currency, payout, booked_at)
		SELECT $1, $2, n.* FROM unnest($3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::uuid[], $10::bigint[],
			$11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::timestamptz[]) AS n
		ON CONFLICT (provider, id) DO UPDATE SET file_id = EXCLUDED.file_id, number = EXCLUDED.number -- of a file that was never read to its end
			WHERE settlement_lines.file_id <> EXCLUDED.file_id
				AND (SELECT f.state FROM settlement_files f WHERE f.id = settlement_lines.file_id) = 'reading'`,
		provider, run.StatementID, c.ids, c.numbers, c.kinds, c.payments, c.references, c.keys, c.named, c.gross, c.fees, c.net, c.currencies,
		c.originalAmounts, c.originals, c.payouts, c.booked)
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

// CloseStatement notes what the run's settlement file came to. Errors: reconcile.ErrLeaseLost.
func (s *Store) CloseStatement(ctx context.Context, run reconcile.Run, report statement.Report) error {
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
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		UPDATE settlement_files SET state = 'read', read_at = now(), format = $2, lines = $3, malformed = $4, faults = $5, totals = $6,
			controls = $7, booked_from = $8, booked_until = $9
		WHERE id = $1`,
		run.StatementID, report.Format, report.Lines, report.Malformed, faults, totals, controls, nullTime(report.From), nullTime(report.Until))
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("close statement: %w", err)
	}
	return nil
}
