package saga

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constantsOfFindings are the constants of finding.go.
func constantsOfFindings(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok {
			kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value) //nolint:errcheck // fails the test
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, kind)
		}
		return true
	})
	return kinds
}

// A person meets no finding that the runbook does not tell of.
func TestRunbookHasEveryFinding(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := constantsOfFindings(t)
	if len(kinds) == 0 {
		t.Fatal("finding.go has no kinds")
	}
	for _, kind := range kinds {
		if !strings.Contains(string(document), "`"+kind+"`") {
			t.Errorf("docs/runbook.md does not tell what to do about `%s`", kind)
		}
	}
}

func TestFindingKindsAreAllOfThem(t *testing.T) {
	t.Parallel()
	if want, got := constantsOfFindings(t), FindingKinds(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The kinds of findings are named in finding.go alone.
func TestFindingsHaveTheirNamesInOnePlace(t *testing.T) {
	t.Parallel()
	kinds := constantsOfFindings(t)
	files, err := parser.ParseDir(token.NewFileSet(), ".", func(info os.FileInfo) bool { //nolint:staticcheck // no build tags here
		return !strings.HasSuffix(info.Name(), "_test.go") && info.Name() != "finding.go"
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(files["saga"], func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if literal, ok := call.Args[0].(*ast.BasicLit); ok && slices.Contains(kinds, strings.Trim(literal.Value, `"`)) {
			t.Errorf("%s is written out", literal.Value)
		}
		return true
	})
}
