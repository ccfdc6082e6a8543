package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
	"paysaga/saga/fixture"
)

// keyOfLife names one request about an order.
type keyOfLife struct {
	endpoint, key string
	generation    int
	at            time.Time
}

// ReadLife reads all that is known of an order's life: its saga and its refunds', the requests that were made about it and what they were
// answered, and what its shop was told. Errors: saga.ErrNotFound.
func (s *Store) ReadLife(ctx context.Context, account string, orderID uuid.UUID) (fixture.Life, error) {
	order, err := s.GetOrder(ctx, account, orderID)
	if err != nil {
		return fixture.Life{}, err
	}
	refunds, err := s.ListRefunds(ctx, account, orderID)
	if err != nil {
		return fixture.Life{}, err
	}
	life := fixture.Life{Order: order, Refunds: refunds}
	if life.Asked, err = s.readAsked(ctx, account, orderID); err != nil {
		return fixture.Life{}, err
	}
	if err := s.readTraces(ctx, account, &life); err != nil {
		return fixture.Life{}, err
	}
	return life, nil
}

// readTraces reads what a life has left beside its sagas. Of findings only those that the sagas made: what reconciliation finds and tells
// is no part of a life that is played alone.
func (s *Store) readTraces(ctx context.Context, account string, life *fixture.Life) error {
	const sagas = `(SELECT key FROM sagas WHERE account_id = $1 AND order_id = $2)`
	batch := &pgx.Batch{}
	queueTraces(batch, &life.Found, `SELECT saga_key, kind, detail, created_at, resolved_at IS NULL FROM findings
		WHERE account_id = $1 AND order_id = $2 AND source = 'saga' ORDER BY created_at, id`, account, life.Order.Key)
	queueTraces(batch, &life.Decided, `SELECT subject::uuid, action, created_at, outside_provider FROM audit_log
		WHERE account_id = $1 AND subject IN (SELECT key::text FROM `+sagas+` AS of) AND action LIKE 'saga.%' ORDER BY id`,
		account, life.Order.Key)
	queueTraces(batch, &life.Heard, `SELECT about, COALESCE(outcome ->> 'kind', ''), received_at FROM webhook_events
		WHERE account_id = $1 AND saga_key IN `+sagas+` AND status = 'applied' ORDER BY received_at, event_id`, account, life.Order.Key)
	queueTraces(batch, &life.Reserved, `SELECT sku, quantity, status FROM reservations
		WHERE account_id = $1 AND saga_key = $2 ORDER BY sku`, account, life.Order.Key)
	batch.Queue(`SELECT type FROM outbox_events WHERE account_id = $1 AND order_id = $2 ORDER BY id`,
		account, life.Order.Key).Query(func(rows pgx.Rows) (err error) {
		life.Told, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("read the traces of an order: %w", err)
	}
	return nil
}

func queueTraces[T any](batch *pgx.Batch, into *[]T, sql string, arguments ...any) {
	batch.Queue(sql, arguments...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		return err //nolint:wrapcheck // wrapped by who sends
	})
}

func (s *Store) readAsked(ctx context.Context, account string, orderID uuid.UUID) ([]fixture.Asked, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT k.endpoint, k.key, k.generation, k.created_at
		FROM idempotency_keys k JOIN sagas s ON s.account_id = k.account_id AND s.key = k.saga_key
		WHERE k.account_id = $1 AND s.order_id = $2 ORDER BY k.created_at, k.endpoint, k.key`, account, orderID)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", mapError(err))
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k keyOfLife, err error) {
		err = row.Scan(&k.endpoint, &k.key, &k.generation, &k.at)
		return k, err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", mapError(err))
	}
	asked := make([]fixture.Asked, 0, len(keys))
	for _, k := range keys {
		record, ok, err := s.LookupKey(ctx, account, k.endpoint, k.key)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // deleted since
		}
		asked = append(asked, fixture.Asked{
			Endpoint: k.endpoint, Key: saga.Key(account, k.endpoint, k.key, k.generation), At: k.at,
			AnsweredAt: record.CompletedAt, Answer: record.Answer.Status, Problem: problemOf(record.Answer),
			About: about(record.Answer), Shows: shows(record.Answer),
		})
	}
	return asked, nil
}

func problemOf(answer saga.Answer) string {
	var problem struct {
		Type string `json:"type"`
	}
	const refused = 400
	if answer.Status < refused || json.Unmarshal(answer.Body, &problem) != nil || problem.Type == "" {
		return ""
	}
	return path.Base(problem.Type)
}

// shows is the type of what the customer was asked to do.
func shows(answer saga.Answer) string {
	var body struct {
		NextAction map[string]any `json:"next_action"`
	}
	if json.Unmarshal(answer.Body, &body) != nil {
		return ""
	}
	kind, _ := body.NextAction["type"].(string) //nolint:revive // empty where there is none
	return kind
}

// about is the status of what an answer tells of; a problem is about none.
func about(answer saga.Answer) string {
	var body struct {
		Status any `json:"status"`
	}
	if problemOf(answer) != "" || json.Unmarshal(answer.Body, &body) != nil {
		return ""
	}
	status, _ := body.Status.(string) //nolint:revive // empty where it is none
	return status
}
