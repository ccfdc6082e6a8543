package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

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

// contents are all tables of a database with how many rows they have, and how their columns are filled.
const contents = `SELECT coalesce(string_agg(concat_ws(' ', table_schema, table_name, column_name, column_default,
	(xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I.%I', table_schema, table_name), false, true, '')))[1]), chr(10)
	ORDER BY table_schema, table_name, column_name), '') FROM information_schema.columns
	WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`

// A database that is not given away stays as it is, whatever is in it.
func TestFixturesLeaveOthersDatabasesAlone(t *testing.T) {
	t.Parallel()
	file := writeFixture(t, aFixture)
	for name, c := range map[string]struct {
		url  func(testing.TB) string
		made string // what is in it
		want string
	}{
		"another application's":     {pgtest.EmptyURL, `CREATE TABLE customers (id int); INSERT INTO customers VALUES (1)`, "it has the table customers"},
		"a schema":                  {pgtest.EmptyURL, `CREATE SCHEMA billing`, "it has the schema billing"},
		"a function":                {pgtest.EmptyURL, `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'`, "it has the function f"},
		"a type":                    {pgtest.EmptyURL, `CREATE TYPE mood AS ENUM ('good')`, "it has the type mood"},
		"a view":                    {pgtest.EmptyURL, `CREATE VIEW seen AS SELECT 1 AS one`, "it has the table seen"},
		"migrated, without account": {pgtest.URL, ``, "createdb scratch"},
		"of an older version":       {pgtest.EmptyURL, `CREATE TABLE accounts (id text); CREATE TABLE goose_db_version (id int)`, "createdb scratch"},
		"an account":                {pgtest.URL, `INSERT INTO accounts (id) VALUES ('somebody')`, "createdb scratch"},
		"the stage's account": {
			pgtest.URL, `INSERT INTO accounts (id) VALUES ('stage'); INSERT INTO stock (account_id, sku, on_hand) VALUES ('stage', 'cup', 7)`,
			"createdb scratch",
		},
		"a schema of the stage's name": {pgtest.EmptyURL, `CREATE SCHEMA stage`, "it has the schema stage"},
		"another's mark": {
			pgtest.EmptyURL, `CREATE SCHEMA stage; CREATE TABLE stage.scratch_database (id bigint); INSERT INTO stage.scratch_database VALUES (1)`,
			"it has the schema stage",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := c.url(t)
			before := contentsAfter(t, database, c.made)
			_, err := fixtures(t, "replay", "--database-url", database, file)
			if err == nil || !strings.Contains(err.Error(), "createdb scratch") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, contentsAfter(t, database, "")); diff != "" {
				t.Errorf("it was changed:\n%s", diff)
			}
		})
	}
}

// A scratch database can be used again, until somebody has an account there.
func TestScratchDatabaseIsMarked(t *testing.T) {
	t.Parallel()
	file, database := writeFixture(t, strings.Replace(aFixture, "rolled_back", "completed", 1)), pgtest.EmptyURL(t)
	for range 2 {
		if out, err := fixtures(t, "replay", "--database-url", database, file); err != nil {
			t.Fatalf("error = %v, said:\n%s", err, out)
		}
	}
	before := contentsAfter(t, database, `INSERT INTO public.accounts (id) VALUES ('somebody')`)
	if _, err := fixtures(t, "replay", "--database-url", database, file); err == nil || !strings.Contains(err.Error(), "has accounts now") {
		t.Errorf("error = %v", err)
	}
	if diff := cmp.Diff(before, contentsAfter(t, database, "")); diff != "" {
		t.Errorf("it was changed:\n%s", diff)
	}
}

// contentsAfter executes statements in a database, and tells what is in it then.
func contentsAfter(t *testing.T, database, statements string) (all string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	if _, err := connection.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
	if err := connection.QueryRow(t.Context(), contents).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func writeFixture(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "one.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What may never end, or is somewhere else, is not read; nor is it written.
func TestFixturesAreRegularFiles(t *testing.T) {
	t.Parallel()
	target := writeFixture(t, aFixture)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(t.TempDir(), "endless.yaml")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", link, filepath.Dir(link), filepath.Dir(endless)} {
		if _, err := fixtures(t, "replay", "--update", path); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%s: error = %v", path, err)
		}
	}
	one := &replay{File: link}
	if err := one.write([]byte("changed")); err == nil {
		t.Error("written through a link")
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != aFixture {
		t.Errorf("the link's target is changed: %v\n%s", err, text)
	}
}

func TestFixturesAreReadToTheirBound(t *testing.T) {
	t.Parallel()
	file := writeFixture(t, strings.Repeat("#", 10*fixture.MaxBytes))
	if text, err := readBounded(file); err != nil || len(text) != fixture.MaxBytes+1 {
		t.Errorf("read %d bytes, %v", len(text), err)
	}
	if _, err := fixtures(t, "replay", file); err == nil || !strings.Contains(err.Error(), "is longer than a MiB") {
		t.Errorf("error = %v", err)
	}
}

// A refused order is told with its reason, and an empty expectation is filled in.
func TestFixturesTellWhyAnOrderIsRefused(t *testing.T) {
	t.Parallel()
	refused := strings.NewReplacer("pm_card_visa", "nonsense", "1000", "10", "# of the end\n  state: rolled_back", "{}").Replace(aFixture)
	file, database := writeFixture(t, refused), pgtest.EmptyURL(t)
	out, err := fixtures(t, "replay", "--update", "--verbose", "--database-url", database, file)
	if err != nil || !strings.Contains(out, "payment-not-possible: The amount is under Stripe's minimum") {
		t.Fatalf("error = %v, said:\n%s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "findings: []") {
		t.Errorf("not filled in: %v\n%s", err, text)
	}
}

// Of a play that did not come to its end nothing is known that a file could expect; that it is left as it was is said.
func TestFixturesDoNotUpdateFromHalfAPlay(t *testing.T) {
	t.Parallel()
	half := strings.NewReplacer("- place: {}", "- place: {}\n  - deadline: {}", "1000", "10").Replace(aFixture)
	file, database := writeFixture(t, half), pgtest.EmptyURL(t)
	out, err := fixtures(t, "replay", "--update", "--database-url", database, file)
	if err == nil || !strings.Contains(out, "not updated: it was not played to its end") ||
		!strings.Contains(out, "under Stripe's minimum") {
		t.Errorf("error = %v, said:\n%s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != half {
		t.Errorf("changed: %v\n%s", err, text)
	}
}

func TestFixturesSchema(t *testing.T) {
	t.Parallel()
	if out, err := fixtures(t, "schema"); err != nil || out != string(fixture.Schema) {
		t.Errorf("error = %v, said %d bytes", err, len(out))
	}
}
