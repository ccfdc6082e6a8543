package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/reconcile"
	"paysaga/saga"
)

// ReconcileStore is what the API reads and writes of reconciliation. Where a key is held and an answer made, both are in one transaction
// with the change. Errors: saga.ErrNotFound, reconcile.ErrFindingInReview, ErrFindingResolved, and of RequestRun ErrBusy: enough runs wait.
// About the key they are those of StockStore.
type ReconcileStore interface {
	ReadFindings(ctx context.Context, filter reconcile.FindingFilter) ([]reconcile.Kept, error)
	ReadFinding(ctx context.Context, accountID string, id uuid.UUID) (reconcile.Kept, error)
	ResolveFinding(
		ctx context.Context, accountID string, id uuid.UUID, note reconcile.Note,
		held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
	) (reconcile.Kept, error)
	IgnoreFinding(
		ctx context.Context, accountID string, id uuid.UUID, note reconcile.Note,
		held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
	) (reconcile.Kept, error)
	ListRuns(ctx context.Context, filter reconcile.RunFilter) ([]reconcile.Run, error)
	GetRun(ctx context.Context, id uuid.UUID) (reconcile.Run, error)
	// RequestRun writes a run for a worker to take up.
	RequestRun(
		ctx context.Context, accountID string, run reconcile.Run, held *idempotency.Held, answer func(reconcile.Run) (saga.Answer, error),
	) (reconcile.Run, error)
}

// CreateReconciliation writes a run down for a worker to take up.
func (s *server) CreateReconciliation(w http.ResponseWriter, r *http.Request, _ api.CreateReconciliationParams) {
	s.answerHeld(w, r, createReconciliationEndpoint, func(w http.ResponseWriter, r *http.Request) (heldIntent, error) {
		var request api.ReconciliationRequest
		if err := s.decode(w, r, "ReconciliationRequest", &request); err != nil {
			return heldIntent{}, err
		}
		run, err := s.readRun(request)
		if err != nil {
			return heldIntent{}, err
		}
		run.RequestedBy = actorOf(r.Context())
		return heldIntent{runFingerprint(request), func(ctx context.Context, held *idempotency.Held) (saga.Answer, error) {
			var given saga.Answer
			_, err := s.Store.RequestRun(ctx, held.AccountID, run, held, func(written reconcile.Run) (saga.Answer, error) {
				var err error
				given, err = jsonAnswer(http.StatusAccepted, "/v1/reconciliations/"+written.ID.String(), showRun(written))
				return given, err
			})
			return given, err
		}}, nil
	})
}

// readRun checks what the contract's schema cannot say. An end that is yet to come is none: the run goes as far as the providers tell.
func (s *server) readRun(request api.ReconciliationRequest) (reconcile.Run, error) {
	var found places
	now := time.Now()
	switch {
	case !request.Since.IsZero() && !request.Until.IsZero() && !request.Since.Before(request.Until):
		found.addf("/until", "It is not after since.")
	case request.Since.After(now):
		found.addf("/since", "This time is yet to come.")
	}
	if err := found.problem(); err != nil {
		return reconcile.Run{}, err
	}
	run := reconcile.Run{
		Mode: reconcile.Mode(request.Mode), Providers: slices.Sorted(slices.Values(s.Providers)), Since: request.Since, Until: request.Until,
		State: reconcile.RunRequested, Stage: reconcile.StageList,
	}
	if run.Until.After(now) {
		run.Until = time.Time{}
	}
	if request.Providers == nil {
		return run, nil
	}
	for _, provider := range request.Providers {
		if !slices.Contains(s.Providers, provider) {
			return reconcile.Run{}, newProblem(providerUnknown, "This server is not set up for %q.", provider)
		}
	}
	run.Providers = slices.Sorted(slices.Values(request.Providers))
	return run, nil
}

// runFingerprint is over the providers in their order: a run goes through them in that, however they are named.
func runFingerprint(r api.ReconciliationRequest) idempotency.Fingerprint {
	meant := idempotency.NewIntent("reconcile 1").String("mode", string(r.Mode))
	for _, provider := range slices.Sorted(slices.Values(r.Providers)) {
		meant.String("provider", provider)
	}
	if !r.Since.IsZero() {
		meant.String("since", r.Since.UTC().Format(time.RFC3339Nano))
	}
	if !r.Until.IsZero() {
		meant.String("until", r.Until.UTC().Format(time.RFC3339Nano))
	}
	return meant.Fingerprint()
}

// ListReconciliations shows the runs, newest first.
func (s *server) ListReconciliations(w http.ResponseWriter, r *http.Request, params api.ListReconciliationsParams) {
	limit := limitOf(params.Limit)
	filter := reconcile.RunFilter{Limit: limit + 1}
	if params.Cursor != nil {
		at, id, err := readPlace(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.Before = &reconcile.RunPlace{CreatedAt: at, ID: id}
	}
	found, err := s.Store.ListRuns(r.Context(), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var list api.ReconciliationList
	list.Data, list.NextCursor = onePage(found, limit, showRun,
		func(last reconcile.Run) string { return writePlace(last.CreatedAt, last.ID) })
	s.sendJSON(w, r, list)
}

// GetReconciliation shows how a run stands.
func (s *server) GetReconciliation(w http.ResponseWriter, r *http.Request, id api.ReconciliationID) {
	run, err := s.Store.GetRun(r.Context(), id)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showRun(run))
}

func showRun(run reconcile.Run) api.Reconciliation {
	t := run.Totals
	var listed map[string]api.ListedTime
	for provider, so := range t.Listed {
		if listed == nil {
			listed = make(map[string]api.ListedTime, len(t.Listed))
		}
		listed[provider] = api.ListedTime{From: so.From.UTC(), Until: so.Until.UTC(), Behind: so.Behind}
	}
	return api.Reconciliation{
		ID: run.ID, Mode: api.ReconciliationMode(run.Mode), State: api.ReconciliationState(run.State),
		Stage: api.ReconciliationStage(run.Stage), Providers: run.Providers, Since: utc(run.Since), Until: utc(run.Until),
		RequestedBy: run.RequestedBy, Reason: run.Reason, CreatedAt: run.CreatedAt.UTC(), FinishedAt: utc(run.FinishedAt),
		Totals: api.ReconciliationTotals{
			Transactions: t.Transactions, Lines: t.Lines, Malformed: t.Malformed, Payments: t.Payments, Unclaimed: t.Unclaimed,
			Opened: t.Opened, SeenAgain: t.SeenAgain, Healed: t.Healed, Repaired: t.Repaired, Refused: t.Refused, Moved: t.Moved, Listed: listed,
		},
	}
}
