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
	rows, err := s.pool.Query(ctx, `
		SELECT kind FROM findings WHERE account_id = $1 AND order_id = $2 AND resolved_at IS NULL ORDER BY created_at, id`, account, orderID)
	if err != nil {
		return fixture.Life{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	if life.Findings, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fixture.Life{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	return life, nil
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
			Answer: record.Answer.Status, Problem: problemOf(record.Answer), Shows: shows(record.Answer),
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
