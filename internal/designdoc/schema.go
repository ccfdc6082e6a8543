package designdoc

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"paysaga/migrations"
)

// table is a table as the migrations leave it.
type table struct {
	Name    string
	Comment []string // lines above it
	Items   []item   // columns and constraints
	After   string   // what follows the list, "PARTITION BY …"
	Indexes []string // statements
}

// item is a column or a constraint.
type item struct {
	Name       string // of a constraint without one: empty
	Constraint bool
	Text       string
	Comment    string
}

// shown are the tables that the page shows.
var shown = []string{"idempotency_keys", "idempotency_answers", "key_limits"}

// readSchema follows the migrations upwards for the tables that are shown. It knows the few kinds of statements that these need and
// refuses others about them; a test holds the result against a real database.
func readSchema() (map[string]*table, map[string]string, error) {
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return nil, nil, fmt.Errorf("list: %w", err)
	}
	slices.Sort(files)
	tables, routines := map[string]*table{}, map[string]string{}
	for _, file := range files {
		content, err := fs.ReadFile(migrations.Files, file)
		if err != nil {
			return nil, nil, fmt.Errorf("read: %w", err)
		}
		up, _, _ := strings.Cut(string(content), "-- +goose Down")
		for _, statement := range statements(up) {
			if err := follow(tables, routines, statement); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	for _, name := range shown {
		if tables[name] == nil {
			return nil, nil, fmt.Errorf("no migration makes %s", name)
		}
	}
	return tables, routines, nil
}

// split parts SQL at a separator that is outside of brackets, quotes, bodies of functions and comments.
func split(sql string, separator byte) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(sql); i++ {
		switch rest := sql[i:]; {
		case strings.HasPrefix(rest, "--"):
			i += end(rest, "\n") - 1
		case strings.HasPrefix(rest, "$$"):
			i += 2 + end(rest[2:], "$$") - 1
		case rest[0] == '\'':
			i += 1 + end(rest[1:], "'") - 1
		case rest[0] == '(':
			depth++
		case rest[0] == ')':
			depth--
		case rest[0] == separator && depth == 0:
			parts = append(parts, sql[from:i])
			from = i + 1
		default:
		}
	}
	return append(parts, sql[from:])
}

// end is the place behind the next mark.
func end(text, mark string) int {
	at := strings.Index(text, mark)
	if at < 0 {
		return len(text)
	}
	return at + len(mark)
}

func statements(up string) []string {
	var all []string
	for _, one := range split(up, ';') {
		var kept []string
		for line := range strings.SplitSeq(one, "\n") {
			if !strings.HasPrefix(line, "-- +goose") {
				kept = append(kept, line)
			}
		}
		if one = strings.TrimSpace(strings.Join(kept, "\n")); one != "" {
			all = append(all, one)
		}
	}
	return all
}

var (
	createTable    = regexp.MustCompile(`(?s)^CREATE TABLE (\w+) \((.*)\)([^)]*)$`)
	alterTable     = regexp.MustCompile(`(?s)^ALTER TABLE (\w+)\s+(.*)$`)
	createIndex    = regexp.MustCompile(`(?s)^CREATE (?:UNIQUE )?INDEX \w+ ON (\w+) `)
	createFunction = regexp.MustCompile(`(?s)^CREATE (?:OR REPLACE )?FUNCTION (\w+)\(`)
	withOptions    = regexp.MustCompile(`(?s)^(.*)\)(\s*WITH \(.*)$`)
)

// follow does what a statement does to the tables that are shown, and keeps functions.
func follow(tables map[string]*table, routines map[string]string, statement string) error {
	comment, body := cutComment(statement)
	if match := createFunction.FindStringSubmatch(body); match != nil {
		routines[match[1]] = strings.Join(append(comment, body), "\n") + ";"
		return nil
	}
	if match := createTable.FindStringSubmatch(body); match != nil && slices.Contains(shown, match[1]) {
		return create(tables, match[1], comment, body)
	}
	if match := createIndex.FindStringSubmatch(body); match != nil && slices.Contains(shown, match[1]) {
		tables[match[1]].Indexes = append(tables[match[1]].Indexes, strings.Join(append(comment, body), "\n")+";")
		return nil
	}
	if match := alterTable.FindStringSubmatch(body); match != nil && slices.Contains(shown, match[1]) {
		return alter(tables[match[1]], match[2])
	}
	return nil
}

