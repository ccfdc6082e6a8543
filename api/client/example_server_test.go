package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/google/uuid"

	"paysaga/api"
)

// exampleServer answers the examples as paysaga would.
func exampleServer() *httptest.Server {
	id := uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71")
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/orders", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		sendJSON(w, api.Order{ID: id, Status: api.OrderStatusConfirmed, Items: []api.Item{}, Metadata: api.Metadata{}})
	})
	routes.HandleFunc("GET /v1/orders", func(w http.ResponseWriter, r *http.Request) {
		status := api.OrderStatus(r.URL.Query().Get("status"))
		sendJSON(w, api.OrderList{Data: []api.Order{{ID: id, Status: status, Amount: 3998, Currency: "EUR"}}})
	})
	routes.HandleFunc("POST /v1/orders/{id}/refunds", func(w http.ResponseWriter, r *http.Request) {
		var refund api.RefundRequest
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &refund)
		w.WriteHeader(http.StatusCreated)
		sendJSON(w, api.Refund{ID: uuid.New(), Amount: refund.Amount, Status: api.RefundStatusSucceeded})
	})
	return httptest.NewServer(routes)
}

func sendJSON(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(body)
}
