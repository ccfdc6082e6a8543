package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/account"
)

// CreateAPIKey stores a key by the SHA-256 hash of its secret, and its account if that is new.
func (s *Store) CreateAPIKey(ctx context.Context, key account.Key, hash [32]byte, actor string) error {
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO accounts (id) VALUES ($1) ON CONFLICT DO NOTHING`, key.AccountID)
	batch.Queue(`INSERT INTO api_keys (account_id, id, name, role, hash) VALUES ($1, $2, $3, $4, $5)`,
		key.AccountID, key.ID, key.Name, key.Role, hash[:])
	queueAudit(batch, key.AccountID, actor, "api_key.created", key.ID.String())
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("create API key: %w", err)
	}
	return nil
}

// FindAPIKey reads the key with this hash, unless it is revoked. Errors: account.ErrUnknownKey.
func (s *Store) FindAPIKey(ctx context.Context, hash [32]byte) (account.Key, error) {
	var key account.Key
	err := s.pool.QueryRow(ctx, `
		SELECT account_id, id, name, role, created_at, revoked_at FROM api_keys WHERE hash = $1 AND revoked_at IS NULL`, hash[:],
	).Scan(&key.AccountID, &key.ID, &key.Name, &key.Role, &key.CreatedAt, &key.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Key{}, account.ErrUnknownKey
	}
	if err != nil {
		return account.Key{}, fmt.Errorf("find API key: %w", mapError(err))
	}
	return key, nil
}

// ListAPIKeys reads all keys, or those of one account.
func (s *Store) ListAPIKeys(ctx context.Context, accountID string) ([]account.Key, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT account_id, id, name, role, created_at, revoked_at FROM api_keys
		WHERE $1 = '' OR account_id = $1 ORDER BY account_id, created_at, id`, accountID)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", mapError(err))
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[account.Key])
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", mapError(err))
	}
	return keys, nil
}

// RevokeAPIKey ends a key at once; revoking it again changes nothing. Errors: account.ErrUnknownKey.
func (s *Store) RevokeAPIKey(ctx context.Context, id uuid.UUID, actor string) (account.Key, error) {
	var key account.Key
	err := s.pool.QueryRow(ctx, `
		WITH revoked AS (
			UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now()) WHERE id = $1
			RETURNING account_id, id, name, role, created_at, revoked_at
		), audited AS (
			INSERT INTO audit_log (account_id, actor, action, subject)
			SELECT account_id, $2, 'api_key.revoked', id::text FROM revoked)
		SELECT account_id, id, name, role, created_at, revoked_at FROM revoked`, id, actor,
	).Scan(&key.AccountID, &key.ID, &key.Name, &key.Role, &key.CreatedAt, &key.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Key{}, account.ErrUnknownKey
	}
	if err != nil {
		return account.Key{}, fmt.Errorf("revoke API key: %w", mapError(err))
	}
	return key, nil
}

func queueAudit(batch *pgx.Batch, accountID, actor, action, subject string) {
	batch.Queue(`INSERT INTO audit_log (account_id, actor, action, subject) VALUES ($1, $2, $3, $4)`,
		accountID, actor, action, subject)
}

// ListAccounts names the accounts, in their order, up to a limit.
func (s *Store) ListAccounts(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT id FROM accounts ORDER BY id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", mapError(err))
	}
	accounts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", mapError(err))
	}
	return accounts, nil
}

// HasAccount tells whether there is an account of this name.
func (s *Store) HasAccount(ctx context.Context, name string) (has bool, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM accounts WHERE id = $1)`, name).Scan(&has); err != nil {
		return false, fmt.Errorf("look for an account: %w", mapError(err))
	}
	return has, nil
}
