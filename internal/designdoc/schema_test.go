package designdoc

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/pgdev/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The tables that the page shows are those that a database has which has been migrated.
func TestTablesAreTheDatabases(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tables, routines, err := readSchema()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(query string, arguments ...any) []string {
		t.Helper()
		rows, err := pool.Query(t.Context(), query, arguments...)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, name := range shown {
		columns := ask(`
			SELECT a.attname || ' ' || CASE t.typname WHEN 'int4' THEN 'int' WHEN 'int8' THEN 'bigint' ELSE t.typname END ||
				CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
			FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
			WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attname COLLATE "C"`, name)
		if diff := cmp.Diff(columns, columnsOf(tables[name])); diff != "" {
			t.Errorf("columns of %s (-database +page):\n%s", name, diff)
		}
		named := ask(`
			SELECT conname FROM pg_constraint WHERE conrelid = $1::text::regclass AND conname !~ '_(check|pkey|not_null)$'
			ORDER BY conname COLLATE "C"`, name) // the others were named by the database
		if diff := cmp.Diff(named, constraintsOf(tables[name])); diff != "" {
			t.Errorf("constraints of %s (-database +page):\n%s", name, diff)
		}
		indexes := ask(`
			SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = $1::text::regclass AND NOT i.indisprimary ORDER BY c.relname COLLATE "C"`, name)
		if diff := cmp.Diff(indexes, indexesOf(tables[name])); diff != "" {
			t.Errorf("indexes of %s (-database +page):\n%s", name, diff)
		}
	}
	bodies := ask(`SELECT prosrc FROM pg_proc WHERE proname = 'paysaga_make_answers'`)
	if len(bodies) != 1 || !strings.Contains(routines["paysaga_make_answers"], bodies[0]) {
		t.Errorf("the function is another one in the database: %q", bodies)
	}
}

func columnsOf(t *table) []string {
	columns := []string{}
	for _, item := range t.Items {
		if words := strings.Fields(item.Text); !item.Constraint {
			columns = append(columns, words[0]+" "+words[1]+nullable(t, item))
		}
	}
	slices.Sort(columns)
	return columns
}

func constraintsOf(t *table) []string {
	constraints := []string{}
	for _, item := range t.Items {
		if _, after, ok := strings.Cut(item.Text, "CONSTRAINT "); ok {
			constraints = append(constraints, strings.Fields(after)[0])
		}
	}
	slices.Sort(constraints)
	return constraints
}

func indexesOf(t *table) []string {
	indexes := make([]string, 0, len(t.Indexes))
	for _, index := range t.Indexes {
		_, after, _ := strings.Cut(index, "INDEX ")
		indexes = append(indexes, strings.Fields(after)[0])
	}
	slices.Sort(indexes)
	return indexes
}

// nullable is what the database says of a column: one that is in the primary key is NOT NULL as well.
func nullable(t *table, column item) string {
	if strings.Contains(column.Text, "NOT NULL") || strings.Contains(column.Text, "PRIMARY KEY") {
		return " NOT NULL"
	}
	for _, other := range t.Items {
		if other.Constraint && strings.HasPrefix(other.Text, "PRIMARY KEY") && strings.Contains(other.Text, column.Name) {
			return " NOT NULL"
		}
	}
	return ""
}

func TestMigrationsAreFollowed(t *testing.T) {
	t.Parallel()
	tables, routines := map[string]*table{}, map[string]string{}
	const up = `
-- About the table; nothing else.
CREATE TABLE key_limits (
    a text NOT NULL, -- one; two
    b int DEFAULT 1 CHECK (b IN (1, 2)), -- it's quoted
    CONSTRAINT both CHECK (a <> ',;(')
) WITH (fillfactor = 50); -- room

ALTER TABLE key_limits ADD COLUMN c date, DROP COLUMN b,
    DROP CONSTRAINT both, ADD CONSTRAINT one CHECK (a <> '');
CREATE INDEX key_limits_by_c ON key_limits (c);
`
	for _, one := range statements(up) {
		if err := follow(tables, routines, one); err != nil {
			t.Fatal(err)
		}
	}
	const want = `-- About the table; nothing else.
CREATE TABLE key_limits (
    a text NOT NULL, -- one; two
    c date,
    CONSTRAINT one CHECK (a <> '')
) WITH (fillfactor = 50);
CREATE INDEX key_limits_by_c ON key_limits (c);
`
	if diff := cmp.Diff(want, tables["key_limits"].DDL()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, refused := range []string{
		"ALTER TABLE key_limits RENAME COLUMN a TO b", "ALTER TABLE key_limits DROP COLUMN nowhere", "ALTER TABLE key_limits ALTER a SET NOT NULL",
	} {
		if err := follow(tables, routines, refused); err == nil {
			t.Errorf("%s: no error", refused)
		}
	}
}
