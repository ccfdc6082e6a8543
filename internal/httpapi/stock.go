package httpapi

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// PutStock sets how much of a SKU is on hand. A repeat that follows at once sets the same number, so it needs no key; with one, a
// repeat that comes late, after further sales, is recognized.
func (s *server) PutStock(w http.ResponseWriter, r *http.Request, sku api.SKU, _ api.PutStockParams) {
	s.Guard.Handler(idempotency.Route{
		Endpoint: putStockEndpoint, Optional: true, Keep: idempotency.KeepSuccess, Tell: s.tell,
		Read: func(w http.ResponseWriter, r *http.Request) (string, idempotency.Fingerprint, error) {
			request, err := s.readStock(w, r)
			return accountOf(r.Context()), stockFingerprint(sku, request), err
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.setStock(w, r, sku) })).ServeHTTP(w, r)
}

func (s *server) setStock(w http.ResponseWriter, r *http.Request, sku string) {
	request, err := s.readStock(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer := func(stock saga.Stock) (saga.Answer, error) { return jsonAnswer(http.StatusOK, "", showStock(stock)) }
	stock, err := s.Store.PutStock(r.Context(), accountOf(r.Context()), sku, request.OnHand, idempotency.HeldBy(r.Context()), answer)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showStock(stock))
}

// readStock leaves the body to be read once more.
func (s *server) readStock(w http.ResponseWriter, r *http.Request) (api.StockRequest, error) {
	var request api.StockRequest
	body, err := s.readBody(w, r)
	if err != nil {
		return request, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := checkContentType(r.Header); err != nil {
		return request, err
	}
	return request, s.decodeBody(body, "StockRequest", &request)
}

func stockFingerprint(sku string, request api.StockRequest) idempotency.Fingerprint {
	return idempotency.NewIntent("put stock 1").String("sku", sku).Int("on_hand", request.OnHand).Fingerprint()
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
		if err != nil || !skuForm.Match(sku) || writeSKU(string(sku)) != *params.Cursor {
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
	var list api.StockList
	list.Data, list.NextCursor = onePage(found, limit, showStock, func(last saga.Stock) string { return writeSKU(last.SKU) })
	s.sendJSON(w, r, list)
}

// writeSKU is the cursor of the stock: the last SKU of the page before.
func writeSKU(sku string) string { return base64.RawURLEncoding.EncodeToString([]byte(sku)) }

func showStock(stock saga.Stock) api.Stock {
	return api.Stock{
		SKU: stock.SKU, OnHand: stock.OnHand, Reserved: stock.Reserved, Available: stock.OnHand - stock.Reserved,
		UpdatedAt: stock.UpdatedAt.UTC(),
	}
}
