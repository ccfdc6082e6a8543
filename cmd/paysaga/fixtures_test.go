package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paysaga/internal/pgdev/pgtest"
	"paysaga/saga/fixture"
)

// fixtures runs the command and gives what it says.
func fixtures(t *testing.T, arguments ...string) (out string, err error) {
	t.Helper()
	root := newRootCommand()
	var said bytes.Buffer
	root.SetOut(&said)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"fixtures"}, arguments...))
	err = root.ExecuteContext(t.Context())
	return said.String(), err
}

const aFixture = `paysaga_fixture: 1
description: The card pays.
stock: {cup: 1}
order:
  currency: EUR
  amount: 1000
  items: [{sku: cup, quantity: 1, unit_amount: 1000}]
  payment: {provider: stripe, method: pm_card_visa}
happenings:
  - place: {}
expect: # of the end
  state: rolled_back
`

func TestFixturesReplay(t *testing.T) {
	t.Parallel()
	file, database := filepath.Join(t.TempDir(), "one.yaml"), pgtest.EmptyURL(t)
	if err := os.WriteFile(file, []byte(aFixture), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := fixtures(t, "replay", "--database-url", database, filepath.Dir(file))
	if err == nil || !strings.Contains(out, "- state: rolled_back") || !strings.Contains(out, "+ state: completed") {
		t.Fatalf("error = %v, said:\n%s", err, out)
	}
	if out, err = fixtures(t, "replay", "--update", "--database-url", database, file); err == nil || !strings.Contains(out, "(updated)") {
		t.Fatalf("error = %v, said:\n%s", err, out)
	}
	if out, err = fixtures(t, "replay", "--database-url", database, file); err != nil {
		t.Fatalf("error = %v, said:\n%s", err, out)
	}
}

func TestFixturesLeaveOthersDatabasesAlone(t *testing.T) {
	t.Parallel()
	file, pool := filepath.Join(t.TempDir(), "one.yaml"), pgtest.New(t)
	if err := os.WriteFile(file, []byte(aFixture), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO accounts (id) VALUES ('somebody')`); err != nil {
		t.Fatal(err)
	}
	if _, err := fixtures(t, "replay", "--database-url", pool.Config().ConnString(), file); err == nil ||
		!strings.Contains(err.Error(), "no scratch one") {
		t.Errorf("error = %v", err)
	}
}

func TestFixturesSchema(t *testing.T) {
	t.Parallel()
	if out, err := fixtures(t, "schema"); err != nil || out != string(fixture.Schema) {
		t.Errorf("error = %v, said %d bytes", err, len(out))
	}
}
