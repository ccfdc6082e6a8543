package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/account"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
)

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	noError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

type shownKey struct {
	ID, Account, Name, Role, Secret string
	RevokedAt                       *string `json:"revoked_at"`
}

func TestKeys(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	environ := []string{"DATABASE_URL=" + url}
	store := postgres.New(openPool(t, url), nil)
	created := paysaga(t, environ, "keys", "create", "--account", "my-shop")
	secret := strings.TrimSuffix(created.wellDone(t), "\n")
	if !strings.HasPrefix(secret, "paysaga_") || strings.Contains(secret, "\n") || strings.Contains(created.stderr, secret) {
		t.Fatalf("output %q, beside it %q", created.stdout, created.stderr)
	}
	key, err := store.FindAPIKey(t.Context(), account.HashSecret(secret))
	noError(t, err)
	if key.AccountID != "my-shop" || key.Role != account.Merchant || key.Name != "default" || !strings.Contains(created.stderr, key.ID.String()) {
		t.Errorf("key %+v, told %q", key, created.stderr)
	}
	other := readJSON[shownKey](t, paysaga(t, environ, "keys", "create", "--account", "other", "--role", "operator", "--name", "night shift", "--json").wellDone(t))
	if want := (shownKey{ID: other.ID, Account: "other", Name: "night shift", Role: "operator", Secret: other.Secret}); other != want {
		t.Errorf("key %+v", other)
	}
	checkKeyList(t, environ, key.ID.String(), secret, other)
}

func checkKeyList(t *testing.T, environ []string, myID, secret string, other shownKey) {
	t.Helper()
	listed := paysaga(t, environ, "keys", "list").wellDone(t)
	if other.ID == "" || other.Secret == "" {
		t.Errorf("key %+v", other)
	}
	for _, want := range []string{"ID", "REVOKED", myID, other.ID, "night shift"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%q is not in the list:\n%s", want, listed)
		}
	}
	if strings.Contains(listed, secret) || strings.Contains(listed, other.Secret) {
		t.Error("a secret is in the list")
	}
	mine := readJSON[[]shownKey](t, paysaga(t, environ, "keys", "list", "--account", "my-shop", "--json").wellDone(t))
	if len(mine) != 1 || mine[0].ID != myID || mine[0].RevokedAt != nil {
		t.Errorf("keys %+v", mine)
	}
	none := paysaga(t, environ, "keys", "list", "--account", "nobody", "--json").wellDone(t)
	if strings.TrimSpace(none) != "[]" {
		t.Errorf("no keys are %q", none)
	}
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	environ := []string{"DATABASE_URL=" + url}
	pool := openPool(t, url)
	key := readJSON[shownKey](t, paysaga(t, environ, "keys", "create", "--account", "my-shop", "--json").wellDone(t))
	for range 2 { // a second time changes nothing
		if out := paysaga(t, environ, "keys", "revoke", key.ID).wellDone(t); !strings.Contains(out, key.ID) || !strings.Contains(out, "my-shop") {
			t.Errorf("output %q", out)
		}
	}
	if _, err := postgres.New(pool, nil).FindAPIKey(t.Context(), account.HashSecret(key.Secret)); err == nil {
		t.Error("the revoked key is still good")
	}
	list := readJSON[[]shownKey](t, paysaga(t, environ, "keys", "list", "--json").wellDone(t))
	if len(list) != 1 || list[0].RevokedAt == nil {
		t.Errorf("keys %+v", list)
	}
	paysaga(t, environ, "keys", "revoke", "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71").refused(t, exitFailed, "5f0c1a9e")
	var actions string
	const query = `SELECT string_agg(action, ' ' ORDER BY id) FROM audit_log WHERE actor LIKE 'cli:%' AND subject = $1`
	noError(t, pool.QueryRow(t.Context(), query, key.ID).Scan(&actions))
	if !strings.HasPrefix(actions, "api_key.created api_key.revoked") {
		t.Errorf("the audit log has %q", actions)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + pgtest.EmptyURL(t)}
	migrate := func(what string) string {
		t.Helper()
		return paysaga(t, environ, "migrate", what).wellDone(t)
	}
	paysaga(t, environ, "keys", "list").refused(t, exitFailed, "migrate up")
	for _, step := range [][2]string{
		{"status", "pending  00001_orders.sql"},
		{"up", "applied 00001_orders.sql"},
		{"status", "applied  00001_orders.sql"},
		{"up", "the schema is up to date"},
		{"down", "took back "},
	} {
		if out := migrate(step[0]); !strings.Contains(out, step[1]) {
			t.Errorf("migrate %s: %q, want %q", step[0], out, step[1])
		}
	}
	paysaga(t, environ, "keys", "list").refused(t, exitFailed, "older paysaga: run \"paysaga migrate up\"")
	const many = 50 // more than there are migrations
	for range many {
		if strings.Contains(migrate("down"), "there is no migration to take back") {
			break
		}
	}
	if out := migrate("status"); strings.Contains(out, "applied") {
		t.Errorf("after all were taken back: %s", out)
	}
	migrate("up") // and it can be made anew
	paysaga(t, environ, "keys", "create", "--account", "my-shop").wellDone(t)
}
