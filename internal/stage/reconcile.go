package stage

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"time"

	"paysaga/reconcile"
	"paysaga/saga"
)

// Allowed are rules that let every repair be done, whatever it is about.
func Allowed() reconcile.Rules {
	return reconcile.Rules{Repairs: reconcile.Repairs(), PerFinding: anyMoney{}, PerRun: anyMoney{}, PerDuplicate: anyMoney{}}
}

// anyMoney is no limit.
type anyMoney struct{}

// In is more than any order here.
func (anyMoney) In(string) int64 { return 1 << 40 }

// reconcileLookback is longer than any play.
const reconcileLookback = 365 * 24 * time.Hour

// Reconcile compares the database with the providers, and mends what the rules allow.
func (v *Server) Reconcile(mode reconcile.Mode, rules reconcile.Rules) reconcile.Result {
	return v.once(rules, reconcile.Request{Mode: mode, RequestedBy: "stage"})
}

// ReconcileTime is Reconcile of what happened in a time.
func (v *Server) ReconcileTime(mode reconcile.Mode, rules reconcile.Rules, since, until time.Time) reconcile.Result {
	return v.once(rules, reconcile.Request{Mode: mode, RequestedBy: "stage", Since: since, Until: until})
}

// ReconcileStatement holds what a provider has settled by now against the database, by its settlement file.
func (v *Server) ReconcileStatement(mode reconcile.Mode, rules reconcile.Rules, provider string) reconcile.Result {
	s := v.stage
	s.Helper()
	answer := httptest.NewRecorder()
	s.Sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/_sandbox/settlement/"+provider, http.NoBody))
	if answer.Code != http.StatusOK {
		s.Fatalf("%s settles nothing: %d", provider, answer.Code)
	}
	return v.once(rules, reconcile.Request{
		Mode: mode, RequestedBy: "stage", Statement: &reconcile.File{Name: provider + ".csv", Content: bytes.NewReader(answer.Body.Bytes())},
	})
}

func (v *Server) once(rules reconcile.Rules, request reconcile.Request) reconcile.Result {
	s := v.stage
	s.Helper()
	sources, announcing := map[string]reconcile.Source{}, []string{}
	for name, adapter := range s.Adapters {
		if source, lists := adapter.(reconcile.Source); lists {
			sources[name] = source
		} else {
			announcing = append(announcing, name)
		}
	}
	worker, err := reconcile.New(reconcile.Config{
		Store: s.Store(), Sources: sources, Announcing: announcing, Repairs: saga.Repairs{Runner: v.runner, Events: s.Store()}, Rules: rules,
		Policy: reconcile.DefaultPolicy(), Account: Account, Lookback: reconcileLookback, Overlap: reconcileLookback, Lease: lease,
		Logger: s.logger,
	})
	s.Must(err)
	result, err := worker.Once(s.Context(), request, func(reconcile.Run) {})
	s.Must(err)
	return result
}

// Findings are those that are open.
func (s *Stage) Findings() []reconcile.Kept {
	s.Helper()
	const most = 1000
	found, err := s.Store().ReadFindings(s.Context(), reconcile.FindingFilter{State: reconcile.FindingOpen, Limit: most})
	s.Must(err)
	return found
}

// snapshotTables are what a backup of the database has, in the order in which they are filled.
func snapshotTables() []string {
	return []string{
		"stock", "orders", "order_items", "sagas", "refunds", "saga_steps", "reservations", "idempotency_keys", "findings", "webhook_events",
	}
}

// Back is a backup of the database: Restore puts it back as it was then.
func (s *Stage) Back() {
	s.Helper()
	for _, table := range snapshotTables() {
		s.Exec(`DROP TABLE IF EXISTS stage.back_` + table)
		s.Exec(`CREATE TABLE stage.back_` + table + ` AS TABLE public.` + table)
	}
}

// Restore puts the last backup in place.
func (s *Stage) Restore() {
	s.Helper()
	s.Exec(`TRUNCATE public.outbox_events, public.idempotency_answers`)
	tables := snapshotTables()
	for i := range tables {
		s.Exec(`DELETE FROM public.` + tables[len(tables)-1-i])
	}
	for _, table := range tables {
		s.Exec(`INSERT INTO public.` + table + ` OVERRIDING SYSTEM VALUE TABLE stage.back_` + table)
	}
}
