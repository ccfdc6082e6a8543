package simulation

import (
	"context"
	"slices"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// PutStock sets how much of a SKU is on hand, for a request that holds no key.
func (m *memory) PutStock(
	_ context.Context, account, sku string, onHand int64, _ *idempotency.Held, _ func(saga.Stock) (saga.Answer, error),
) (saga.Stock, error) {
	now, name := m.open(), stockName{account, sku}
	stock := saga.Stock{SKU: sku}
	if kept := m.stock[name]; kept != nil {
		stock = *kept
	}
	if stock.Reserved > onHand {
		return saga.Stock{}, saga.ErrStockReserved
	}
	stock.OnHand, stock.UpdatedAt = onHand, now
	m.stock[name] = new(stock)
	return stock, nil
}

// GetStock reads one SKU. Errors: saga.ErrNotFound.
func (m *memory) GetStock(_ context.Context, account, sku string) (saga.Stock, error) {
	m.open()
	stock := m.stock[stockName{account, sku}]
	if stock == nil {
		return saga.Stock{}, saga.ErrNotFound
	}
	return *stock, nil
}

// mayMoveStock checks what an effect on the stock may break. 0 <= reserved <= on hand is the one rule.
func (m *memory) mayMoveStock(ref saga.Ref, items []saga.Item, effect saga.StockEffect) error {
	switch effect {
	case saga.StockNone, saga.StockForfeit:
		return nil
	case saga.StockSell, saga.StockRelease:
		if m.heldLines(ref) < len(items) {
			return saga.ErrReservationLost
		}
		return nil
	case saga.StockSellRest, saga.StockReleaseRest:
		if m.heldLines(ref) == 0 {
			return saga.ErrReservationLost
		}
		return nil
	case saga.StockReserve:
	}
	return m.mayReserve(ref, items)
}

func (m *memory) heldLines(ref saga.Ref) (held int) {
	for _, r := range m.reservations[ref] {
		if r.status == "held" {
			held++
		}
	}
	return held
}

func (m *memory) mayReserve(ref saga.Ref, items []saga.Item) error {
	var unknown []string
	var short *saga.OutOfStockError
	for _, item := range items {
		stock := m.stock[stockName{ref.AccountID, item.SKU}]
		if stock == nil {
			unknown = append(unknown, item.SKU)
			continue
		}
		missing := item.Quantity - (stock.OnHand - stock.Reserved)
		if missing > 0 && (short == nil || missing > short.Wanted-short.Available) {
			short = &saga.OutOfStockError{SKU: item.SKU, Wanted: item.Quantity, Available: stock.OnHand - stock.Reserved}
		}
	}
	switch {
	case short != nil:
		return short
	case unknown != nil:
		return &saga.UnknownSKUError{SKUs: unknown}
	}
	return nil
}

func (m *memory) moveStock(ref saga.Ref, items []saga.Item, effect saga.StockEffect) {
	switch effect {
	case saga.StockNone:
	case saga.StockReserve:
		for _, item := range items {
			m.stock[stockName{ref.AccountID, item.SKU}].Reserved += item.Quantity
			m.reservations[ref] = append(m.reservations[ref], reservation{item.SKU, item.Quantity, "held"})
		}
	case saga.StockSell, saga.StockSellRest:
		m.endReservation(ref, "sold")
	case saga.StockRelease, saga.StockForfeit, saga.StockReleaseRest:
		m.endReservation(ref, "released")
	}
}

// endReservation ends what is held of each line's reservation.
func (m *memory) endReservation(ref saga.Ref, status string) {
	reserved := slices.Clone(m.reservations[ref])
	for i := range reserved {
		if reserved[i].status != "held" {
			continue
		}
		stock := m.stock[stockName{ref.AccountID, reserved[i].sku}]
		stock.Reserved -= reserved[i].quantity
		if status == "sold" {
			stock.OnHand -= reserved[i].quantity
		}
		reserved[i].status = status
	}
	m.reservations[ref] = reserved
}
