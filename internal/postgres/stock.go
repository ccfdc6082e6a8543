package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// PutStock sets how much of a SKU is on hand; a new SKU begins with it. With a held key, only while that is held; and with an answer
// to it as well, that is stored in the same transaction. Errors: saga.ErrStockReserved, saga.ErrLeaseLost.
func (s *Store) PutStock(
	ctx context.Context, account, sku string, onHand int64, held *idempotency.Held, answer func(saga.Stock) (saga.Answer, error),
) (saga.Stock, error) {
	var stock saga.Stock
	put := func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		queueFence(batch, held)
		batch.Queue(`
			INSERT INTO stock (account_id, sku, on_hand) VALUES ($1, $2, $3)
			ON CONFLICT (account_id, sku) DO UPDATE SET on_hand = EXCLUDED.on_hand, updated_at = now()
			RETURNING sku, on_hand, reserved, updated_at`, account, sku, onHand,
		).QueryRow(func(row pgx.Row) error { return row.Scan(&stock.SKU, &stock.OnHand, &stock.Reserved, &stock.UpdatedAt) })
		if err := tx.SendBatch(ctx, batch).Close(); err != nil || held == nil || answer == nil {
			return err //nolint:wrapcheck // mapped below
		}
		given, err := answer(stock)
		if err != nil {
			return err
		}
		batch = &pgx.Batch{}
		if err := s.queueHeldAnswer(batch, *held, given); err != nil {
			return err
		}
		return tx.SendBatch(ctx, batch).Close()
	}
	err := s.withAnswers(ctx, 0, func() error { return mapError(pgx.BeginFunc(ctx, s.pool, put)) })
	if errors.Is(err, errOutOfStock) {
		return saga.Stock{}, saga.ErrStockReserved
	}
	if err != nil {
		return saga.Stock{}, fmt.Errorf("put stock: %w", err)
	}
	if held != nil && answer != nil {
		held.Answered = true
	}
	return stock, nil
}

// GetStock reads one SKU. Errors: saga.ErrNotFound.
func (s *Store) GetStock(ctx context.Context, account, sku string) (saga.Stock, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT sku, on_hand, reserved, updated_at FROM stock WHERE account_id = $1 AND sku = $2`, account, sku)
	stock, err := collectStock(rows, err)
	if err != nil {
		return saga.Stock{}, fmt.Errorf("get stock: %w", err)
	}
	if len(stock) == 0 {
		return saga.Stock{}, saga.ErrNotFound
	}
	return stock[0], nil
}

// ListStock reads up to limit SKUs after the given one, in their order.
func (s *Store) ListStock(ctx context.Context, account, after string, limit int) ([]saga.Stock, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT sku, on_hand, reserved, updated_at FROM stock WHERE account_id = $1 AND sku > $2 ORDER BY sku LIMIT $3`,
		account, after, limit)
	stock, err := collectStock(rows, err)
	if err != nil {
		return nil, fmt.Errorf("list stock: %w", err)
	}
	return stock, nil
}

func collectStock(rows pgx.Rows, err error) ([]saga.Stock, error) {
	if err != nil {
		return nil, mapError(err)
	}
	stock, err := pgx.CollectRows(rows, pgx.RowToStructByPos[saga.Stock])
	if err != nil {
		return nil, mapError(err)
	}
	return stock, nil
}

