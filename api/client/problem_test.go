package client

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProblemsAreTheServers compares what is known here of problems with the server's own table, as its source has it.
func TestProblemsAreTheServers(t *testing.T) {
	t.Parallel()
	server := problemsInSource(t, "../../internal/httpapi/problem*.go")
	var all []ProblemType
	for _, slugs := range server {
		all = append(all, slugs...)
	}
	if len(all) < 30 {
		t.Fatalf("only %d problems found", len(all))
	}
	// The server calls them final, as a repeat gets them again; but something may have been done under the key.
	kept := slices.DeleteFunc(server["finalProblem"], func(slug ProblemType) bool {
		return slug == IdempotencyKeyReuse || slug == IdempotencyKeyExpired
	})
	same(t, "final", kept, final)
	same(t, "passing", server["passingConflict"], passing)
	for _, slug := range constants(t) {
		if !slices.Contains(all, slug) {
			t.Errorf("the server has no problem %s", slug)
		}
	}
}

func same(t *testing.T, what string, server, here []ProblemType) {
	t.Helper()
	if difference := cmp.Diff(slices.Sorted(slices.Values(server)), slices.Sorted(slices.Values(here))); difference != "" {
		t.Errorf("%s (-server +client):\n%s", what, difference)
	}
}

// problemsInSource gives the slugs of all problems, by the function that makes their kind.
func problemsInSource(t *testing.T, pattern string) map[string][]ProblemType {
	t.Helper()
	found := map[string][]ProblemType{}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no source at %s: %v", pattern, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := call.Fun.(*ast.Ident)
			if ok && slices.Contains([]string{"problemType", "finalProblem", "passingProblem", "passingConflict"}, name.Name) {
				if slug := firstText(call.Args); slug != "" {
					found[name.Name] = append(found[name.Name], ProblemType(slug))
				}
			}
			return true
		})
	}
	return found
}

func firstText(arguments []ast.Expr) string {
	for _, argument := range arguments {
		if literal, ok := argument.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			return text
		}
	}
	return ""
}

// constants are the ProblemTypes that this package exports.
func constants(t *testing.T) (slugs []ProblemType) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		if value, ok := node.(*ast.ValueSpec); ok {
			if kind, ok := value.Type.(*ast.Ident); ok && kind.Name == "ProblemType" {
				slugs = append(slugs, ProblemType(firstText(value.Values)))
			}
		}
		return true
	})
	if len(slugs) < 20 {
		t.Fatalf("only %d constants found", len(slugs))
	}
	return slugs
}
