package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paysaga/api"
	"paysaga/internal/idempotency"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const good = "https://pay.example.com"
	for name, test := range map[string]struct {
		config Config
		fine   bool
	}{
		"https":                 {Config{BaseURL: good, APIKey: "k"}, true},
		"below a path":          {Config{BaseURL: good + "/paysaga/", APIKey: "k"}, true},
		"loopback":              {Config{BaseURL: "http://127.0.0.1:8080", APIKey: "k"}, true},
		"loopback, version 6":   {Config{BaseURL: "http://[::1]:8080", APIKey: "k"}, true},
		"localhost":             {Config{BaseURL: "http://localhost:8080", APIKey: "k"}, true},
		"plain":                 {Config{BaseURL: "http://pay.example.com", APIKey: "k"}, false},
		"plain to an address":   {Config{BaseURL: "http://10.0.0.1", APIKey: "k"}, false},
		"looks like localhost":  {Config{BaseURL: "http://localhost.example.com", APIKey: "k"}, false},
		"plain, and allowed":    {Config{BaseURL: "http://pay.internal", APIKey: "k", AllowPlainHTTP: true}, true},
		"no address":            {Config{APIKey: "k"}, false},
		"no scheme":             {Config{BaseURL: "pay.example.com", APIKey: "k"}, false},
		"another scheme":        {Config{BaseURL: "ftp://pay.example.com", APIKey: "k", AllowPlainHTTP: true}, false},
		"user":                  {Config{BaseURL: "https://me:hunter2@pay.example.com", APIKey: "k"}, false},
		"query":                 {Config{BaseURL: good + "?a=b", APIKey: "k"}, false},
		"empty query":           {Config{BaseURL: good + "?", APIKey: "k"}, false},
		"fragment":              {Config{BaseURL: good + "#a", APIKey: "k"}, false},
		"unreadable":            {Config{BaseURL: "https://%zz:hunter2", APIKey: "k"}, false},
		"no API key":            {Config{BaseURL: good}, false},
		"API key with a break":  {Config{BaseURL: good, APIKey: "hunter2\n"}, false},
		"negative pause":        {Config{BaseURL: good, APIKey: "k", BaseBackoff: -1}, false},
		"negative longest":      {Config{BaseURL: good, APIKey: "k", MaxBackoff: -1}, false},
		"negative timeout":      {Config{BaseURL: good, APIKey: "k", AttemptTimeout: -1}, false},
		"negative attempts":     {Config{BaseURL: good, APIKey: "k", MaxAttempts: -1}, false},
		"a client of one's own": {Config{BaseURL: good, APIKey: "k", HTTPClient: &http.Client{}}, true},
	} {
		c, err := New(test.config)
		if (err == nil) != test.fine || (c == nil) == test.fine {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows what is secret: %v", name, err)
		}
	}
	mine := &http.Client{}
	if _, err := New(Config{BaseURL: good, APIKey: "k", HTTPClient: mine}); err != nil || mine.CheckRedirect != nil {
		t.Errorf("the given client is changed, or %v", err)
	}
}

