package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/seal"
)

// OtherKeysError tells that a process has other encryption keys than those with which the database's values are sealed: it could open
// nothing of what is kept, and what it seals nobody else could.
type OtherKeysError struct {
	Place      string // of a value, for people; no client's key
	SealedWith string // the id of the key that has sealed it
	Ring       []string
}

func (e *OtherKeysError) Error() string {
	if slices.Contains(e.Ring, e.SealedWith) {
		return fmt.Sprintf("%s is sealed with another key of the id %q than the one that is set", e.Place, e.SealedWith)
	}
	return fmt.Sprintf("%s is sealed with the key %q, and the keys that are set are %q", e.Place, e.SealedWith, e.Ring)
}

const (
	// probes are how many values of a kind are tried. One alone may be damaged.
	probes = 5
	// probedKeys bounds in how many of the newest idempotency keys these are looked for: a house may keep no answers at all.
	probedKeys = 100
)

// newestSealed are queries of the newest sealed values of the kinds that are cheap to find: their places, what else their context needs,
// and the value, as column.page gives them.
func newestSealed() map[Sealed]string {
	return map[Sealed]string{
		SealedAnswers: fmt.Sprintf(`
			SELECT ARRAY[k.account_id, k.endpoint, k.key],
				ARRAY[COALESCE(k.saga_key, '`+noUUID+`')::text, k.generation::text, k.answer_on::text, k.answer_id::text], a.body
			FROM (SELECT account_id, endpoint, key, saga_key, generation, answer_on, answer_id, expires_at FROM idempotency_keys
				ORDER BY expires_at DESC LIMIT %d) AS k
			JOIN idempotency_answers a ON a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id
			WHERE a.body IS NOT NULL ORDER BY k.expires_at DESC LIMIT %d`, probedKeys, probes),
		SealedHere: fmt.Sprintf(`
			SELECT ARRAY[id::text], ARRAY[account_id, COALESCE(saga_key, '`+noUUID+`')::text, kind, provider, reference], here
			FROM (SELECT id, account_id, saga_key, kind, provider, reference, here FROM findings
				ORDER BY created_at DESC, id DESC LIMIT %d) AS newest
			WHERE here IS NOT NULL LIMIT %d`,
			probedKeys, probes),
	}
}

// CheckKeys tries to open the newest values that are sealed. Where there are some and none can be opened, the keys are another system's.
// Errors: *OtherKeysError.
func (s *Store) CheckKeys(ctx context.Context) error {
	var refused *OtherKeysError
	for kind, query := range newestSealed() {
		values, err := s.readProbes(ctx, query)
		if err != nil {
			return err
		}
		c, err := columnOf(kind)
		if err != nil {
			return err
		}
		for _, value := range values {
			context, err := c.context(value.place, value.more)
			if err != nil {
				return err
			}
			if _, err := s.ring.Open(value.sealed, context); err == nil {
				return nil
			}
			if id, err := seal.KeyID(value.sealed); err == nil && refused == nil {
				refused = &OtherKeysError{Place: c.name(value.place, value.more), SealedWith: id, Ring: s.ring.KeyIDs()}
			}
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}

func (s *Store) readProbes(ctx context.Context, query string) ([]sealedValue, error) {
	rows, err := s.pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read sealed values: %w", mapError(err))
	}
	values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (value sealedValue, err error) {
		err = row.Scan(&value.place, &value.more, &value.sealed)
		return value, err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, fmt.Errorf("read sealed values: %w", mapError(err))
	}
	return values, nil
}
