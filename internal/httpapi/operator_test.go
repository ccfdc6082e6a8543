package httpapi_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// found brings a saga into review as a provider's notice does that contradicts it.
func (s *shop) found(t *testing.T, key uuid.UUID, kind string) {
	t.Helper()
	ref := saga.Ref{AccountID: merchantAccount, Key: key}
	loaded, err := s.store.Load(t.Context(), ref)
	noError(t, err)
	seized, err := s.store.Seize(t.Context(), ref, loaded.Lease.Fence, s.config.Lease)
	noError(t, err)
	change, err := saga.Advance(seized, saga.Event{Kind: saga.Contradicted, Code: kind, Detail: "It says so."}, saga.DefaultPolicy())
	noError(t, err)
	change.Release = true
	_, err = s.store.Apply(t.Context(), change)
	noError(t, err)
}

func keyIn(t *testing.T, location string) uuid.UUID {
	t.Helper()
	key, err := uuid.Parse(path.Base(location))
	noError(t, err)
	return key
}

// inReview is an order in review.
func (s *shop) inReview(t *testing.T, placed, kind string) uuid.UUID {
	t.Helper()
	key := keyIn(t, s.place(t, newKeyText(), placed).header.Get("Location"))
	s.found(t, key, kind)
	return key
}

// stuckVoid is an order in review whose hold could not be let go of in three sends.
func (s *shop) stuckVoid(t *testing.T) uuid.UUID {
	t.Helper()
	location := s.hold(t, "stripe", "pm_card_visa")
	noError(t, s.sandbox.AddFault(sandbox.Fault{Provider: "stripe", Call: sandbox.CallVoid, Kind: sandbox.FaultErrorBefore, Times: 3}))
	s.ask(t, location+"/cancel", `{}`).order(t, http.StatusAccepted)
	s.sandbox.ClearFaults()
	s.found(t, keyIn(t, location), "void_refused")
	return keyIn(t, location)
}

// decide sends an operator's decision under a new key.
func (s *shop) decide(t *testing.T, key uuid.UUID, action, body string) answer {
	t.Helper()
	r := s.asking(newKeyText(), fmt.Sprintf("/v1/sagas/%s/%s", key, action), body)
	r.header.Set("Authorization", "Bearer "+s.operator)
	return s.send(t, r)
}

func (s *shop) sagaNow(t *testing.T, key uuid.UUID) api.SagaRecord {
	t.Helper()
	return decoded[api.SagaRecord](t, s.getAs(t, s.operator, "/v1/sagas/"+key.String()), http.StatusOK)
}

// Every call of an operator needs an operator's key, whatever is asked and whether it is there or not.
func TestOperatorsCallsNeedAnOperator(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	document, err := api.Load()
	noError(t, err)
	key := s.inReview(t, heldBy("stripe", "pm_card_visa"), "void_refused")
	calls := 0
	for address, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.Tags[0] != "Operators" {
				continue
			}
			calls++
			for _, about := range []string{key.String(), uuid.NewString(), "4711"} {
				address := strings.NewReplacer("{saga}", about, "{finding}", about, "{reconciliation}", about).Replace(address)
				r := s.asking(newKeyText(), address, `{"reason":"none"}`)
				r.method = method
				s.unchanged(t, func() { s.send(t, r).checkRefusal(t, http.StatusForbidden, "operator-required", "") })
				r.header.Del("Authorization")
				s.send(t, r).checkRefusal(t, http.StatusUnauthorized, "unauthorized", "")
			}
		}
	}
	if calls < 13 {
		t.Errorf("only %d calls are an operator's", calls)
	}
	s.getAs(t, s.operator, "/v1/orders/"+key.String()).order(t, http.StatusOK) // and an operator may do what a merchant may
}

