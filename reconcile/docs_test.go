package reconcile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// docs/reconciliation.md tells of every kind of finding and of every repair.
func TestDocumentTellsOfAll(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/reconciliation.md")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(Kinds())+len(Repairs()))
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	for _, repair := range Repairs() {
		names = append(names, string(repair))
	}
	for _, name := range names {
		if !strings.Contains(string(document), "`"+name+"`") {
			t.Errorf("docs/reconciliation.md does not tell of %q", name)
		}
	}
}

// Kinds and Repairs leave none out.
func TestListsAreWhole(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]int{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && spec.Names[0].Name != "RepairNone" {
			declared[name.Name] += len(spec.Names)
		}
		return true
	})
	if declared["Kind"] != len(Kinds()) || declared["Repair"] != len(Repairs()) {
		t.Errorf("finding.go declares %v; the lists have %d kinds and %d repairs", declared, len(Kinds()), len(Repairs()))
	}
}
