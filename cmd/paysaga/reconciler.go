package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"paysaga/internal/config"
	"paysaga/internal/postgres"
	"paysaga/internal/schedule"
	"paysaga/internal/telemetry"
	"paysaga/reconcile"
	"paysaga/saga"
)

// reconciler is reconciliation as a process runs it: on its schedule, and when somebody asks for it.
type reconciler struct {
	*reconcile.Worker

	store    *postgres.Store
	settings config.Reconcile
	metrics  *telemetry.Reconciliation
	began    time.Time
	all      []string // the providers
}

func newReconciler(
	store *postgres.Store, runner *saga.Runner, c config.Config, seen *telemetry.Telemetry, logger *slog.Logger,
) (*reconciler, error) {
	sources, announcing, err := newSources(c, seen.Transport)
	if err != nil {
		return nil, err
	}
	policy := reconcile.DefaultPolicy()
	policy.IgnoreForeign = c.Reconcile.Foreign == "ignore"
	worker, err := reconcile.New(reconcile.Config{
		Store: store, Sources: sources, Announcing: announcing, Repairs: saga.Repairs{Runner: runner, Events: store},
		Rules: rulesOf(c.Reconcile), Policy: policy, Account: c.Reconcile.Account, Lookback: c.Reconcile.Lookback,
		Overlap: c.Reconcile.Overlap, Lease: runLease, Meter: reconciliationMeter{seen.Reconciliation()}, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("set up reconciliation: %w", err)
	}
	r := &reconciler{
		Worker: worker, store: store, settings: c.Reconcile, metrics: seen.Reconciliation(), began: time.Now(), all: announcing,
	}
	for provider := range sources {
		r.all = append(r.all, provider)
	}
	r.metrics.StartRepairs(c.Reconcile.Repairs)
	return r, nil
}

// reconcileAccount is whose operators see what belongs to no account: the one that is set, or the only one that there is.
func reconcileAccount(ctx context.Context, store *postgres.Store, set string, logger *slog.Logger) (string, error) {
	if set != "" {
		has, err := store.HasAccount(ctx, set)
		if err == nil && !has {
			err = fmt.Errorf("PAYSAGA_RECONCILE_ACCOUNT names %q, and there is no account of that name: \"paysaga keys list\" shows them", set)
		}
		return set, err
	}
	const enough = 2 // to know that there is more than one
	accounts, err := store.ListAccounts(ctx, enough)
	switch {
	case err != nil:
		return "", err
	case len(accounts) == 1:
		return accounts[0], nil
	case len(accounts) > 1:
		logger.WarnContext(ctx, "there are several accounts and PAYSAGA_RECONCILE_ACCOUNT is not set: payments that no order knows, and "+
			"settlement files that do not add up, are shown by \"paysaga reconcile report\" alone")
	}
	return "", nil
}

// runLease is how long a run that has died keeps others from going on with it. It is renewed beside the work.
const runLease = time.Minute

// rulesOf are the rules that the settings give.
func rulesOf(c config.Reconcile) reconcile.Rules {
	rules := reconcile.Rules{PerFinding: c.PerFinding, PerRun: c.PerRun, PerDuplicate: c.Duplicate}
	for _, repair := range c.Repairs {
		rules.Repairs = append(rules.Repairs, reconcile.Repair(repair))
	}
	return rules
}

// run reconciles on schedule and takes up what is asked for, until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	r.Run(ctx, jittered{r.settings.Schedule}, reconcile.Mode(r.settings.Mode))
}

// jittered is a schedule whose turns are a little late, each by chance.
type jittered struct{ schedule.Schedule }

func (j jittered) Next(after time.Time) time.Time {
	return j.Schedule.Next(after, rand.Float64()) //nolint:gosec // a pause is no secret
}

// measurePause is how often is counted what is open: the alerts look every minute.
const measurePause = time.Minute

// measure keeps the metrics of what is open, until ctx ends.
func (r *reconciler) measure(ctx context.Context) {
	for {
		if err := r.measureOnce(ctx); err != nil && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "findings not counted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(measurePause):
		}
	}
}

func (r *reconciler) measureOnce(ctx context.Context) error {
	figures, err := r.store.ReadFindingFigures(ctx)
	if err != nil {
		return err
	}
	open := make([]telemetry.OpenFindings, 0, len(figures.Open))
	for _, one := range figures.Open {
		open = append(open, telemetry.OpenFindings{Kind: string(one.Kind), Severity: string(one.Severity), Findings: one.Findings})
	}
	r.metrics.SetFindings(open, figures.Oldest, figures.AtStake, time.Now())
	r.metrics.SetInterval(r.settings.Schedule.Interval(time.Now()))
	for _, provider := range r.all {
		r.metrics.SetLastSuccess(provider, r.lastSuccess(provider, figures))
	}
	return nil
}

// lastSuccess is up to when what a provider has was compared, plus what its list is behind by itself: of a provider whose list is as new as
// it should be, when the last run began that went through.
func (r *reconciler) lastSuccess(provider string, figures reconcile.Figures) time.Time {
	until, known := figures.Compared[provider]
	if !known {
		return r.began
	}
	if source := r.Sources[provider]; source != nil {
		until = until.Add(source.ListLimits().Delay)
	}
	return until
}

// reconciliationMeter tells the metrics how runs went.
type reconciliationMeter struct{ metrics *telemetry.Reconciliation }

func (m reconciliationMeter) RunEnded(run reconcile.Run, took time.Duration) {
	m.metrics.RunEnded(string(run.Mode), string(run.State), took)
}

func (m reconciliationMeter) RepairEnded(repair reconcile.Repair, mended bool) {
	m.metrics.RepairEnded(string(repair), mended)
}
