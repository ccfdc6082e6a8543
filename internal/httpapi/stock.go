package httpapi

import (
	"encoding/base64"
	"net/http"
	"regexp"

	"paysaga/api"
	"paysaga/saga"
)

// PutStock sets how much of a SKU is on hand. A repeat sets the same number, so it needs no key.
func (s *server) PutStock(w http.ResponseWriter, r *http.Request, sku api.SKU) {
	var request api.StockRequest
	if err := s.decode(w, r, "StockRequest", &request); err != nil {
		s.fail(w, r, err)
		return
	}
	stock, err := s.Store.PutStock(r.Context(), accountOf(r.Context()), sku, request.OnHand)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showStock(stock))
}

// GetStock shows one SKU.
func (s *server) GetStock(w http.ResponseWriter, r *http.Request, sku api.SKU) {
	stock, err := s.Store.GetStock(r.Context(), accountOf(r.Context()), sku)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showStock(stock))
}

// skuForm is the contract's form of a SKU, which a cursor of the stock holds.
var skuForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ListStock shows an account's stock, by SKU.
func (s *server) ListStock(w http.ResponseWriter, r *http.Request, params api.ListStockParams) {
	after, limit := "", limitOf(params.Limit)
	if params.Cursor != nil {
		sku, err := base64.RawURLEncoding.DecodeString(*params.Cursor)
		if err != nil || !skuForm.Match(sku) {
			s.fail(w, r, errBadCursor)
			return
		}
		after = string(sku)
	}
	found, err := s.Store.ListStock(r.Context(), accountOf(r.Context()), after, limit+1) // one more tells of a next page
	if err != nil {
		s.fail(w, r, err)
		return
	}
	list := api.StockList{Data: []api.Stock{}}
	for _, stock := range found[:min(len(found), limit)] {
		list.Data = append(list.Data, showStock(stock))
	}
	if len(found) > limit {
		list.NextCursor = new(base64.RawURLEncoding.EncodeToString([]byte(found[limit-1].SKU)))
	}
	s.sendJSON(w, r, list)
}

func showStock(stock saga.Stock) api.Stock {
	return api.Stock{
		SKU: stock.SKU, OnHand: stock.OnHand, Reserved: stock.Reserved, Available: stock.OnHand - stock.Reserved,
		UpdatedAt: stock.UpdatedAt.UTC(),
	}
}
