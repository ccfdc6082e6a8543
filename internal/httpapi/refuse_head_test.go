package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// badKeys are requests whose Idempotency-Key is missing or malformed.
func badKeys() []bad {
	const place = "header Idempotency-Key"
	list := badList{{
		name: "no key", header: map[string][]string{"Idempotency-Key": nil},
		status: http.StatusUnprocessableEntity, slug: "idempotency-key-missing", place: place,
	}, {
		name: "two keys", header: map[string][]string{"Idempotency-Key": {"key-0123456789-a", "key-0123456789-b"}},
		status: http.StatusBadRequest, slug: "idempotency-key-invalid", place: place,
	}, {
		name: "the same key twice", header: map[string][]string{"Idempotency-Key": {"key-0123456789-a", "key-0123456789-a"}},
		status: http.StatusBadRequest, slug: "idempotency-key-invalid", place: place,
	}}
	for name, key := range map[string]string{
		"empty key":               "",
		"empty quoted key":        `""`,
		"key of one mark":         `"`,
		"key of 15":               strings.Repeat("k", 15),
		"quoted key of 15":        `"` + strings.Repeat("k", 15) + `"`,
		"key of 256":              strings.Repeat("k", 256),
		"key with a space":        "key 0123456789 abc",
		"key with a slash":        "key/0123456789/abc",
		"key with a letter of é":  "clé-0123456789-abc",
		"key with a comma":        "key-0123456789,key-0123456789",
		"key with a semicolon":    "key-0123456789;x=1",
		"key with a percent":      "key-%30123456789",
		"key with a backslash":    `"key-0123\\456789-abc"`,
		"key of opening mark":     `"key-0123456789-abc`,
		"key of closing mark":     `key-0123456789-abc"`,
		"key of a mark within":    `"key-0123"456789-abc"`,
		"key of two quoted":       `"key-0123456789-a", "key-0123456789-b"`,
		"key of an invalid UTF-8": "key-0123456789-\xff\xfe",
	} {
		list.add(bad{
			name: name, header: map[string][]string{"Idempotency-Key": {key}},
			status: http.StatusBadRequest, slug: "idempotency-key-invalid", place: place,
		})
	}
	return list
}

// badCallers are requests without a good API key, on every address that needs one.
func badCallers(s *shop) []bad {
	var list badList
	refuse := func(name, path string, values []string) {
		list.add(bad{
			name: name, path: path, header: map[string][]string{"Authorization": values},
			status: http.StatusUnauthorized, slug: "unauthorized",
		})
	}
	for name, value := range map[string]string{
		"empty": "", "only the scheme": "Bearer", "scheme and a blank": "Bearer ", "unknown": "Bearer paysaga_unknown",
		"revoked": "Bearer " + s.revoked, "Basic": "Basic " + s.merchant, "no scheme": s.merchant,
		"cut short": "Bearer " + s.merchant[:len(s.merchant)-1], "with more": "Bearer " + s.merchant + "x", "two keys": "Bearer " + s.merchant + " x",
	} {
		refuse("API key "+name, "", []string{value})
	}
	refuse("API key missing", "", nil)
	for _, path := range []string{"/v1/stock", "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "/v1/no-such-address"} {
		refuse("API key missing at "+path, path, nil)
	}
	return list
}

// badAddresses are requests to addresses, or with parameters, that do not exist.
func badAddresses() []bad {
	list := badList{
		{name: "DELETE orders", method: http.MethodDelete, status: http.StatusMethodNotAllowed, slug: "method-not-allowed"},
		{name: "POST to docs", path: "/docs", status: http.StatusMethodNotAllowed, slug: "method-not-allowed"},
	}
	for name, path := range map[string]string{
		"unknown route": "/v1/payments", "unknown page": "/nothing", "route with a slash": "/v1/orders/", "root": "/",
		"order that is none": "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "id that is no UUID": "/v1/orders/4711",
		"saga that is none": "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71/saga", "saga's id that is no UUID": "/v1/orders/4711/saga",
		"SKU that is none": "/v1/stock/NO-SUCH-SKU", "problem that is none": "/problems/no-such-problem", "problem of no name": "/problems/NO",
	} {
		list.add(bad{name: name, method: http.MethodGet, path: path, status: http.StatusNotFound, slug: "not-found"})
	}
	for query, place := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=-1": "limit", "limit=abc": "limit", "limit=1.5": "limit", "limit=": "limit",
		"limit=99999999999999999999": "limit", "limit=1&limit=2": "limit",
		"status=paid": "status", "status=CONFIRMED": "status", "status=": "status", "provider=Stripe": "provider", "provider=": "provider",
		"cursor=": "cursor", "cursor=abc": "cursor", "cursor=%21": "cursor", "cursor=MTIz": "cursor", "cursor=" + strings.Repeat("a", 513): "cursor",
	} {
		list.add(badParameter("/v1/orders?"+query, place))
	}
	for _, place := range []string{"x 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "1", "1 4711", "1 ", " ", "-300000000000000000 5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"} {
		list.add(badParameter("/v1/orders?cursor="+base64.RawURLEncoding.EncodeToString([]byte(place)), "cursor"))
	}
	for query, place := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=abc": "limit", "cursor=": "cursor", "cursor=%21": "cursor",
		"cursor=_w": "cursor", "cursor=AA": "cursor", // bytes that are no text, and a zero byte
	} {
		list.add(badParameter("/v1/stock?"+query, place))
	}
	list.add(
		badParameter("/v1/stock/%20", "sku"), badParameter("/v1/stock/A%2FB", "sku"), badParameter("/v1/stock/-A", "sku"),
		badParameter("/v1/stock/"+strings.Repeat("A", 65), "sku"))
	return list
}

func badParameter(path, place string) bad {
	return bad{
		name: "GET " + path[:min(len(path), 40)], method: http.MethodGet, path: path,
		status: http.StatusBadRequest, slug: "invalid-request", place: "parameter " + place,
	}
}

// A method that does not fit tells which do (RFC 9110, 15.5.6).
func TestAllowedMethodsAreTold(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for path, want := range map[string]string{"/v1/orders": "GET, POST", "/v1/stock/MUG": "GET, PUT", "/docs": "GET"} {
		r := s.placing(newKeyText(), theOrder)
		r.method, r.path = http.MethodDelete, path
		got := s.send(t, r)
		got.problem(t, http.StatusMethodNotAllowed, "method-not-allowed")
		if allow := strings.Join(got.header.Values("Allow"), ", "); allow != want {
			t.Errorf("%s: Allow is %q, want %q", path, allow, want)
		}
	}
}

func TestUnauthorizedTellsTheScheme(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	got := s.getAs(t, "", "/v1/orders")
	got.problem(t, http.StatusUnauthorized, "unauthorized")
	if scheme := got.header.Get("WWW-Authenticate"); scheme != `Bearer realm="paysaga"` {
		t.Errorf("WWW-Authenticate is %q", scheme)
	}
}
