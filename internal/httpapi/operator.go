package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/saga"
)

// operatorPaths are the addresses, with all below them, that need an operator's key.
var operatorPaths = []string{"/v1/sagas", "/v1/findings", "/v1/reconciliations", "/v1/audit-log"}

// operatorsOnly keeps a shop's own keys from what people decide. It comes right behind the authentication, so that such a key learns
// nothing of what is there.
func (s *server) operatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range operatorPaths {
			below := r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/")
			if key, _ := keyOf(r.Context()); below && key.Role != account.Operator {
				s.fail(w, r, errOperatorRequired)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

var errOperatorRequired = newProblem(operatorRequired,
	"This API key has the role of a %s. Use one that was made with --role %s.", account.Merchant, account.Operator)

// ListSagas shows the sagas of an account that have no end yet, the longest unmoved first.
func (s *server) ListSagas(w http.ResponseWriter, r *http.Request, params api.ListSagasParams) {
	limit := limitOf(params.Limit)
	filter := saga.ReviewFilter{ // one more tells whether there is a next page
		State: saga.State(value(params.State)), Kind: saga.Kind(value(params.Kind)), Provider: value(params.Provider),
		Finding: value(params.Finding), Limit: limit + 1,
	}
	if params.Cursor != nil {
		at, key, err := readPlace(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.After = &saga.ReviewPlace{UpdatedAt: at, Key: key}
	}
	found, err := s.Store.ListReviews(r.Context(), accountOf(r.Context()), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	show := func(review saga.Review) api.SagaRecord {
		shown := showSaga(review.Saga)
		shown.Findings = showFindings(review.Findings)
		return shown
	}
	var list api.SagaList
	list.Data, list.NextCursor = onePage(found, limit, show,
		func(last saga.Review) string { return writePlace(last.Saga.UpdatedAt, last.Saga.Key) })
	s.sendJSON(w, r, list)
}

// GetSaga shows one saga with all that was found and decided about it.
func (s *server) GetSaga(w http.ResponseWriter, r *http.Request, key api.SagaKey) {
	review, err := s.Store.GetReview(r.Context(), accountOf(r.Context()), key)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	shown := showSaga(review.Saga)
	shown.Steps, shown.Findings = showSteps(review.Saga), showFindings(review.Findings)
	shown.AuditLog, shown.Decisions = showAudit(review.Audit), []api.DecisionName{}
	for _, resolution := range s.Runner.Fitting(review.Saga) {
		shown.Decisions = append(shown.Decisions, api.DecisionName(resolution))
	}
	s.sendJSON(w, r, shown)
}

// ListAuditLog shows who did what by hand, newest first.
func (s *server) ListAuditLog(w http.ResponseWriter, r *http.Request, params api.ListAuditLogParams) {
	limit := limitOf(params.Limit)
	filter := saga.AuditFilter{Subject: value(params.Subject), Limit: limit + 1}
	if id, err := uuid.Parse(filter.Subject); err == nil {
		filter.Subject = id.String() // as it is kept, however it is spelled
	}
	if params.Cursor != nil {
		before, err := readEntry(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.Before = before
	}
	found, err := s.Store.ListAudit(r.Context(), accountOf(r.Context()), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	list := api.AuditLog{Data: showAudit(found[:min(limit, len(found))])}
	if len(found) > limit {
		list.NextCursor = new(writeEntry(found[limit-1].ID))
	}
	s.sendJSON(w, r, list)
}

// writeEntry is the cursor of the audit log: the id of the last entry of the page before.
func writeEntry(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(id, 10)))
}

// readEntry takes only what writeEntry writes.
func readEntry(cursor string) (int64, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, fmt.Errorf("decode cursor: %w", err)
	}
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || id <= 0 || writeEntry(id) != cursor {
		return 0, fmt.Errorf("read cursor's id: %w", errors.Join(err, errBadCursor))
	}
	return id, nil
}

// showSaga is a saga as an operator sees it, without its steps and what was found.
func showSaga(s saga.Saga) api.SagaRecord {
	shown := api.SagaRecord{
		Key: s.Key, Kind: api.SagaKind(s.Kind), State: api.SagaState(s.State), OrderID: s.Order.ID, Status: string(s.Order.Status),
		Provider: s.Order.Payment.Provider, Amount: s.Order.Amount, Currency: s.Order.Currency, Attempts: s.Drives, Failures: s.Failures,
		DeadlineAt: utc(s.DeadlineAt), NextAttemptAt: utc(s.NextAt), CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	if s.Refund != nil {
		shown.Status, shown.Amount = string(s.Refund.Status), s.Refund.Amount
	}
	if s.Lease.Until.After(s.ReadAt) {
		shown.LockedUntil = s.Lease.Until.UTC()
	}
	return shown
}

func showFindings(findings []saga.FindingRecord) []api.Finding {
	shown := make([]api.Finding, 0, len(findings))
	for _, finding := range findings {
		shown = append(shown, showFinding(finding))
	}
	return shown
}

func showFinding(f saga.FindingRecord) api.Finding {
	return api.Finding{
		ID: f.ID, Kind: f.Kind, Detail: f.Detail, CreatedAt: f.CreatedAt.UTC(), ResolvedAt: utc(f.ResolvedAt), Resolution: f.Resolution,
	}
}

func showAudit(entries []saga.AuditEntry) []api.AuditEntry {
	shown := make([]api.AuditEntry, 0, len(entries))
	for _, e := range entries {
		shown = append(shown, api.AuditEntry{
			ID: e.ID, Actor: e.Actor, Action: e.Action, Subject: e.Subject, Reason: e.Reason, OutsideProvider: e.OutsideProvider,
			CreatedAt: e.CreatedAt.UTC(),
		})
	}
	return shown
}

// value is what an optional parameter says, or the zero value.
func value[T any](parameter *T) T {
	if parameter == nil {
		var zero T
		return zero
	}
	return *parameter
}
