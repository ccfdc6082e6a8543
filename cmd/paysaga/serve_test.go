package main

import (
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"paysaga/internal/account"
	"paysaga/internal/config"
	"paysaga/internal/httpapi"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/reconcile"
)

// goodSettings are settings with which serve gets as far as its database.
func goodSettings(databaseURL string) map[string]string {
	return map[string]string{
		"DATABASE_URL": databaseURL, "STRIPE_API_KEY": "sk_test_nobody", "STRIPE_BASE_URL": "http://127.0.0.1:1/stripe",
		"PAYSAGA_ENCRYPTION_KEYS": seal.GenerateKey("k1"), "PAYSAGA_ADDR": "127.0.0.1:0",
	}
}

func environOf(settings map[string]string) []string {
	environ := make([]string, 0, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		environ = append(environ, name+"="+settings[name])
	}
	return environ
}

// Settings that are missing or contradict each other stop the start, with one line for each.
func TestServeRefusesSettings(t *testing.T) {
	t.Parallel()
	const unreachable = "postgres://shop:correct-horse@127.0.0.1:1/shop"
	for name, c := range map[string]struct {
		change map[string]string // an empty value leaves the setting out
		lines  []string
	}{
		"none": {
			map[string]string{"DATABASE_URL": "", "STRIPE_API_KEY": "", "STRIPE_BASE_URL": "", "PAYSAGA_ENCRYPTION_KEYS": ""},
			[]string{"DATABASE_URL: is not set", "PAYSAGA_ENCRYPTION_KEYS: is not set", "STRIPE_API_KEY: is not set"},
		},
		"no database":           {map[string]string{"DATABASE_URL": ""}, []string{"DATABASE_URL: is not set"}},
		"other database":        {map[string]string{"DATABASE_URL": "mysql://shop:correct-horse@h/shop"}, []string{"DATABASE_URL: is no PostgreSQL address"}},
		"broken keys":           {map[string]string{"PAYSAGA_ENCRYPTION_KEYS": "k1:correct-horse"}, []string{"PAYSAGA_ENCRYPTION_KEYS: holds"}},
		"publishable key":       {map[string]string{"STRIPE_API_KEY": "pk_test_correct-horse"}, []string{"STRIPE_API_KEY: is a publishable key"}},
		"URL without key":       {map[string]string{"STRIPE_API_KEY": ""}, []string{"STRIPE_BASE_URL: is set, but STRIPE_API_KEY is not"}},
		"live key at sandbox":   {map[string]string{"STRIPE_API_KEY": "sk_live_correct-horse"}, []string{"STRIPE_BASE_URL: points at this machine"}},
		"drain below call":      {map[string]string{"PAYSAGA_DRAIN_TIMEOUT": "5s"}, []string{"PAYSAGA_DRAIN_TIMEOUT: is 5s, shorter than PAYSAGA_CALL_TIMEOUT"}},
		"retention below await": {map[string]string{"PAYSAGA_RETENTION": "48h", "PAYSAGA_AWAIT_DEADLINE": "48h"}, []string{"PAYSAGA_RETENTION: is 48h, not longer"}},
		"half of Adyen":         {map[string]string{"ADYEN_API_KEY": "correct-horse"}, []string{"ADYEN_API_KEY: is set, but ADYEN_MERCHANT_ACCOUNT and ADYEN_HMAC_KEYS are not"}},
		"half of PayPal":        {map[string]string{"PAYPAL_CLIENT_SECRET": "correct-horse"}, []string{"PAYPAL_CLIENT_SECRET: is set, but PAYPAL_CLIENT_ID is not"}},
		"broken webhook secret": {map[string]string{"STRIPE_WEBHOOK_SECRETS": "correct-horse"}, []string{"STRIPE_WEBHOOK_SECRETS: holds at place 1 no webhook secret"}},
		"wrong unit":            {map[string]string{"PAYSAGA_LEASE": "30"}, []string{"PAYSAGA_LEASE: is no duration"}},
		"mistyped name":         {map[string]string{"PAYSAGA_LEESE": "30s"}, []string{"PAYSAGA_LEESE: is no setting of paysaga; did you mean PAYSAGA_LEASE?"}},
		"many": {
			map[string]string{"PAYSAGA_ADDR": "8080", "PAYSAGA_LOG_LEVEL": "loud", "PAYSAGA_MAX_BODY": "1"},
			[]string{"PAYSAGA_ADDR", "PAYSAGA_MAX_BODY", "PAYSAGA_LOG_LEVEL"},
		},
		"unreachable database": {nil, []string{"127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := goodSettings(unreachable)
			for setting, value := range c.change {
				settings[setting] = value
				if value == "" {
					delete(settings, setting)
				}
			}
			got := paysaga(t, environOf(settings), "serve")
			got.refused(t, exitFailed, c.lines...)
			if strings.Contains(got.stderr, "correct-horse") {
				t.Errorf("a secret is told: %s", got.stderr)
			}
		})
	}
}