// cutComment parts the lines of comment above a statement from it. A comment that a blank line follows is not about the statement.
func cutComment(statement string) (comment []string, body string) {
	lines := strings.Split(statement, "\n")
	for len(lines) > 0 && (strings.HasPrefix(lines[0], "--") || strings.TrimSpace(lines[0]) == "") {
		if strings.TrimSpace(lines[0]) == "" {
			comment = nil
		} else {
			comment = append(comment, lines[0])
		}
		lines = lines[1:]
	}
	return comment, strings.Join(lines, "\n")
}

func create(tables map[string]*table, name string, comment []string, body string) error {
	open, shut := strings.IndexByte(body, '('), strings.LastIndexByte(body, ')')
	if match := withOptions.FindStringSubmatchIndex(body); match != nil {
		shut = match[3]
	}
	if at := strings.LastIndex(body, "PARTITION BY"); at > 0 {
		shut = strings.LastIndexByte(body[:at], ')')
	}
	made := &table{Name: name, Comment: comment, After: body[shut+1:]}
	made.Items = append(made.Items, withComments(split(body[open+1:shut], ','))...)
	tables[name] = made
	return nil
}

// withComments gives each part of a list the comment that stands behind its comma on the same line.
func withComments(parts []string) []item {
	items := make([]item, 0, len(parts))
	for i, part := range parts {
		if line, rest, ok := strings.Cut(part, "\n"); ok && i > 0 && strings.HasPrefix(strings.TrimSpace(line), "--") {
			items[i-1].Comment, part = strings.TrimSpace(line), rest
		}
		part = strings.TrimSpace(part)
		var comment string
		if at := strings.LastIndex(part, "-- "); at >= 0 && !strings.Contains(part[at:], "\n") { // of the last one, which no comma follows
			part, comment = strings.TrimSpace(part[:at]), part[at:]
		}
		items = append(items, newItem(part, comment))
	}
	return items
}

func newItem(text, comment string) item {
	words := strings.Fields(text)
	switch words[0] {
	case "CONSTRAINT":
		return item{Name: words[1], Constraint: true, Text: text, Comment: comment}
	case "PRIMARY", "UNIQUE", "CHECK", "FOREIGN":
		return item{Constraint: true, Text: text, Comment: comment}
	default:
		return item{Name: words[0], Text: text, Comment: comment}
	}
}

// alter follows the actions that the migrations use.
func alter(t *table, actions string) error {
	for _, action := range split(actions, ',') {
		action = strings.TrimSpace(action)
		words := strings.Fields(action)
		var found int
		switch {
		case strings.HasPrefix(action, "ADD COLUMN "):
			columns := slices.IndexFunc(t.Items, func(i item) bool { return i.Constraint })
			t.Items = slices.Insert(t.Items, columns, newItem(strings.TrimPrefix(action, "ADD COLUMN "), ""))
			continue
		case strings.HasPrefix(action, "ADD CONSTRAINT "):
			t.Items = append(t.Items, newItem(strings.TrimPrefix(action, "ADD "), ""))
			continue
		case strings.HasPrefix(action, "DROP COLUMN "):
			found = slices.IndexFunc(t.Items, func(i item) bool { return !i.Constraint && i.Name == words[2] })
		case strings.HasPrefix(action, "DROP CONSTRAINT "):
			found = slices.IndexFunc(t.Items, func(i item) bool { return i.Constraint && i.Name == words[2] })
		default:
			return fmt.Errorf("cannot follow %q on %s", action, t.Name)
		}
		if found < 0 {
			return fmt.Errorf("%s has nothing to %q", t.Name, action)
		}
		t.Items = slices.Delete(t.Items, found, found+1)
	}
	return nil
}

// DDL writes the table as one would make it today.
func (t *table) DDL() string {
	var out strings.Builder
	for _, line := range t.Comment {
		out.WriteString(line + "\n")
	}
	out.WriteString("CREATE TABLE " + t.Name + " (\n")
	width := 0
	for _, i := range t.Items {
		if !i.Constraint {
			width = max(width, len(i.Name))
		}
	}
	for n, i := range t.Items {
		line := i.Text
		if !i.Constraint {
			line = fmt.Sprintf("%-*s %s", width, i.Name, strings.TrimSpace(strings.TrimPrefix(i.Text, i.Name)))
		}
		out.WriteString("    " + line)
		if n < len(t.Items)-1 {
			out.WriteByte(',')
		}
		if i.Comment != "" {
			out.WriteString(" " + i.Comment)
		}
		out.WriteByte('\n')
	}
	out.WriteString(")" + t.After + ";\n")
	for _, index := range t.Indexes {
		out.WriteString(index + "\n")
	}
	return out.String()
}
