package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/internal/config"
	"paysaga/providers"
	"paysaga/reconcile"
)

func TestReconcileRefuses(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"PAYSAGA_RECONCILE_SCHEDULE=hourly":                    "PAYSAGA_RECONCILE_SCHEDULE: is no schedule; write off, a duration such as 1h, or five cron fields",
		"PAYSAGA_RECONCILE_MODE=do":                            "PAYSAGA_RECONCILE_MODE: must be plan or apply",
		"PAYSAGA_RECONCILE_LOOKBACK=30":                        "PAYSAGA_RECONCILE_LOOKBACK: is no duration",
		"PAYSAGA_RECONCILE_OVERLAP=1m":                         "PAYSAGA_RECONCILE_OVERLAP: is 1m; it must be between 1h and 2160h",
		"PAYSAGA_RECONCILE_FOREIGN=no":                         "PAYSAGA_RECONCILE_FOREIGN: must be report or ignore",
		"PAYSAGA_RECONCILE_ACCOUNT=My shop":                    "PAYSAGA_RECONCILE_ACCOUNT: is no account's name",
		"PAYSAGA_RECONCILE_REPAIRS=complete,charge":            `PAYSAGA_RECONCILE_REPAIRS: names a repair that does not exist, "charge"; it may name complete, undo`,
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=1000 EUR":           "PAYSAGA_RECONCILE_MAX_PER_FINDING: is no limit of money",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=-1":                 "PAYSAGA_RECONCILE_MAX_PER_FINDING: is no limit of money",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=1e3":                "PAYSAGA_RECONCILE_MAX_PER_FINDING: is no limit of money",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,EUR":             "PAYSAGA_RECONCILE_MAX_PER_FINDING: is no limit of money",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,EUR:1.":          "PAYSAGA_RECONCILE_MAX_PER_FINDING: for EUR: is no limit of money",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=EUR:10":             "PAYSAGA_RECONCILE_MAX_PER_FINDING: must begin with an amount for all currencies",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10.5":               "PAYSAGA_RECONCILE_MAX_PER_FINDING: 10.5 has decimals, where only whole units fit",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,JPY:1.5":         "PAYSAGA_RECONCILE_MAX_PER_FINDING: for JPY: 1.5 has decimals, where only whole units fit",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,EUR:1.505":       "PAYSAGA_RECONCILE_MAX_PER_FINDING: for EUR: 1.505 has more than the currency's 2 decimals",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,eur:1":           `PAYSAGA_RECONCILE_MAX_PER_FINDING: names "eur", which is no currency of ISO 4217 in capital letters`,
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=10,EUR:1,EUR:2":     "PAYSAGA_RECONCILE_MAX_PER_FINDING: names EUR twice",
		"PAYSAGA_RECONCILE_MAX_PER_RUN=99999999999999999999":   "PAYSAGA_RECONCILE_MAX_PER_RUN: 99999999999999999999 is more than 1000000000000",
		"PAYSAGA_RECONCILE_MAX_DUPLICATE=10,KWD:1000000000001": "PAYSAGA_RECONCILE_MAX_DUPLICATE: for KWD: 1000000000001 is more than 1000000000000",
	} {
		t.Run(entry, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, with(entry), want)
		})
	}
}

func TestLimitIn(t *testing.T) {
	t.Parallel()
	c, err := config.Load(with("PAYSAGA_RECONCILE_MAX_PER_RUN=1000,JPY:150000,KWD:300.5,EUR:0"))
	if err != nil {
		t.Fatal(err)
	}
	for currency, want := range map[string]int64{
		"USD": 100000, "KRW": 1000, "BHD": 1000000, "JPY": 150000, "KWD": 300500, "EUR": 0,
		"XXX": 0, // nothing may be moved in what is no currency
	} {
		if got := c.Reconcile.PerRun.In(currency); got != want {
			t.Errorf("limit in %s is %d, want %d", currency, got, want)
		}
	}
}

// An amount as it is shown to people is the same limit again, to the last minor unit.
func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		money := providers.Money{
			Amount:   rapid.Int64Range(0, 1e12).Draw(t, "amount"),
			Currency: rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(t, "currency"),
		}
		shown := money.String()
		text := money.Currency + ":" + shown[:len(shown)-len(" EUR")]
		c, err := config.Load(with("PAYSAGA_RECONCILE_MAX_PER_FINDING=0," + text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Reconcile.PerFinding.In(money.Currency); got != money.Amount {
			t.Fatalf("%s is read as %d", text, got)
		}
	})
}

// The settings' words are those of reconciliation.
func TestReconcileKnowsTheWords(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, len(reconcile.Repairs()))
	for _, repair := range reconcile.Repairs() {
		names = append(names, string(repair))
	}
	if diff := cmp.Diff(names, config.RepairNames()); diff != "" {
		t.Errorf("repairs (-reconcile +config):\n%s", diff)
	}
	if reconcile.ModePlan != "plan" || reconcile.ModeApply != "apply" {
		t.Error("the modes have other names")
	}
	c, err := config.Load(with("PAYSAGA_RECONCILE_REPAIRS=none"))
	if err != nil || c.Reconcile.Repairs == nil || len(c.Reconcile.Repairs) > 0 {
		t.Errorf("none: %v, %v", c.Reconcile.Repairs, err)
	}
}
