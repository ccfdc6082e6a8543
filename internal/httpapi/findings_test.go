package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
)

// tomorrow is a time to come, as JSON has it.
var tomorrow = `"` + time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339) + `"`

// divergence is a finding of reconciliation that no order knows.
func (s *shop) divergence(t *testing.T) uuid.UUID {
	t.Helper()
	return query[uuid.UUID](t, s, `
		INSERT INTO findings (account_id, kind, detail, source, severity, provider, reference, at_stake, currency, repair)
		VALUES ($1, 'missing_locally', 'No order knows this payment.', 'reconciliation', 'critical', 'stripe', $2, 3998, 'EUR', '')
		RETURNING id`, merchantAccount, "pi_"+uuid.NewString())
}

// about sends an operator's word about a finding under a new key.
func (s *shop) about(t *testing.T, finding uuid.UUID, action, body string) answer {
	t.Helper()
	return s.operate(t, s.operator, fmt.Sprintf("/v1/findings/%s/%s", finding, action), body)
}

func (s *shop) operate(t *testing.T, apiKey, path, body string) answer {
	t.Helper()
	r := s.asking(newKeyText(), path, body)
	r.header.Set("Authorization", "Bearer "+apiKey)
	return s.send(t, r)
}

func (s *shop) findingNow(t *testing.T, id uuid.UUID) api.Finding {
	t.Helper()
	return decoded[api.Finding](t, s.getAs(t, s.operator, "/v1/findings/"+id.String()), http.StatusOK)
}

// The list has what sagas and reconciliation found, newest first, and each filter narrows it.
func TestFindingList(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.inReview(t, heldBy("stripe", "pm_card_visa"), "void_refused")
	open, ignored, resolved := s.divergence(t), s.divergence(t), s.divergence(t)
	decoded[api.Finding](t, s.about(t, ignored, "ignore", `{"until":`+tomorrow+`,"reason":"Known."}`), http.StatusOK)
	decoded[api.Finding](t, s.about(t, resolved, "resolve", `{"reason":"Settled."}`), http.StatusOK)
	for query, want := range map[string]int{
		"": 4, "status=open": 2, "status=ignored": 1, "status=resolved": 1, "severity=critical": 3, "severity=low": 0, "provider=stripe": 4,
		"provider=adyen": 0, "kind=missing_locally&status=open": 1, "kind=void_refused": 1,
	} {
		list := decoded[api.FindingList](t, s.getAs(t, s.operator, "/v1/findings?limit=10&"+query), http.StatusOK)
		if len(list.Data) != want {
			t.Errorf("%q lists %d, want %d: %+v", query, len(list.Data), want, list.Data)
		}
	}
	for _, query := range []string{"status=closed", "severity=dire", "provider=Stripe!", "kind=foo", "provider=nobody"} {
		s.getAs(t, s.operator, "/v1/findings?"+query).checkRefusal(t, http.StatusBadRequest, "invalid-request", "parameter "+strings.Split(query, "=")[0])
	}
	one := s.findingNow(t, open)
	want := api.Finding{
		ID: open, Kind: "missing_locally", Severity: "critical", Detail: "No order knows this payment.", CreatedAt: one.CreatedAt,
		LastSeenAt: one.CreatedAt, Status: "open", Source: "reconciliation", Provider: "stripe", ProviderReference: one.ProviderReference,
		Amount: 3998, Currency: "EUR",
	}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("finding (-want +got):\n%s", diff)
	}
	s.getAs(t, s.otherOperator, "/v1/findings/"+open.String()).checkRefusal(t, http.StatusNotFound, "not-found", "")
	s.getAs(t, s.operator, "/v1/findings/"+uuid.NewString()).checkRefusal(t, http.StatusNotFound, "not-found", "")
}