// TestKeysAreTheServers: the client takes the keys that the server takes, and no others.
func TestKeysAreTheServers(t *testing.T) {
	t.Parallel()
	texts := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9._~:-]{14,18}`), rapid.StringMatching(`[A-Za-z0-9._~:-]{253,257}`), rapid.StringN(14, 300, -1),
		rapid.StringMatching(`[A-Za-z0-9._~:-]{16}[ -~]`),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		key, err := ParseKey(text)
		_, serverErr := idempotency.ParseKey([]string{text})
		bare := text == strings.Trim(text, " \t\"") // the header may also be quoted, and in white space; a stored key is not
		if (err == nil) != (serverErr == nil && bare) {
			t.Fatalf("client: %v, server: %v", err, serverErr)
		}
		if err != nil && (!errors.Is(err, ErrInvalidKey) || !key.IsZero() || strings.Contains(err.Error(), text)) {
			t.Fatalf("%v", err)
		}
		if err == nil && key.String() != text {
			t.Fatalf("%q", key)
		}
	})
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	first, second := NewKey(), NewKey()
	id, err := uuid.Parse(first.String())
	if err != nil || id.Version() != 4 || first == second {
		t.Errorf("%s, %s: %v", first, second, err)
	}
	if again, err := ParseKey(first.String()); err != nil || again != first {
		t.Errorf("%s: %v", again, err)
	}
}

// TestKeyIsStored with its intent, and never the absence of one.
func TestKeyIsStored(t *testing.T) {
	t.Parallel()
	type intent struct {
		Key Key `json:"key"`
	}
	want := intent{NewKey()}
	stored, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got intent
	if err := json.Unmarshal(stored, &got); err != nil || got != want {
		t.Errorf("%s: %v", stored, err)
	}
	if stored, err := json.Marshal(intent{}); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("no key is stored as %s: %v", stored, err)
	}
	if err := json.Unmarshal([]byte(`{"key":"short"}`), &got); !errors.Is(err, ErrInvalidKey) || got != want {
		t.Errorf("%v", err)
	}
}

func TestKeyIsNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	key := NewKey()
	slog.New(slog.NewJSONHandler(&log, nil)).Info("order", "key", key, "none", Key{})
	if strings.Contains(log.String(), key.String()) || !strings.Contains(log.String(), key.String()[:8]+"…") {
		t.Error(log.String())
	}
}

// TestRequests: each method's request, by the contract. The end-to-end test sends them to the real handlers.
func TestRequests(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71")
	at, ofSaga, ofFinding := "/below/v1/orders/"+id.String(), "/below/v1/sagas/"+id.String(), "/below/v1/findings/"+id.String()
	for name, test := range map[string]struct {
		call         func(context.Context, *Client, Key) error
		method, path string
		body         string // "": not looked at
	}{
		"create": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.CreateOrder(ctx, k, order())
			return err
		}, "POST", "/below/v1/orders", ""},
		"continue": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.ContinueOrder(ctx, k, id, api.ContinueRequest{})
			return err
		}, "POST", at + "/continue", `{}`},
		"capture": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.CaptureOrder(ctx, k, id, api.CaptureRequest{Amount: 7})
			return err
		}, "POST", at + "/capture", `{"amount":7}`},
		"cancel": {func(ctx context.Context, c *Client, k Key) error { _, err := c.CancelOrder(ctx, k, id); return err }, "POST", at + "/cancel", `{}`},
		"refund": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.Refund(ctx, k, id, api.RefundRequest{Amount: 7, Reason: "worn"})
			return err
		}, "POST", at + "/refunds", `{"amount":7,"reason":"worn"}`},
		"retry": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.RetrySaga(ctx, k, id, "why")
			return err
		}, "POST", ofSaga + "/retry", `{"reason":"why"}`},
		"resolve": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.ResolveSaga(ctx, k, id, api.ResolveRequest{Resolution: api.ResolutionTaken, Reason: "why", Payment: "pi_1", Amount: 7})
			return err
		}, "POST", ofSaga + "/resolve", `{"resolution":"taken","reason":"why","payment":"pi_1","amount":7}`},
		"give up": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.CancelSaga(ctx, k, id, "why")
			return err
		}, "POST", ofSaga + "/cancel", `{"reason":"why"}`},
		"resolve finding": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.ResolveFinding(ctx, k, id, "why")
			return err
		}, "POST", ofFinding + "/resolve", `{"reason":"why"}`},
		"ignore finding": {func(ctx context.Context, c *Client, k Key) error {
			until := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
			_, err := c.IgnoreFinding(ctx, k, id, api.IgnoreRequest{Until: until, Reason: "why"})
			return err
		}, "POST", ofFinding + "/ignore", `{"until":"2026-12-24T00:00:00Z","reason":"why"}`},
		"reconcile": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.CreateReconciliation(ctx, k, api.ReconciliationRequest{Mode: api.ReconciliationModePlan, Providers: []string{"stripe"}})
			return err
		}, "POST", "/below/v1/reconciliations", `{"mode":"plan","providers":["stripe"]}`},
		"notes": {func(ctx context.Context, c *Client, k Key) error {
			_, err := c.UpdateMetadata(ctx, k, id, api.OrderPatch{Metadata: map[string]*string{"color": new("blue"), "cart": nil}})
			return err
		}, "PATCH", at, `{"metadata":{"cart":null,"color":"blue"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				c, closeAll := open(t, s, func(c *Config) { c.BaseURL += "/below/"; c.UserAgent = "shop/1" })
				defer closeAll()
				if err := test.call(t.Context(), c, Key{}); !errors.Is(err, ErrInvalidKey) || len(s.requests) != 0 {
					t.Errorf("without a key: %v", err)
				}
				key := NewKey()
				if err := test.call(t.Context(), c, key); err != nil {
					t.Fatal(err)
				}
				got := s.requests[0]
				header := []string{got.header.Get("Authorization"), got.header.Get("Content-Type"), got.header.Get("User-Agent")}
				if got.method != test.method || got.path != test.path || got.key != key.String() || test.body != "" && got.body != test.body ||
					!slices.Equal(header, []string{"Bearer " + testAPIKey, "application/json", "shop/1"}) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestReads carry no key.
func TestReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		c, closeAll := open(t, s, nil)
		defer closeAll()
		id := uuid.New()
		_, orderErr := c.GetOrder(t.Context(), id)
		_, refundErr := c.GetRefund(t.Context(), id, id)
		_, findingErr := c.GetFinding(t.Context(), id)
		_, runErr := c.GetReconciliation(t.Context(), id)
		if err := errors.Join(orderErr, refundErr, findingErr, runErr); err != nil {
			t.Fatal(err)
		}
		for i, path := range []string{
			"/v1/orders/" + id.String(), "/v1/orders/" + id.String() + "/refunds/" + id.String(), "/v1/findings/" + id.String(),
			"/v1/reconciliations/" + id.String(),
		} {
			if got := s.requests[i]; got.method != http.MethodGet || got.path != path || got.key != "" || got.header.Get("Content-Type") != "" {
				t.Errorf("%+v", got)
			}
		}
	})
}