// queueStock moves the stock that a saga holds. The CHECK on the row is what refuses to reserve more than there is.
func queueStock(batch *pgx.Batch, after *saga.Saga, effect saga.StockEffect) {
	if effect == saga.StockNone {
		return
	}
	skus, quantities := lines(after.Order.Items)
	if len(skus) > 1 {
		// In one order for everybody: two orders with the same SKUs must not wait for each other crosswise.
		batch.Queue(`SELECT sku FROM stock WHERE account_id = $1 AND sku = ANY ($2) ORDER BY sku FOR NO KEY UPDATE`,
			after.AccountID, skus)
	}
	switch effect {
	case saga.StockReserve:
		batch.Queue(`
			WITH moved AS (
				UPDATE stock s SET reserved = s.reserved + line.quantity, updated_at = now()
				FROM unnest($3::text[], $4::bigint[]) AS line (sku, quantity)
				WHERE s.account_id = $1 AND s.sku = line.sku
				RETURNING s.sku, line.quantity
			), held AS (
				INSERT INTO reservations (account_id, saga_key, sku, quantity) SELECT $1, $2, sku, quantity FROM moved)
			SELECT paysaga_require(count(*) = cardinality($3::text[]), '`+ruleSKU+`') FROM moved`,
			after.AccountID, after.Key, skus, quantities)
	case saga.StockSell:
		queueReservationEnd(batch, after, "sold", `on_hand = s.on_hand - ended.quantity, reserved = s.reserved - ended.quantity`, len(skus))
	case saga.StockRelease:
		queueReservationEnd(batch, after, "released", `reserved = s.reserved - ended.quantity`, len(skus))
	case saga.StockForfeit:
		queueReservationEnd(batch, after, "released", `reserved = s.reserved - ended.quantity`, 0)
	case saga.StockSellRest:
		queueReservationEnd(batch, after, "sold", `on_hand = s.on_hand - ended.quantity, reserved = s.reserved - ended.quantity`, 1)
	case saga.StockReleaseRest:
		queueReservationEnd(batch, after, "released", `reserved = s.reserved - ended.quantity`, 1)
	case saga.StockNone:
	}
}

// queueReservationEnd ends what is held of each line's reservation. Fewer lines than the least that is expected undo the
// transaction: so a reservation ends once.
func queueReservationEnd(batch *pgx.Batch, after *saga.Saga, status, set string, least int) {
	batch.Queue(`
		WITH ended AS (
			UPDATE reservations SET status = $3, ended_at = now()
			WHERE account_id = $1 AND saga_key = $2 AND status = 'held'
			RETURNING sku, quantity
		), moved AS (
			UPDATE stock s SET `+set+`, updated_at = now() FROM ended
			WHERE s.account_id = $1 AND s.sku = ended.sku
			RETURNING 1)
		SELECT paysaga_require(count(*) >= $4, '`+ruleReservation+`') FROM moved`,
		after.AccountID, after.Key, status, least)
}

func lines(items []saga.Item) (skus []string, quantities []int64) {
	for _, item := range items {
		skus, quantities = append(skus, item.SKU), append(quantities, item.Quantity)
	}
	return skus, quantities
}

// shortage finds the line that asks for more than there is.
func (s *Store) shortage(ctx context.Context, account string, items []saga.Item) error {
	skus, quantities := lines(items)
	short := saga.OutOfStockError{SKU: skus[0], Wanted: quantities[0]}
	rows, err := s.pool.Query(ctx, `
		SELECT s.sku, line.quantity, s.on_hand - s.reserved
		FROM stock s JOIN unnest($2::text[], $3::bigint[]) AS line (sku, quantity) USING (sku)
		WHERE s.account_id = $1 ORDER BY s.on_hand - s.reserved - line.quantity LIMIT 1`, account, skus, quantities)
	if err != nil {
		return fmt.Errorf("find the shortage: %w", mapError(err))
	}
	_, err = pgx.ForEachRow(rows, []any{&short.SKU, &short.Wanted, &short.Available}, func() error { return nil })
	if err != nil {
		return fmt.Errorf("find the shortage: %w", mapError(err))
	}
	return &short
}

// missing finds the SKUs that have no stock record.
func (s *Store) missing(ctx context.Context, account string, items []saga.Item) error {
	skus, _ := lines(items)
	rows, err := s.pool.Query(ctx, `SELECT sku FROM stock WHERE account_id = $1 AND sku = ANY ($2)`, account, skus)
	if err != nil {
		return fmt.Errorf("find unknown SKUs: %w", mapError(err))
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find unknown SKUs: %w", mapError(err))
	}
	return &saga.UnknownSKUError{SKUs: slices.DeleteFunc(skus, func(sku string) bool { return slices.Contains(known, sku) })}
}
