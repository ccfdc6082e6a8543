package httpapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

func containsText(sealed []byte, text string) bool { return bytes.Contains(sealed, []byte(text)) }

// Another account's things do not exist: the answers are the same as for things that were never made.
func TestAnotherAccount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	for _, pair := range [][2]string{
		{location, "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"},
		{location + "/saga", "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71/saga"},
		{"/v1/stock/MUG", "/v1/stock/NEVER-MADE"},
	} {
		theirs, none := s.getAs(t, s.other, pair[0]), s.getAs(t, s.other, pair[1])
		theirs.problem(t, http.StatusNotFound, "not-found")
		if theirs.body != none.body {
			t.Errorf("%s: %s, for none: %s", pair[0], theirs.body, none.body)
		}
		if mine := s.get(t, pair[0]); mine.status != http.StatusOK {
			t.Errorf("%s: %d for its own account", pair[0], mine.status)
		}
	}
	orders := decoded[api.OrderList](t, s.getAs(t, s.other, "/v1/orders"), http.StatusOK)
	stock := decoded[api.StockList](t, s.getAs(t, s.other, "/v1/stock"), http.StatusOK)
	if len(orders.Data) != 0 || len(stock.Data) != 1 || stock.Data[0].OnHand != 100 {
		t.Errorf("orders %+v, stock %+v", orders.Data, stock.Data)
	}
}

// Pages hold each order exactly once, newest first, also when several were placed at the same moment.
func TestListOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const count = 7
	want := make([]string, 0, count)
	for range count {
		want = append(want, s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated).ID.String())
	}
	slices.Reverse(want) // newest first
	for _, limit := range []int{1, 2, 3, count, count + 1, 100} {
		if diff := cmp.Diff(want, s.walkOrders(t, fmt.Sprintf("/v1/orders?limit=%d", limit))); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	s.exec(t, `UPDATE orders SET created_at = '2026-11-30 09:30:00.123456+00'`)
	slices.Sort(want)
	for _, limit := range []int{1, 2, 3, count} {
		got := s.walkOrders(t, fmt.Sprintf("/v1/orders?limit=%d", limit))
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d, all at once (-want +got):\n%s", limit, diff)
		}
	}
}

// walkOrders reads all pages.
func (s *shop) walkOrders(t *testing.T, path string) []string {
	t.Helper()
	var ids []string
	next := path
	for range 20 {
		page := decoded[api.OrderList](t, s.get(t, next), http.StatusOK)
		for _, order := range page.Data {
			ids = append(ids, order.ID.String())
		}
		if page.NextCursor == nil {
			return ids
		}
		next = path + "&cursor=" + *page.NextCursor
	}
	t.Fatal("the list does not end")
	return nil
}

func TestOrderFilters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	confirmed := s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated).ID.String()
	waiting := s.place(t, newKeyText(), paidBy("pm_card_authenticationRequired")).order(t, http.StatusAccepted).ID.String()
	failed := s.place(t, newKeyText(), paidBy("pm_card_visa_chargeDeclined")).problem(t, http.StatusPaymentRequired, "payment-declined").
		Instance[len("/v1/orders/"):]
	for query, want := range map[string][]string{
		"status=confirmed": {confirmed}, "status=awaiting": {waiting}, "status=failed": {failed}, "status=canceled": nil, "status=processing": nil,
		"status=in_review": nil, "provider=stripe": {failed, waiting, confirmed}, "provider=adyen": nil,
		"provider=stripe&status=failed": {failed}, "limit=2": {failed, waiting, confirmed}, "limit=1&provider=stripe": {failed, waiting, confirmed},
	} {
		if diff := cmp.Diff(want, s.walkOrders(t, "/v1/orders?"+query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestListStock(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	want := []string{"A", "LAST-PIECE", "MUG", "TSHIRT-M", "Z9", "a"}
	for _, sku := range []string{"Z9", "a", "A"} {
		decoded[api.Stock](t, s.putStock(t, sku, `{"on_hand":1}`), http.StatusOK)
	}
	for _, limit := range []int{1, 2, 6, 100} {
		path := fmt.Sprintf("/v1/stock?limit=%d", limit)
		var got []string
		for next, pages := path, 0; next != "" && pages < 10; pages++ {
			page := decoded[api.StockList](t, s.get(t, next), http.StatusOK)
			for _, stock := range page.Data {
				got = append(got, stock.SKU)
			}
			next = ""
			if page.NextCursor != nil {
				next = path + "&cursor=" + *page.NextCursor
			}
		}
		slices.Sort(got) // the order among capitals and small letters is the database's own
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// A count may be set at any time, but never below what running orders hold.
func TestPutStock(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	before := s.writes(t)
	s.putStock(t, "TSHIRT-M", `{"on_hand":1}`).problem(t, http.StatusUnprocessableEntity, "stock-reserved")
	if s.writes(t) != before || s.stock(t, "TSHIRT-M") != "2 of 100" {
		t.Errorf("a refused count changed something: %s", s.stock(t, "TSHIRT-M"))
	}
	stock := decoded[api.Stock](t, s.putStock(t, "TSHIRT-M", `{"on_hand":2}`), http.StatusOK)
	if stock.OnHand != 2 || stock.Reserved != 2 || stock.Available != 0 {
		t.Errorf("stock %+v", stock)
	}
	again := decoded[api.Stock](t, s.putStock(t, "TSHIRT-M", `{"on_hand":2.0}`), http.StatusOK)
	if again.OnHand != 2 || again.Reserved != 2 {
		t.Errorf("stock %+v", again)
	}
	held.release()
	answered := receive(t, "the answer", first)
	s.check(t, r, answered)
	answered.order(t, http.StatusCreated)
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 0" {
		t.Errorf("stock: %s", got)
	}
}