// TestBodyThatIsNoJSON is not sent.
func TestBodyThatIsNoJSON(t *testing.T) {
	t.Parallel()
	c, err := New(Config{BaseURL: "https://pay.example.com", APIKey: testAPIKey})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ContinueOrder(t.Context(), NewKey(), uuid.New(), api.ContinueRequest{Details: json.RawMessage(`{`)})
	_, unknown := errors.AsType[*UnknownOutcomeError](err)
	if err == nil || unknown {
		t.Errorf("%v", err)
	}
}

func pageOf(next string, ids ...string) http.HandlerFunc {
	data := make([]string, 0, len(ids))
	for _, id := range ids {
		data = append(data, `{"id":"00000000-0000-0000-0000-00000000000`+id+`"}`)
	}
	return answering(http.StatusOK, "application/json", `{"data":[`+strings.Join(data, ",")+`],"next_cursor":`+next+`}`)
}

// TestListOrders goes from page to page, asks again for one that was lost, and ends.
func TestListOrders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pages   scripted
		stopAt  int
		want    string
		fails   bool
		queries []string
	}{
		"none":           {scripted{pageOf("null")}, 9, "", false, []string{"limit=2&provider=stripe&status=confirmed"}},
		"two pages":      {scripted{pageOf(`"a b"`, "1", "2"), pageOf("null", "3")}, 9, "123", false, []string{"limit=2&provider=stripe&status=confirmed", "cursor=a+b&limit=2&provider=stripe&status=confirmed"}},
		"left early":     {scripted{pageOf(`"a"`, "1", "2"), pageOf("null", "3")}, 2, "12", false, []string{"limit=2&provider=stripe&status=confirmed"}},
		"a lost page":    {scripted{pageOf(`"a"`, "1"), answering(503, "text/html", ""), pageOf("null", "2")}, 9, "12", false, nil},
		"a refused page": {scripted{pageOf(`"a"`, "1"), answering(400, "application/problem+json", `{"type":"/problems/invalid-request"}`)}, 9, "1", true, nil},
		"no end":         {scripted{pageOf(`"a"`, "1")}, 9, "11", true, nil},
		"empty pages":    {scripted{pageOf(`"a"`)}, 9, "", true, nil},
		"no page":        {scripted{answering(200, "application/json", `{}`), pageOf("null", "1")}, 9, "1", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var queries []string
				c, closeAll := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					queries = append(queries, r.URL.RawQuery)
					test.pages.ServeHTTP(w, r)
				}), nil)
				defer closeAll()
				got, failure := takeOrders(t.Context(), c, test.stopAt)
				if got != test.want || (failure != nil) != test.fails {
					t.Errorf("%q, want %q: %v", got, test.want, failure)
				}
				if test.queries != nil && !cmp.Equal(queries, test.queries) {
					t.Error(cmp.Diff(test.queries, queries))
				}
			})
		})
	}
}

// takeOrders gives the last digits of the orders' ids, of so many at most.
func takeOrders(ctx context.Context, c *Client, stopAt int) (got string, failure error) {
	for order, err := range c.ListOrders(ctx, OrderFilter{Status: api.OrderStatusConfirmed, Provider: "stripe", PageSize: 2}) {
		if err != nil {
			failure = err
			continue // the loop has to end by itself
		}
		got += order.ID.String()[35:]
		if len(got) == stopAt {
			break
		}
	}
	return got, failure
}