func TestServeNeedsTheSchema(t *testing.T) {
	t.Parallel()
	settings := goodSettings(pgtest.EmptyURL(t))
	paysaga(t, environOf(settings), "serve").refused(t, exitFailed, `run "paysaga migrate up"`)
}

func TestServeNeedsItsAddress(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	noError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	address := taken.Addr().String()
	paysaga(t, environOf(goodSettings(pgtest.URL(t))), "serve", "--addr", address).refused(t, exitFailed, "listen tcp "+address)
}

// A name that the API does not know would leave bodies stored without a word.
func TestDigestEndpointsAreTheAPIs(t *testing.T) {
	t.Parallel()
	for _, endpoint := range config.DigestEndpoints() {
		if !slices.Contains(httpapi.Endpoints(), endpoint) {
			t.Errorf("the API has no endpoint %q", endpoint)
		}
	}
}

func openStore(t *testing.T, databaseURL string) *postgres.Store {
	t.Helper()
	ring, err := seal.NewRing(seal.GenerateKey("k1"))
	noError(t, err)
	store, err := postgres.Open(t.Context(), databaseURL, 2, ring)
	noError(t, err)
	t.Cleanup(store.Close)
	return store
}

// An account that is not this database's ends the start, and one is named where there is only one.
func TestReconcileAccount(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), openStore(t, pgtest.URL(t))
	log := slog.New(slog.DiscardHandler)
	_, err := reconcileAccount(ctx, store, "", log)
	noError(t, err)
	_, err = reconcileAccount(ctx, store, "nobody", log)
	if err == nil || !strings.Contains(err.Error(), `PAYSAGA_RECONCILE_ACCOUNT names "nobody"`) {
		t.Errorf("an account that is not there: %v", err)
	}
	var warned strings.Builder
	for _, made := range []struct{ account, want, warns string }{{"first", "first", ""}, {"second", "", "PAYSAGA_RECONCILE_ACCOUNT"}} {
		key, secret, err := account.NewKey(made.account, "a test", account.Merchant)
		noError(t, err)
		noError(t, store.CreateAPIKey(ctx, key, account.HashSecret(secret), "a test"))
		got, err := reconcileAccount(ctx, store, "", slog.New(slog.NewTextHandler(&warned, nil)))
		if err != nil || got != made.want || !strings.Contains(warned.String(), made.warns) || made.warns == "" && warned.Len() > 0 {
			t.Errorf("with %s: %q, %v, %q", made.account, got, err, warned.String())
		}
		got, err = reconcileAccount(ctx, store, made.account, log)
		if err != nil || got != made.account {
			t.Errorf("%s is set: %q, %v", made.account, got, err)
		}
	}
}

// Keys that are not this database's end the start with what is to be set.
func TestServeRefusesAnotherSystemsKeys(t *testing.T) {
	t.Parallel()
	ctx, databaseURL := t.Context(), pgtest.URL(t)
	store := openStore(t, databaseURL)
	noError(t, checkKeys(ctx, store))
	run, err := store.BeginRun(ctx, reconcile.Run{Mode: reconcile.ModePlan, Providers: []string{"stripe"}, RequestedBy: "a test"}, time.Minute)
	noError(t, err)
	found := reconcile.Finding{Kind: reconcile.MissingLocally, Severity: reconcile.High, Provider: "stripe", Reference: "pi_1"}
	_, err = store.PutFindings(ctx, run, reconcile.Judged{Found: []reconcile.Finding{found}})
	noError(t, err)
	settings := goodSettings(databaseURL)
	c, err := config.Load(environOf(settings))
	noError(t, err)
	_, err = newSystem(ctx, c, slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "PAYSAGA_ENCRYPTION_KEYS are not this database's: ") {
		t.Errorf("serve with other keys of the same id: %v", err)
	}
}