// What a person says about a finding is told by it and by the audit log, once.
func TestFindingsAreDecided(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.divergence(t)
	ignored := decoded[api.Finding](t, s.about(t, id, "ignore", `{"until":`+tomorrow+`,"reason":"The provider looks into it."}`), http.StatusOK)
	if ignored.Status != api.FindingStatusIgnored || `"`+ignored.IgnoredUntil.Format(time.RFC3339)+`"` != tomorrow {
		t.Errorf("ignored: %+v", ignored)
	}
	resolved := decoded[api.Finding](t, s.about(t, id, "resolve", `{"reason":"It was booked."}`), http.StatusOK)
	if resolved.Status != api.FindingStatusResolved || resolved.Resolution != "resolved" || resolved.ResolvedAt.IsZero() {
		t.Errorf("resolved: %+v", resolved)
	}
	s.about(t, id, "ignore", `{"until":`+tomorrow+`,"reason":"Late."}`).checkRefusal(t, http.StatusConflict, "finding-resolved", "")
	s.about(t, id, "resolve", `{"reason":"It was booked again."}`).checkRefusal(t, http.StatusConflict, "finding-resolved", "")
	again := decoded[api.Finding](t, s.about(t, id, "resolve", `{"reason":"It was booked."}`), http.StatusOK)
	if diff := cmp.Diff(resolved, again); diff != "" {
		t.Errorf("resolved a second time in the same words (-first +second):\n%s", diff)
	}
	log := decoded[api.AuditLog](t, s.getAs(t, s.operator, "/v1/audit-log?subject="+id.String()), http.StatusOK)
	told := make([]string, 0, len(log.Data))
	for _, entry := range log.Data {
		told = append(told, entry.Action+": "+entry.Reason)
	}
	if diff := cmp.Diff([]string{"finding.resolved: It was booked.", "finding.ignored: The provider looks into it."}, told); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

// What is refused about a finding writes nothing.
func TestFindingsThatAreNotDecided(t *testing.T) { //nolint:tparallel // its parts share a shop, and count what is written there
	t.Parallel()
	s := newShop(t)
	open := s.divergence(t)
	s.inReview(t, heldBy("stripe", "pm_card_visa"), "void_refused")
	ofSaga := query[uuid.UUID](t, s, `SELECT id FROM findings WHERE source = 'saga'`)
	for name, c := range map[string]struct { //nolint:paralleltest // see above
		finding      uuid.UUID
		action, body string
		status       int
		slug, place  string
	}{
		"no reason":            {open, "resolve", `{}`, 400, "invalid-request", "pointer /reason"},
		"a card number":        {open, "resolve", `{"reason":"card 4111 1111 1111 1111"}`, 400, "invalid-request", "pointer /reason"},
		"no time":              {open, "ignore", `{"reason":"x"}`, 400, "invalid-request", "pointer /until"},
		"no time at all":       {open, "ignore", `{"until":"soon","reason":"x"}`, 400, "invalid-request", "pointer /until"},
		"a time gone by":       {open, "ignore", `{"until":"2020-01-01T00:00:00Z","reason":"x"}`, 400, "invalid-request", "pointer /until"},
		"for ever":             {open, "ignore", `{"until":"2199-01-01T00:00:00Z","reason":"x"}`, 400, "invalid-request", "pointer /until"},
		"of a saga in review":  {ofSaga, "resolve", `{"reason":"x"}`, 409, "finding-in-review", ""},
		"and to be ignored":    {ofSaga, "ignore", `{"until":` + tomorrow + `,"reason":"x"}`, 409, "finding-in-review", ""},
		"none":                 {uuid.New(), "resolve", `{"reason":"x"}`, 404, "not-found", ""},
		"none, and its ignore": {uuid.New(), "ignore", `{"until":` + tomorrow + `,"reason":"x"}`, 404, "not-found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			keys := query[int](t, s, `SELECT count(*) FROM idempotency_keys`)
			s.about(t, c.finding, c.action, c.body).checkRefusal(t, c.status, c.slug, c.place)
			if got := query[int](t, s, `SELECT count(*) FROM idempotency_keys`); got != keys {
				t.Error("the key is used")
			}
			if status := s.findingNow(t, open).Status; status != api.FindingStatusOpen {
				t.Errorf("the finding is %s", status)
			}
		})
	}
}

