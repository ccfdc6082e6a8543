package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/reconcile"
	"paysaga/saga"
)

// ResolveFinding ends a finding in a person's name. One that has ended already stays as it is. An empty account is any. With a held key,
// only while that is held; and with an answer to it as well, that is stored in the same transaction. Errors: saga.ErrNotFound,
// reconcile.ErrFindingInReview, saga.ErrLeaseLost.
func (s *Store) ResolveFinding(
	ctx context.Context, account string, id uuid.UUID, note reconcile.Note,
	held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
) (reconcile.Kept, error) {
	change := func(found *notedFinding, batch *pgx.Batch) error {
		switch {
		case found.State == reconcile.FindingResolved:
			return nil
		case found.inReview:
			return reconcile.ErrFindingInReview
		}
		batch.Queue(`
			UPDATE findings SET resolved_at = now(), resolution = '`+reconcile.ResolutionByPerson+`', resolved_by = $2, reason = $3
			WHERE id = $1`, id, note.Actor, note.Reason)
		queueNote(batch, &found.Kept, "finding.resolved", note, time.Time{})
		return nil
	}
	kept, err := s.noteFinding(ctx, account, id, held, answer, change)
	if err != nil {
		return reconcile.Kept{}, fmt.Errorf("resolve finding: %w", err)
	}
	return kept, nil
}

// IgnoreFinding keeps a finding from being told, and from being mended, until a time. Doing it again with the same words changes nothing.
// The rest is as with ResolveFinding. Errors: saga.ErrNotFound, reconcile.ErrFindingResolved, saga.ErrLeaseLost.
func (s *Store) IgnoreFinding(
	ctx context.Context, account string, id uuid.UUID, note reconcile.Note,
	held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
) (reconcile.Kept, error) {
	until := note.Until.Truncate(time.Microsecond) // as the database keeps it
	change := func(found *notedFinding, batch *pgx.Batch) error {
		switch {
		case found.State == reconcile.FindingResolved:
			return reconcile.ErrFindingResolved
		case found.inReview:
			return reconcile.ErrFindingInReview
		case found.Ignored.Equal(until) && found.ResolvedBy == note.Actor && found.Reason == note.Reason:
			return nil
		}
		batch.Queue(`UPDATE findings SET ignored_until = $2, resolved_by = $3, reason = $4 WHERE id = $1`, id, until, note.Actor, note.Reason)
		queueNote(batch, &found.Kept, "finding.ignored", note, until)
		return nil
	}
	kept, err := s.noteFinding(ctx, account, id, held, answer, change)
	if err != nil {
		return reconcile.Kept{}, fmt.Errorf("ignore finding: %w", err)
	}
	return kept, nil
}

// notedFinding is a finding that a person has something to say about.
type notedFinding struct {
	reconcile.Kept

	inReview bool // its saga waits for a person, and it may be why
}

// noteFinding locks a finding, has it changed, and gives it as it is then, with its facts.
func (s *Store) noteFinding(
	ctx context.Context, account string, id uuid.UUID, held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
	change func(found *notedFinding, batch *pgx.Batch) error,
) (kept reconcile.Kept, err error) {
	note := func(tx pgx.Tx) error {
		found, err := lockFinding(ctx, tx, account, id, held)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		if err := change(&found, batch); err != nil {
			return err
		}
		batch.Queue(`SELECT here, there, `+keptColumns+` FROM findings WHERE id = $1`, id).Query(func(rows pgx.Rows) error {
			kept, err = pgx.CollectExactlyOneRow(rows, s.scanWithFacts)
			return err //nolint:wrapcheck // mapped below
		})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil || held == nil || answer == nil {
			return err //nolint:wrapcheck // mapped below
		}
		given, err := answer(kept)
		if err != nil {
			return err
		}
		batch = &pgx.Batch{}
		if err := s.queueHeldAnswer(batch, *held, given); err != nil {
			return err
		}
		return tx.SendBatch(ctx, batch).Close()
	}
	err = s.withAnswers(ctx, 0, func() error { return mapError(pgx.BeginFunc(ctx, s.pool, note)) })
	if err != nil {
		return reconcile.Kept{}, err
	}
	if held != nil && answer != nil {
		held.Answered = true
	}
	return kept, nil
}

func lockFinding(ctx context.Context, tx pgx.Tx, account string, id uuid.UUID, held *idempotency.Held) (found notedFinding, err error) {
	batch := &pgx.Batch{}
	queueFence(batch, held)
	batch.Queue(`
		SELECT EXISTS (SELECT FROM sagas s -- whoever found it first: a saga in review has an open finding that says why
			WHERE s.account_id = f.account_id AND s.key = f.saga_key AND s.state = 'needs_review'), `+keptColumns+`
		FROM findings f WHERE id = $1 AND ($2 = '' OR account_id = $2) FOR UPDATE`, id, account,
	).QueryRow(func(row pgx.Row) error {
		var ignored, resolved *time.Time
		err := row.Scan(append([]any{&found.inReview}, keptFields(&found.Kept, &ignored, &resolved)...)...)
		found.Ignored, found.ResolvedAt = value(ignored), value(resolved)
		return err //nolint:wrapcheck // mapped by the caller
	})
	err = tx.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = saga.ErrNotFound
	}
	return found, err
}

func queueNote(batch *pgx.Batch, found *reconcile.Kept, action string, note reconcile.Note, until time.Time) {
	batch.Queue(`INSERT INTO audit_log (account_id, actor, action, subject, reason, until) VALUES ($1, $2, $3, $4, $5, $6)`,
		found.AccountID, note.Actor, action, found.ID.String(), note.Reason, nullTime(until))
}
