package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/reconcile"
	"paysaga/saga"
)

// ListFindings shows what was found, newest first.
func (s *server) ListFindings(w http.ResponseWriter, r *http.Request, params api.ListFindingsParams) {
	if err := s.checkFindingFilter(params); err != nil {
		s.fail(w, r, err)
		return
	}
	limit := limitOf(params.Limit)
	filter := reconcile.FindingFilter{
		AccountID: accountOf(r.Context()), Kind: reconcile.Kind(value(params.Kind)), State: reconcile.FindingState(value(params.Status)),
		Severity: reconcile.Severity(value(params.Severity)), Provider: value(params.Provider), Limit: limit + 1,
	}
	if params.Cursor != nil {
		at, id, err := readPlace(*params.Cursor)
		if err != nil {
			s.fail(w, r, errBadCursor)
			return
		}
		filter.Before = &saga.FindingPlace{CreatedAt: at, ID: id}
	}
	found, err := s.Store.ReadFindings(r.Context(), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var list api.FindingList
	list.Data, list.NextCursor = onePage(found, limit, showKept,
		func(last reconcile.Kept) string { return writePlace(last.FirstSeen, last.ID) })
	s.sendJSON(w, r, list)
}

// checkFindingFilter refuses words that no finding can have: an empty list would read as if all were well.
func (s *server) checkFindingFilter(params api.ListFindingsParams) error {
	if kind := reconcile.Kind(value(params.Kind)); kind != "" && !slices.Contains(reconcile.AllKinds(), kind) {
		return badParameter("kind", fmt.Sprintf("There is no %q; there are %s.", kind, listed(reconcile.AllKinds())))
	}
	if provider := value(params.Provider); provider != "" && !slices.Contains(s.Providers, provider) {
		return badParameter("provider", fmt.Sprintf("This server is not set up for %q; it is for %s.", provider, listed(s.Providers)))
	}
	return nil
}

// listed is a list as people read it.
func listed[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}

// GetFinding shows one finding with what both sides say.
func (s *server) GetFinding(w http.ResponseWriter, r *http.Request, id api.FindingID) {
	kept, err := s.Store.ReadFinding(r.Context(), accountOf(r.Context()), id)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sendJSON(w, r, showWithFacts(kept))
}

// ResolveFinding takes a person's word that a finding is settled.
func (s *server) ResolveFinding(w http.ResponseWriter, r *http.Request, id api.FindingID, _ api.ResolveFindingParams) {
	s.answerHeld(w, r, resolveFindingEndpoint, func(w http.ResponseWriter, r *http.Request) (heldIntent, error) {
		var request api.DecisionRequest
		if err := s.decode(w, r, "DecisionRequest", &request); err != nil {
			return heldIntent{}, err
		}
		var found places
		found.checkReason(request.Reason)
		if err := found.problem(); err != nil {
			return heldIntent{}, err
		}
		note := reconcile.Note{Actor: actorOf(r.Context()), Reason: request.Reason}
		return heldIntent{resolveFindingFingerprint(id, request.Reason), func(ctx context.Context, held *idempotency.Held) (saga.Answer, error) {
			var given saga.Answer
			_, err := s.Store.ResolveFinding(ctx, accountOf(ctx), id, note, held, func(kept reconcile.Kept) (saga.Answer, error) {
				if !kept.ResolvedWith(note) { // somebody was first, and the reason given now is kept nowhere
					return saga.Answer{}, reconcile.ErrFindingResolved
				}
				return answering(&given)(kept)
			})
			return given, err
		}}, nil
	})
}

// IgnoreFinding keeps a finding from being heard of for a time.
func (s *server) IgnoreFinding(w http.ResponseWriter, r *http.Request, id api.FindingID, _ api.IgnoreFindingParams) {
	s.answerHeld(w, r, ignoreFindingEndpoint, func(w http.ResponseWriter, r *http.Request) (heldIntent, error) {
		var request api.IgnoreRequest
		if err := s.decode(w, r, "IgnoreRequest", &request); err != nil {
			return heldIntent{}, err
		}
		var found places
		found.checkReason(request.Reason)
		if time.Until(request.Until) > longestIgnore {
			found.addf("/until", "A finding can be ignored for a year at most; resolve what is settled.")
		}
		if err := found.problem(); err != nil {
			return heldIntent{}, err
		}
		note := reconcile.Note{Actor: actorOf(r.Context()), Reason: request.Reason, Until: request.Until}
		return heldIntent{ignoreFindingFingerprint(id, request), func(ctx context.Context, held *idempotency.Held) (saga.Answer, error) {
			if time.Until(request.Until) < 0 { // of a new request; a repeat that comes late gets its answer
				found.addf("/until", "This time has gone by.")
				return saga.Answer{}, found.problem()
			}
			var given saga.Answer
			_, err := s.Store.IgnoreFinding(ctx, accountOf(ctx), id, note, held, func(kept reconcile.Kept) (saga.Answer, error) {
				if kept.FoundBy == reconcile.BySaga { // which goes on waiting for a person, who would hear of it no more
					return saga.Answer{}, reconcile.ErrFindingInReview
				}
				return answering(&given)(kept)
			})
			return given, err
		}}, nil
	})
}

// longestIgnore keeps a finding from being forgotten: what is to be ignored for longer is settled.
const longestIgnore = 366 * 24 * time.Hour

// answering makes a decided finding the answer under the key, and gives the same to the request.
func answering(given *saga.Answer) func(reconcile.Kept) (saga.Answer, error) {
	return func(kept reconcile.Kept) (saga.Answer, error) {
		var err error
		*given, err = jsonAnswer(http.StatusOK, "", showKept(kept))
		return *given, err
	}
}

func resolveFindingFingerprint(id uuid.UUID, reason string) idempotency.Fingerprint {
	return idempotency.NewIntent("resolve finding 1").String("finding", id.String()).String("reason", reason).Fingerprint()
}

func ignoreFindingFingerprint(id uuid.UUID, r api.IgnoreRequest) idempotency.Fingerprint {
	return idempotency.NewIntent("ignore finding 1").String("finding", id.String()).
		String("until", r.Until.UTC().Format(time.RFC3339Nano)).String("reason", r.Reason).Fingerprint()
}

// showKept is a finding as operators see it in a list.
func showKept(k reconcile.Kept) api.Finding {
	shown := api.Finding{
		ID: k.ID, Kind: string(k.Kind), Severity: api.Severity(k.Severity), Detail: k.Detail, CreatedAt: k.FirstSeen.UTC(),
		LastSeenAt: utc(k.LastSeen), Status: api.FindingStatus(k.State), Source: api.FindingSource(k.FoundBy), Provider: k.Provider,
		ProviderReference: k.Reference, Repair: string(k.Repair), Note: k.Note, IgnoredUntil: utc(k.Ignored),
		ResolvedAt: utc(k.ResolvedAt), Resolution: k.Resolution,
	}
	if k.AtStake.Currency != "" {
		shown.Amount, shown.Currency = k.AtStake.Amount, k.AtStake.Currency
	}
	if k.SagaKey != uuid.Nil {
		shown.SagaKey = &k.SagaKey
	}
	if k.OrderID != uuid.Nil {
		shown.OrderID = &k.OrderID
	}
	return shown
}

// showWithFacts is a finding as it is shown alone.
func showWithFacts(k reconcile.Kept) api.Finding {
	shown := showKept(k)
	shown.Here, shown.There = showFacts(k.Here), showFacts(k.There)
	return shown
}

func showFacts(f reconcile.Facts) *api.Facts {
	if f.Source == "" {
		return nil
	}
	return &api.Facts{
		Source: f.Source, Status: f.Status, Amount: f.Amount, Currency: f.Currency, Captured: f.Captured, Refunded: f.Refunded,
		Fee: f.Fee, Net: f.Net, References: f.References, Keys: f.Keys, At: utc(f.At),
	}
}
