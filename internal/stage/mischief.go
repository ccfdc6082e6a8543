package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Mischief does to a database, behind the application's back, what reconciliation is there for: what is left by a backup that was restored,
// by a hand in the tables, or by a defect. It also moves the database's clock. Unlike a Stage it takes a database as it is, and deletes
// nothing but what it is asked to.
type Mischief struct {
	pool *pgxpool.Pool
	url  string
}

// NewMischief connects to a migrated database and gives it a clock that can be moved.
func NewMischief(ctx context.Context, databaseURL string) (*Mischief, error) {
	clocked, err := withClock(databaseURL)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, clocked)
	if err != nil {
		return nil, errors.New("connect to the database: its URL cannot be used") // the parser's own text can hold the password
	}
	if err := addClock(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return &Mischief{pool: pool, url: clocked}, nil
}

// Mischief does to this stage's database what only reconciliation finds. It is not to be closed.
func (s *Stage) Mischief() *Mischief { return &Mischief{pool: s.Pool} }

func withClock(databaseURL string) (string, error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return "", errors.New("connect to the database: its URL cannot be read") // as above
	}
	query := parsed.Query()
	query.Set("search_path", clockPath)
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

// Close gives the connections back.
func (m *Mischief) Close() { m.pool.Close() }

// URL names the database as those see it for whom time is as this one moves it.
func (m *Mischief) URL() string { return m.url }

// Advance moves the database's clock, backward where it is negative.
func (m *Mischief) Advance(ctx context.Context, by time.Duration) error {
	return m.do(ctx, "move the clock", `UPDATE stage.clock SET ahead = ahead + $1`, by)
}

// do carries out one statement that must meet something.
func (m *Mischief) do(ctx context.Context, what, sql string, arguments ...any) error {
	done, err := m.pool.Exec(ctx, sql, arguments...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("%s: there is nothing of that kind", what)
	}
	return nil
}

