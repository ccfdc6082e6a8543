package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What holds for every POST about an order: who may send it, under which key, in which form. Nothing is changed by any of these.
//
//nolint:paralleltest,tparallel // what each leaves behind is looked at
func TestBadRequestsAboutOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	for _, path := range []string{"/continue", "/capture", "/cancel", "/refunds"} {
		for name, c := range map[string]struct {
			change func(r *request)
			status int
			slug   string
			place  string
		}{
			"no API key":       {func(r *request) { r.header.Del("Authorization") }, http.StatusUnauthorized, "unauthorized", ""},
			"another account":  {func(r *request) { r.header.Set("Authorization", "Bearer "+s.other) }, http.StatusNotFound, "not-found", ""},
			"no such order":    {func(r *request) { r.path = "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71" + path }, http.StatusNotFound, "not-found", ""},
			"id of no UUID":    {func(r *request) { r.path = "/v1/orders/4711" + path }, http.StatusNotFound, "not-found", ""},
			"no key":           {func(r *request) { r.header.Del("Idempotency-Key") }, http.StatusUnprocessableEntity, "idempotency-key-missing", "header Idempotency-Key"},
			"two keys":         {func(r *request) { r.header.Add("Idempotency-Key", newKeyText()) }, http.StatusBadRequest, "idempotency-key-invalid", "header Idempotency-Key"},
			"short key":        {func(r *request) { r.header.Set("Idempotency-Key", "short") }, http.StatusBadRequest, "idempotency-key-invalid", "header Idempotency-Key"},
			"unknown field":    {func(r *request) { r.body = `{"unknown":1}` }, http.StatusBadRequest, "invalid-request", "pointer /unknown"},
			"array":            {func(r *request) { r.body = `[]` }, http.StatusBadRequest, "invalid-request", "body"},
			"trailing data":    {func(r *request) { r.body = `{}{}` }, http.StatusBadRequest, "invalid-request", "body"},
			"broken":           {func(r *request) { r.body = `{` }, http.StatusBadRequest, "invalid-request", "body"},
			"blank":            {func(r *request) { r.body = ` ` }, http.StatusBadRequest, "invalid-request", ""},
			"no content type":  {func(r *request) { r.header.Del("Content-Type") }, http.StatusUnsupportedMediaType, "unsupported-media-type", ""},
			"over the limit":   {func(r *request) { r.body = `{}` + strings.Repeat(" ", bodyLimit) }, http.StatusRequestEntityTooLarge, "body-too-large", ""},
			"another method":   {func(r *request) { r.method = http.MethodPut }, http.StatusMethodNotAllowed, "method-not-allowed", ""},
			"slash at the end": {func(r *request) { r.path += "/" }, http.StatusNotFound, "not-found", ""},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				before := s.footprint(t)
				r := s.asking(newKeyText(), location+path, `{}`)
				c.change(&r)
				s.send(t, r).checkRefusal(t, c.status, c.slug, c.place)
				if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
					t.Errorf("it changed something (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// Numbers and texts out of their limits.
func TestBadFieldsAboutOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	before := s.footprint(t)
	for _, c := range [][3]string{
		{"/capture", `{"amount":0}`, "/amount"},
		{"/capture", `{"amount":-1}`, "/amount"},
		{"/capture", `{"amount":1.5}`, "/amount"},
		{"/capture", `{"amount":"1"}`, "/amount"},
		{"/capture", `{"amount":null}`, "/amount"},
		{"/capture", `{"amount":1000000000000}`, "/amount"},
		{"/capture", `{"amount":1,"amount":2}`, "/amount"},
		{"/capture", `{"final":"true"}`, "/final"},
		{"/capture", `{"final":null}`, "/final"},
		{"/capture", `{"reason":"x"}`, "/reason"},
		{"/refunds", `{"amount":0}`, "/amount"},
		{"/refunds", `{"amount":1e400}`, "/amount"},
		{"/refunds", `{"amount":2.00000000000000009}`, "/amount"},
		{"/refunds", `{"reason":1}`, "/reason"},
		{"/refunds", `{"reason":"` + strings.Repeat("x", 256) + `"}`, "/reason"},
		{"/refunds", `{"reason":"a\u0000"}`, "/reason"},
		{"/refunds", `{"currency":"EUR"}`, "/currency"},
		{"/cancel", `{"reason":"x"}`, "/reason"},
	} {
		s.ask(t, location+c[0], c[1]).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer "+c[2])
	}
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("it changed something (-before +after):\n%s", diff)
	}
}

// One key on two orders, or at two endpoints: the order is a part of the intent, the endpoint a part of the key.
func TestKeyBelongsToItsOrderAndEndpoint(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	one, two := s.hold(t, "stripe", "pm_card_visa"), s.hold(t, "stripe", "pm_card_visa")
	s.send(t, s.asking(key, one+"/capture", `{}`)).order(t, http.StatusOK)
	s.send(t, s.asking(key, two+"/capture", `{}`)).checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	s.send(t, s.asking(key, two+"/cancel", `{}`)).order(t, http.StatusOK)
}