// A run that is requested waits for a worker.
func TestReconciliationIsRequested(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	asked := s.operate(t, s.operator, "/v1/reconciliations", `{"mode":"apply","providers":["stripe","adyen"],"since":"2025-11-23T01:00:00+01:00","until":"2025-11-30T00:00:00Z"}`)
	run := decoded[api.Reconciliation](t, asked, http.StatusAccepted)
	operatorID := query[string](t, s, `SELECT id::text FROM api_keys WHERE role = 'operator' AND account_id = $1`, merchantAccount)
	want := api.Reconciliation{
		ID: run.ID, Mode: "apply", State: "requested", Stage: "list", Providers: []string{"adyen", "stripe"},
		Since: time.Date(2025, 11, 23, 0, 0, 0, 0, time.UTC), Until: time.Date(2025, 11, 30, 0, 0, 0, 0, time.UTC),
		RequestedBy: "key test (" + operatorID + ")", CreatedAt: run.CreatedAt,
	}
	if diff := cmp.Diff(want, run); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	location := asked.header.Get("Location")
	if got := decoded[api.Reconciliation](t, s.getAs(t, s.operator, location), http.StatusOK); !cmp.Equal(run, got) {
		t.Errorf("read: %+v", got)
	}
	all := decoded[api.Reconciliation](t, s.operate(t, s.otherOperator, "/v1/reconciliations", `{"mode":"plan"}`), http.StatusAccepted)
	if diff := cmp.Diff([]string{"adyen", "paypal", "stripe"}, all.Providers); diff != "" || !all.Since.IsZero() {
		t.Errorf("all providers (-want +got):\n%s, since %s", diff, all.Since)
	}
	first := decoded[api.ReconciliationList](t, s.getAs(t, s.operator, "/v1/reconciliations?limit=1"), http.StatusOK)
	next := decoded[api.ReconciliationList](t, s.getAs(t, s.operator, "/v1/reconciliations?limit=1&cursor="+*first.NextCursor), http.StatusOK)
	if first.Data[0].ID != all.ID || next.Data[0].ID != run.ID || next.NextCursor != nil {
		t.Errorf("pages: %+v, %+v", first, next)
	}
	log := decoded[api.AuditLog](t, s.getAs(t, s.operator, "/v1/audit-log?subject="+run.ID.String()), http.StatusOK)
	if len(log.Data) != 1 || log.Data[0].Action != "reconciliation.requested" {
		t.Errorf("audit log: %+v", log.Data)
	}
	if cut := decoded[api.Reconciliation](t, s.operate(t, s.operator, "/v1/reconciliations", `{"mode":"plan","until":`+tomorrow+`}`), http.StatusAccepted); !cut.Until.IsZero() {
		t.Errorf("until a time to come: %s", cut.Until)
	}
	s.getAs(t, s.operator, "/v1/reconciliations/"+uuid.NewString()).checkRefusal(t, http.StatusNotFound, "not-found", "")
}

// What is refused of a reconciliation writes no run.
func TestReconciliationIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ask := func(body string) answer { return s.operate(t, s.operator, "/v1/reconciliations", body) }
	ask(`{}`).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /mode")
	ask(`{"mode":"do"}`).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /mode")
	ask(`{"mode":"plan","providers":[]}`).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /providers")
	ask(`{"mode":"plan","providers":["stripe","stripe"]}`).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /providers")
	ask(`{"mode":"plan","providers":["nobody"]}`).checkRefusal(t, http.StatusUnprocessableEntity, "provider-not-configured", "")
	ask(`{"mode":"plan","since":"2026-12-01T00:00:00Z","until":"2026-12-01T00:00:00Z"}`).
		checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /until")
	ask(`{"mode":"plan","since":`+tomorrow+`}`).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /since")
	if runs := query[int](t, s, `SELECT count(*) FROM reconciliation_runs`); runs != 0 {
		t.Errorf("%d runs are written", runs)
	}
	for range 10 {
		decoded[api.Reconciliation](t, ask(`{"mode":"plan"}`), http.StatusAccepted)
	}
	ask(`{"mode":"plan"}`).checkRefusal(t, http.StatusConflict, "reconciliation-waiting", "")
}