// all carries out statements about one order, each of which must meet something.
func (m *Mischief) all(ctx context.Context, what string, order uuid.UUID, statements ...string) error {
	err := pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
		for _, statement := range statements {
			done, err := tx.Exec(ctx, statement, order)
			if err != nil {
				return err //nolint:wrapcheck // below
			}
			if done.RowsAffected() == 0 {
				return fmt.Errorf("nothing fits: %s", statement)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// What comes of the pieces of an order's reservations, in the words of its statements.
const (
	piecesBack = `UPDATE stock s SET on_hand = s.on_hand + r.quantity FROM reservations r
		WHERE r.saga_key = $1 AND r.status = 'sold' AND s.account_id = r.account_id AND s.sku = r.sku`
	piecesHeld = `UPDATE stock s SET reserved = s.reserved + r.quantity FROM reservations r
		WHERE r.saga_key = $1 AND s.account_id = r.account_id AND s.sku = r.sku`
)

// Forget takes an order away with all that belongs to it, as a backup does that is older than the order.
func (m *Mischief) Forget(ctx context.Context, order uuid.UUID) error {
	const sagas = `(SELECT key FROM sagas WHERE order_id = $1)`
	if err := m.all(ctx, "forget an order", order, piecesBack); err != nil {
		return err
	}
	for _, from := range []string{
		`webhook_events WHERE saga_key IN ` + sagas, `outbox_events WHERE order_id = $1`, `findings WHERE order_id = $1`,
		`idempotency_keys WHERE saga_key IN ` + sagas, `reservations WHERE saga_key IN ` + sagas, `refunds WHERE order_id = $1`,
		`saga_steps WHERE saga_key IN ` + sagas, `sagas WHERE order_id = $1`, `order_items WHERE order_id = $1`, `orders WHERE id = $1`,
	} {
		if _, err := m.pool.Exec(ctx, `DELETE FROM `+from, order); err != nil {
			return fmt.Errorf("forget an order: %w", err)
		}
	}
	return nil
}

// GiveUp has a paid order stand as one that was declined.
func (m *Mischief) GiveUp(ctx context.Context, order uuid.UUID) error {
	return m.all(ctx, "give an order up", order, piecesBack,
		`UPDATE reservations SET status = 'released' WHERE saga_key = $1 AND status = 'sold'`,
		`DELETE FROM saga_steps WHERE saga_key = $1 AND name = 'confirm'`,
		`UPDATE saga_steps SET status = 'failed', outcome = 'declined', code = 'declined' WHERE saga_key = $1 AND name = 'charge'`,
		`INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status, finished_at)
			SELECT account_id, key, 'release', 1, key || '_release', 'done', now() FROM sagas WHERE key = $1`,
		`UPDATE sagas SET state = 'rolled_back' WHERE key = $1`,
		`UPDATE orders SET status = 'failed', payment_status = 'declined', captured_amount = 0 WHERE id = $1`)
}

// Unconfirm has a paid order stand as one that somebody took up after its payment, an hour ago, and never finished.
func (m *Mischief) Unconfirm(ctx context.Context, order uuid.UUID) error {
	return m.all(ctx, "leave an order before its end", order, piecesBack, piecesHeld,
		`UPDATE reservations SET status = 'held', ended_at = NULL WHERE saga_key = $1`,
		`DELETE FROM saga_steps WHERE saga_key = $1 AND name = 'confirm'`,
		`UPDATE sagas SET state = 'charged', next_attempt_at = now() - interval '1 hour' WHERE key = $1`,
		`UPDATE orders SET status = 'processing' WHERE id = $1`)
}

// HoldStock has the stock of an order that came to nothing held still.
func (m *Mischief) HoldStock(ctx context.Context, order uuid.UUID) error {
	return m.all(ctx, "hold stock for nothing", order, piecesHeld,
		`UPDATE reservations SET status = 'held', ended_at = NULL WHERE saga_key = $1`)
}

// ParkEvent has the last event of an order's payment stand as one that the inbox gave up an hour ago.
func (m *Mischief) ParkEvent(ctx context.Context, order uuid.UUID) error {
	return m.do(ctx, "give an event up", `
		UPDATE webhook_events SET status = 'parked', applied_at = NULL, next_attempt_at = NULL, received_at = now() - interval '1 hour',
			last_error = 'the saga could not be read'
		WHERE (provider, event_id) =
			(SELECT provider, event_id FROM webhook_events WHERE saga_key = $1 ORDER BY occurred_at DESC, event_id LIMIT 1)`,
		order)
}

// Rest has what waits be looked at after a time, whenever it was due.
func (m *Mischief) Rest(ctx context.Context, pause time.Duration) error {
	return m.do(ctx, "let what waits rest", `UPDATE sagas SET next_attempt_at = now() + $1 WHERE next_attempt_at IS NOT NULL`, pause)
}

// Waiting counts the events in the inbox that are not applied yet.
func (m *Mischief) Waiting(ctx context.Context) (events int, err error) {
	if err := m.pool.QueryRow(ctx, `SELECT count(*) FROM webhook_events WHERE status = 'waiting'`).Scan(&events); err != nil {
		return 0, fmt.Errorf("count what waits in the inbox: %w", err)
	}
	return events, nil
}

// Portrait is all that a database tells of payments and of what was found, a text for each row, by table. Left out are what the providers
// told, when a row was looked at, which changes nothing of what it says, and what is sealed, which is another text each time.
func (m *Mischief) Portrait(ctx context.Context) (map[string][]string, error) {
	portrait := make(map[string][]string)
	for _, table := range []string{
		"orders", "order_items", "sagas", "saga_steps", "reservations", "refunds", "stock", "findings", "settlement_lines", "outbox_events",
		"idempotency_keys", "audit_log",
	} {
		rows, err := m.pool.Query(ctx, `
			SELECT (to_jsonb(t) - '{last_seen_at,told_at,run_id,tried_by,here,there}'::text[])::text COLLATE "C" AS row
			FROM `+pgx.Identifier{table}.Sanitize()+` t ORDER BY row`)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		portrait[table] = lines
	}
	return portrait, nil
}
