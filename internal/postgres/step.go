package postgres

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// queueSteps writes new steps and what became of earlier ones, all in one statement. A step's intent stays as it was written
// first: its sub-key, provider, target and amount.
func (s *Store) queueSteps(batch *pgx.Batch, after *saga.Saga, steps []saga.Step) error {
	if len(steps) == 0 {
		return nil
	}
	columns := make([][]any, 15)
	for _, step := range steps {
		details, err := s.sealDetails(after, step)
		if err != nil {
			return err
		}
		for i, value := range []any{
			step.Name, step.Attempt, step.SubKey, step.Status, step.Provider, step.ProviderReference, step.Outcome,
			step.Code, step.Detail, step.Sends, nullTime(step.SentAt), step.Target, step.Amount, step.Final, details,
		} {
			columns[i] = append(columns[i], value)
		}
	}
	arguments := []any{after.AccountID, after.Key}
	for _, column := range columns {
		arguments = append(arguments, column)
	}
	batch.Queue(`
		INSERT INTO saga_steps AS s (account_id, saga_key, name, attempt, sub_key, status, provider, provider_reference,
			outcome, code, detail, sends, sent_at, finished_at, target, amount, final, details)
		SELECT $1, $2, n.name, n.attempt, n.sub_key, n.status, n.provider, n.provider_reference, n.outcome, n.code, n.detail,
			n.sends, n.sent_at, CASE WHEN n.status NOT IN ('pending', 'unknown') THEN now() END,
			n.target, n.amount, n.final, n.details
		FROM unnest($3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			$11::text[], $12::int[], $13::timestamptz[], $14::text[], $15::bigint[], $16::boolean[], $17::bytea[])
			AS n (name, attempt, sub_key, status, provider, provider_reference, outcome, code, detail, sends, sent_at,
				target, amount, final, details)
		ON CONFLICT (account_id, saga_key, name, attempt) DO UPDATE SET status = EXCLUDED.status,
			provider_reference = EXCLUDED.provider_reference, outcome = EXCLUDED.outcome, code = EXCLUDED.code,
			detail = EXCLUDED.detail, sends = EXCLUDED.sends, sent_at = EXCLUDED.sent_at,
			finished_at = COALESCE(s.finished_at, EXCLUDED.finished_at), details = EXCLUDED.details`,
		arguments...)
	return nil
}

// queueStepsRead reads the steps of sagas, each saga's in the order in which they were taken.
func (s *Store) queueStepsRead(batch *pgx.Batch, accounts []string, keys []uuid.UUID, place map[saga.Ref]*saga.Saga) {
	batch.Queue(`
		SELECT t.account_id, t.saga_key, t.name, t.attempt, t.sub_key, t.status, t.provider, t.provider_reference, t.outcome,
			t.code, t.detail, t.sends, t.sent_at, t.started_at, t.finished_at, t.target, t.amount, t.final, t.details
		FROM unnest($1::text[], $2::uuid[]) AS r (account_id, key)
		JOIN saga_steps t ON t.account_id = r.account_id AND t.saga_key = r.key
		ORDER BY t.started_at, t.attempt, -- of those that began together, in the order in which they can follow each other
			array_position(ARRAY['reserve', 'charge', 'continue', 'capture', 'confirm', 'void', 'refund', 'release'], t.name)`,
		accounts, keys,
	).Query(func(rows pgx.Rows) error {
		var ref saga.Ref
		var t saga.Step
		var sent, finished *time.Time
		var details []byte
		_, err := pgx.ForEachRow(rows, []any{
			&ref.AccountID, &ref.Key, &t.Name, &t.Attempt, &t.SubKey, &t.Status, &t.Provider, &t.ProviderReference, &t.Outcome,
			&t.Code, &t.Detail, &t.Sends, &sent, &t.StartedAt, &finished, &t.Target, &t.Amount, &t.Final, &details,
		}, func() error {
			var err error
			g := place[ref]
			t.SentAt, t.FinishedAt = value(sent), value(finished)
			t.Details, err = s.openDetails(g, t, details)
			g.Steps = append(g.Steps, t)
			return err
		})
		return err //nolint:wrapcheck // wrapped by fill
	})
}

func finished(step saga.Step) bool {
	return step.Status != saga.StepPending && step.Status != saga.StepUnknown
}

func (s *Store) sealDetails(g *saga.Saga, step saga.Step) ([]byte, error) {
	if step.Details == "" {
		return nil, nil
	}
	sealed, err := s.ring.Seal([]byte(step.Details), detailsContext(g, step))
	if err != nil {
		return nil, fmt.Errorf("seal a step's details: %w", err)
	}
	return sealed, nil
}

func (s *Store) openDetails(g *saga.Saga, step saga.Step, sealed []byte) (string, error) {
	if sealed == nil {
		return "", nil
	}
	plain, err := s.ring.Open(sealed, detailsContext(g, step))
	if err != nil {
		return "", fmt.Errorf("open a step's details: %w", err)
	}
	return string(plain), nil
}

// detailsContext binds sealed details to their step: copied to another row, they do not open.
func detailsContext(g *saga.Saga, step saga.Step) []byte {
	attempt := string(step.Name) + "\x00" + strconv.Itoa(step.Attempt)
	return []byte("step_details\x00" + g.AccountID + "\x00" + g.Key.String() + "\x00" + attempt)
}