// The list has what has no end, the longest unmoved first, and each filter narrows it.
func TestSagaList(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held, confirmed := heldBy("stripe", "pm_card_visa"), keyIn(t, s.place(t, newKeyText(), theOrder).header.Get("Location"))
	first := s.inReview(t, held, "void_refused")
	waits := keyIn(t, s.place(t, newKeyText(), heldBy("adyen", "stored_APPROVED")).header.Get("Location"))
	second := s.inReview(t, theOrder, "capture_failed")
	refund := decoded[api.Refund](t, s.ask(t, "/v1/orders/"+confirmed.String()+"/refunds", `{"amount":1000}`), http.StatusCreated)
	s.found(t, refund.ID, "refund_failed")
	for query, want := range map[string][]uuid.UUID{
		"": {first, waits, second, refund.ID}, "state=needs_review": {first, second, refund.ID}, "state=awaiting": {waits},
		"kind=refund": {refund.ID}, "kind=order&state=needs_review": {first, second}, "provider=adyen": {waits},
		"finding=void_refused": {first}, "finding=no_such": nil, "state=charging": nil,
	} {
		if got := s.listed(t, s.operator, query); !cmp.Equal(got, want, cmpopts.EquateEmpty()) {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
	}
	if got := s.listed(t, s.otherOperator, ""); len(got) != 0 {
		t.Errorf("another account sees %v", got)
	}
	list := decoded[api.SagaList](t, s.getAs(t, s.operator, "/v1/sagas?kind=refund"), http.StatusOK)
	got := list.Data[0]
	want := api.SagaRecord{
		Key: refund.ID, Kind: "refund", State: "needs_review", OrderID: confirmed, Status: "in_review", Provider: "stripe", Amount: 1000,
		Currency: "EUR", Attempts: 2,
		Findings: []api.Finding{{Kind: "refund_failed", Detail: "It says so."}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(time.Time{}), cmpopts.IgnoreFields(api.Finding{}, "ID")); diff != "" {
		t.Errorf("the refund (-want +got):\n%s", diff)
	}
}

// listed walks through all pages of two.
func (s *shop) listed(t *testing.T, apiKey, query string) (keys []uuid.UUID) {
	t.Helper()
	const mostPages = 10
	cursor := ""
	for range mostPages {
		page := decoded[api.SagaList](t, s.getAs(t, apiKey, "/v1/sagas?limit=2&"+query+cursor), http.StatusOK)
		for _, one := range page.Data {
			keys = append(keys, one.Key)
		}
		if page.NextCursor == nil {
			return keys
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	t.Fatalf("more than %d pages", mostPages)
	return nil
}

// What was decided is told with who and why, and what was found is resolved; of it nothing is lost when the same saga comes back.
func TestSagaTellsWhatWasDecided(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := s.inReview(t, theOrder, "capture_failed")
	before := s.sagaNow(t, key)
	if got := fmt.Sprint(before.Decisions); got != "[as_it_is]" || before.Findings[0].ResolvedAt != (time.Time{}) {
		t.Errorf("decisions %s, findings %+v", got, before.Findings)
	}
	const why = "The goods are out; the customer pays by invoice."
	decided := decoded[api.SagaRecord](t, s.decide(t, key, "resolve", `{"resolution":"as_it_is","reason":"`+why+`"}`), http.StatusOK)
	if decided.State != api.SagaStateCompleted || len(decided.Steps) != 3 || decided.Findings != nil || decided.AuditLog != nil {
		t.Errorf("decided: %+v", decided)
	}
	s.found(t, key, "captured_at_provider")
	after := s.sagaNow(t, key)
	operatorID := query[string](t, s, `SELECT id::text FROM api_keys WHERE role = 'operator' AND account_id = $1`, merchantAccount)
	wantAudit := []api.AuditEntry{{
		Actor: "key test (" + operatorID + ")", Action: "saga.as_it_is", Subject: key.String(), Reason: why,
	}}
	if diff := cmp.Diff(wantAudit, after.AuditLog, cmpopts.IgnoreFields(api.AuditEntry{}, "ID", "CreatedAt")); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	wantFindings := []api.Finding{
		{Kind: "capture_failed", Detail: "It says so.", ResolvedAt: after.AuditLog[0].CreatedAt, Resolution: "as_it_is"},
		{Kind: "captured_at_provider", Detail: "It says so."},
	}
	if diff := cmp.Diff(wantFindings, after.Findings, cmpopts.IgnoreFields(api.Finding{}, "ID", "CreatedAt")); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	s.checkFindings(t, key)
	s.checkAuditLog(t, key, after.AuditLog)
}

// checkFindings: the list of findings tells the same.
func (s *shop) checkFindings(t *testing.T, key uuid.UUID) {
	t.Helper()
	for query, want := range map[string]string{
		"": "captured_at_provider capture_failed", "status=open": "captured_at_provider", "status=resolved": "capture_failed",
		"kind=capture_failed": "capture_failed", "status=open&kind=capture_failed": "",
	} {
		var kinds []string
		list := decoded[api.FindingList](t, s.getAs(t, s.operator, "/v1/findings?"+query), http.StatusOK)
		for _, f := range list.Data {
			kinds = append(kinds, f.Kind)
			if f.SagaKey == nil || *f.SagaKey != key || f.OrderID == nil || *f.OrderID != key {
				t.Errorf("finding %+v", f)
			}
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("findings?%s: %q, want %q", query, got, want)
		}
	}
	page := decoded[api.FindingList](t, s.getAs(t, s.operator, "/v1/findings?limit=1"), http.StatusOK)
	next := decoded[api.FindingList](t, s.getAs(t, s.operator, "/v1/findings?limit=1&cursor="+*page.NextCursor), http.StatusOK)
	if next.Data[0].Kind != "capture_failed" || next.NextCursor != nil {
		t.Errorf("second page %+v", next)
	}
	s.getAs(t, s.otherOperator, "/v1/sagas/"+key.String()).checkRefusal(t, http.StatusNotFound, "not-found", "")
}

// checkAuditLog: the audit log has what the saga tells of it, and all else, page by page.
func (s *shop) checkAuditLog(t *testing.T, key uuid.UUID, ofSaga []api.AuditEntry) {
	t.Helper()
	log := decoded[api.AuditLog](t, s.getAs(t, s.operator, "/v1/audit-log?subject="+strings.ToUpper(key.String())), http.StatusOK)
	if diff := cmp.Diff(ofSaga, log.Data); diff != "" {
		t.Errorf("audit log (-saga +list):\n%s", diff)
	}
	seen, cursor := 0, ""
	for {
		page := decoded[api.AuditLog](t, s.getAs(t, s.operator, "/v1/audit-log?limit=1"+cursor), http.StatusOK)
		if seen += len(page.Data); page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if want := query[int](t, s, `SELECT count(*) FROM audit_log WHERE account_id = $1`, merchantAccount); seen != want {
		t.Errorf("the audit log has %d entries, listed are %d", want, seen)
	}
	for _, path := range []string{"/v1/findings", "/v1/audit-log?subject=" + key.String()} {
		if got := s.getAs(t, s.otherOperator, path); got.body != `{"data":[],"next_cursor":null}`+"\n" {
			t.Errorf("another account reads %s", got.body)
		}
	}
}

// A decision that is refused writes nothing, and tells why.
func TestDecisionsThatAreRefused(t *testing.T) { //nolint:tparallel // its parts share a shop, and count what is written there
	t.Parallel()
	s := newShop(t)
	held, sold := s.inReview(t, heldBy("stripe", "pm_card_visa"), "void_refused"), s.inReview(t, theOrder, "capture_failed")
	confirmed := keyIn(t, s.place(t, newKeyText(), theOrder).header.Get("Location"))
	others := s.orderNow(t, "/v1/orders/"+confirmed.String()).Payment.ProviderReference
	heldPayment := s.orderNow(t, "/v1/orders/"+held.String()).Payment.ProviderReference
	taken := func(payment string, amount int) string {
		return fmt.Sprintf(`{"resolution":"taken","reason":"See there.","payment":%q,"amount":%d}`, payment, amount)
	}
	for name, c := range map[string]struct { //nolint:paralleltest // see above
		key          uuid.UUID
		action, body string
		status       int
		slug, place  string
	}{
		"no reason":                 {held, "retry", `{}`, 400, "invalid-request", "pointer /reason"},
		"empty reason":              {held, "retry", `{"reason":""}`, 400, "invalid-request", "pointer /reason"},
		"blank reason":              {held, "cancel", `{"reason":" \n"}`, 400, "invalid-request", "pointer /reason"},
		"long reason":               {held, "retry", `{"reason":"` + strings.Repeat("é", 1001) + `"}`, 400, "invalid-request", "pointer /reason"},
		"reason with U+0000":        {held, "retry", `{"reason":"a\u0000b"}`, 400, "invalid-request", "pointer /reason"},
		"reason with a card number": {held, "retry", `{"reason":"card 4111 1111-1111.1111 is hers"}`, 400, "invalid-request", "pointer /reason"},
		"payment is a card number":  {held, "resolve", taken("4111111111111111", 3998), 400, "invalid-request", "pointer /payment"},
		"taken without a payment":   {held, "resolve", `{"resolution":"taken","reason":"x","amount":1}`, 400, "invalid-request", "pointer /payment"},
		"taken without an amount":   {held, "resolve", `{"resolution":"taken","reason":"x","payment":"pi_1"}`, 400, "invalid-request", "pointer /amount"},
		"payment of nothing kept":   {held, "resolve", `{"resolution":"nothing_kept","reason":"x","payment":"pi_1"}`, 400, "invalid-request", "pointer /payment"},
		"amount of nothing kept":    {held, "resolve", `{"resolution":"nothing_kept","reason":"x","amount":5}`, 400, "invalid-request", "pointer /amount"},
		"taken outside":             {held, "resolve", changed(t, taken("pi_1", 3998), `"amount"`, `"outside_provider":true,"amount"`), 400, "invalid-request", "pointer /outside_provider"},
		"retry as a resolution":     {held, "resolve", `{"resolution":"retry","reason":"x"}`, 400, "invalid-request", "pointer /resolution"},
		"no such resolution":        {held, "resolve", `{"resolution":"gone","reason":"x"}`, 400, "invalid-request", "pointer /resolution"},

		"of a saga that is none": {uuid.New(), "retry", `{"reason":"x"}`, 404, "not-found", ""},
		"not in review":          {confirmed, "resolve", `{"resolution":"as_it_is","reason":"x"}`, 409, "not-in-review", ""},
		"retry of what is over":  {confirmed, "retry", `{"reason":"x"}`, 409, "order-over", ""},
		"cancel of what is paid": {confirmed, "cancel", `{"reason":"x"}`, 409, "refund-instead", ""},
		"as it is, of one held":  {held, "resolve", `{"resolution":"as_it_is","reason":"x"}`, 409, "decision-unfit", ""},
		"given, of an order":     {held, "resolve", `{"resolution":"given","reason":"x"}`, 409, "decision-unfit", ""},
		"retry of what is sold":  {sold, "retry", `{"reason":"x"}`, 409, "decision-unfit", ""},
		"cancel of what is sold": {sold, "cancel", `{"reason":"x"}`, 409, "decision-unfit", ""},
		"taken too much":         {held, "resolve", taken(heldPayment, 3999), 422, "amount-too-large", "pointer /amount"},
		"taken, and it is held":  {held, "resolve", taken(heldPayment, 3998), 409, "decision-contradicted", ""},
		"taken, by another's":    {held, "resolve", taken(others, 3998), 409, "decision-contradicted", ""},
		"taken, by none":         {held, "resolve", taken("pi_00000000000000000000000000", 3998), 409, "decision-contradicted", ""},
		"nothing kept, is held":  {held, "resolve", `{"resolution":"nothing_kept","reason":"x"}`, 409, "decision-contradicted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, calls := s.writes(t), s.gate.sent.Load()
			s.decide(t, c.key, c.action, c.body).checkRefusal(t, c.status, c.slug, c.place)
			if after := s.writes(t); after != before {
				t.Errorf("%d transactions wrote something", after-before)
			}
			if asked := s.gate.sent.Load() - calls; asked > 0 != (c.slug == "decision-contradicted") {
				t.Errorf("the provider was asked %d times", asked)
			}
		})
	}
}

// A payment whose id another order has cannot be taken for this one, also where the provider cannot be asked.
func TestPaymentOfAnotherOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	adyens := payingWith(`{"provider":"adyen","method":"stored_APPROVED"}`)
	paid := s.place(t, newKeyText(), adyens).order(t, http.StatusCreated)
	key := s.inReview(t, heldBy("adyen", "stored_APPROVED"), "capture_overdue")
	body := `{"resolution":"taken","reason":"See the Customer Area.","amount":3998,"payment":"` + paid.Payment.ProviderReference + `"}`
	s.unchanged(t, func() { s.decide(t, key, "resolve", body).checkRefusal(t, http.StatusConflict, "decision-unfit", "") })
	own := s.orderNow(t, "/v1/orders/"+key.String()).Payment.ProviderReference
	decoded[api.SagaRecord](t, s.decide(t, key, "resolve", strings.Replace(body, paid.Payment.ProviderReference, own, 1)), http.StatusOK)
	if order := s.orderNow(t, "/v1/orders/"+key.String()); order.Status != api.OrderStatusConfirmed || order.Payment.CapturedAmount != 3998 {
		t.Errorf("order %s, captured %d", order.Status, order.Payment.CapturedAmount)
	}
}

// A provider that does not answer refuses nothing; one that is put right confirms what was decided.
func TestDecisionsAskTheProvider(t *testing.T) {
	t.Parallel()
	const nothingKept = `{"resolution":"nothing_kept","reason":"Canceled in the dashboard."}`
	for name, c := range map[string]struct {
		befall func(t *testing.T, s *shop, payment string)
		body   string
	}{
		"it is down": {func(t *testing.T, s *shop, _ string) {
			t.Helper()
			noError(t, s.sandbox.AddFault(sandbox.Fault{Provider: "stripe", Call: sandbox.CallLookup, Kind: sandbox.FaultErrorBefore, Times: 10}))
		}, nothingKept},
		"it is put right": {func(t *testing.T, s *shop, payment string) {
			t.Helper()
			s.atStripe(t, "/payment_intents/"+payment+"/cancel", nil)
		}, nothingKept},
		"it does not count": {func(*testing.T, *shop, string) {}, `{"resolution":"nothing_kept","reason":"Bank transfer.","outside_provider":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			key := s.inReview(t, heldBy("stripe", "pm_card_visa"), "void_refused")
			c.befall(t, s, s.orderNow(t, "/v1/orders/"+key.String()).Payment.ProviderReference)
			decided := decoded[api.SagaRecord](t, s.decide(t, key, "resolve", c.body), http.StatusOK)
			if decided.State != api.SagaStateRolledBack || decided.Status != "canceled" {
				t.Errorf("the saga is %s, the order %s", decided.State, decided.Status)
			}
			s.wantAudited(t, key, strings.Contains(c.body, "outside"))
			if got := s.stock(t, "TSHIRT-M"); got != "0 of 100" {
				t.Errorf("stock: %s", got)
			}
		})
	}
}

func (s *shop) wantAudited(t *testing.T, key uuid.UUID, outside bool) {
	t.Helper()
	audit := s.sagaNow(t, key).AuditLog
	if len(audit) != 1 || audit[0].OutsideProvider != outside {
		t.Errorf("audit log %+v, want one entry, outside the provider %t", audit, outside)
	}
}

// A decision whose provider takes its time is answered 202, and the saga goes on by itself.
func TestDecisionUnderWay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := s.inReview(t, heldBy("adyen", "stored_APPROVED"), "void_refused")
	got := s.decide(t, key, "cancel", `{"reason":"The customer has called."}`)
	if under := decoded[api.SagaRecord](t, got, http.StatusAccepted); under.State != api.SagaStateCompensating {
		t.Errorf("the saga is %s", under.State)
	}
	if location := got.header.Get("Location"); location != "/v1/sagas/"+key.String() {
		t.Errorf("Location is %q", location)
	}
	if now := s.sagaNow(t, key); now.NextAttemptAt.IsZero() || now.State != api.SagaStateCompensating {
		t.Errorf("the saga is %s, next at %s", now.State, now.NextAttemptAt)
	}
}
