package client

import (
	"context"

	"github.com/google/uuid"

	"paysaga/api"
)

// All calls of reconciliation need an API key of role operator; with another one they are refused as OperatorRequired.

// FindingFilter says which findings FindingsPage gives.
type FindingFilter struct {
	Status   api.FindingStatus // "": in all
	Kind     string            // "": of all kinds
	Severity api.Severity      // "": of all severities
	Provider api.ProviderName  // "": about all, and about none
	PageSize int               // up to 100; 0: the server decides
}

// FindingsPage gives a page of what was found, newest first. The cursor is the NextCursor of the page before, "" for the first.
func (c *Client) FindingsPage(ctx context.Context, filter FindingFilter, cursor string) (api.FindingList, error) {
	r := c.page("list findings", "findings", filter.PageSize, cursor, map[string]string{
		"status": string(filter.Status), "kind": filter.Kind, "severity": string(filter.Severity), "provider": filter.Provider,
	})
	return ask(ctx, c, r, func(page api.FindingList) bool { return page.Data != nil })
}

// GetFinding shows one finding with what both sides say.
func (c *Client) GetFinding(ctx context.Context, id uuid.UUID) (api.Finding, error) {
	return ask(ctx, c, request{operation: "get finding", address: c.address("findings", id.String())}, validFinding)
}

// FindingResult is a finding as a decision left it.
type FindingResult struct {
	Answer

	Finding api.Finding
}

// ResolveFinding says that a finding is settled.
func (c *Client) ResolveFinding(ctx context.Context, key Key, id uuid.UUID, reason string) (result FindingResult, err error) {
	r := c.post("resolve finding", key, "findings", id.String(), "resolve")
	result.Finding, result.Answer, err = change(ctx, c, r, api.DecisionRequest{Reason: reason}, validFinding)
	return result, err
}

// IgnoreFinding keeps a finding from being heard of until a time.
func (c *Client) IgnoreFinding(ctx context.Context, key Key, id uuid.UUID, ignore api.IgnoreRequest) (result FindingResult, err error) {
	r := c.post("ignore finding", key, "findings", id.String(), "ignore")
	result.Finding, result.Answer, err = change(ctx, c, r, ignore, validFinding)
	return result, err
}

func validFinding(f api.Finding) bool { return f.ID != uuid.Nil }

// ReconciliationsPage gives a page of the runs, newest first. A size of 0 leaves that to the server.
func (c *Client) ReconciliationsPage(ctx context.Context, size int, cursor string) (api.ReconciliationList, error) {
	r := c.page("list reconciliations", "reconciliations", size, cursor, nil)
	return ask(ctx, c, r, func(page api.ReconciliationList) bool { return page.Data != nil })
}

// GetReconciliation shows how a run stands.
func (c *Client) GetReconciliation(ctx context.Context, id uuid.UUID) (api.Reconciliation, error) {
	return ask(ctx, c, request{operation: "get reconciliation", address: c.address("reconciliations", id.String())}, validRun)
}

// ReconciliationResult is a run as it was asked for. A worker takes it up; GetReconciliation tells how it stands.
type ReconciliationResult struct {
	Answer

	Reconciliation api.Reconciliation
}

// CreateReconciliation has a run made.
func (c *Client) CreateReconciliation(
	ctx context.Context, key Key, wanted api.ReconciliationRequest,
) (result ReconciliationResult, err error) {
	result.Reconciliation, result.Answer, err = change(ctx, c, c.post("reconcile", key, "reconciliations"), wanted, validRun)
	return result, err
}

func validRun(run api.Reconciliation) bool { return run.ID != uuid.Nil }
