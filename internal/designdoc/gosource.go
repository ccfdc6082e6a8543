package designdoc

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// readTests finds each test, fuzz test and benchmark of the main module.
func readTests(root string) (map[string]map[string]string, error) {
	tests := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "tools"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("name: %w", err)
		}
		relative = filepath.ToSlash(relative)
		folder := strings.TrimSuffix(relative, "/"+entry.Name())
		if tests[folder] == nil {
			tests[folder] = map[string]string{}
		}
		return addTests(tests[folder], path, relative)
	})
	if err != nil {
		return nil, fmt.Errorf("walk: %w", err)
	}
	return tests, nil
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z0-9_]`)

// addTests adds the tests of one file under the name that it has in the project.
func addTests(tests map[string]string, path, name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && testName.MatchString(function.Name.Name) {
			tests[function.Name.Name] = name
		}
	}
	return nil
}

// parseFolder parses the files of a package without its tests.
func parseFolder(root, folder string) ([]*ast.File, error) {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s", folder)
	}
	return files, nil
}

// constants are numbers and durations that the code has under unexported names, by folder and name. Durations are in nanoseconds.
type constants map[string]map[string]int64

const guardFolder = "internal/idempotency"

// constantFolders have the constants that the page shows.
var constantFolders = []string{
	"cmd/paysaga", "internal/httpapi", guardFolder, "internal/postgres", "internal/seal", "providers/stripe", "providers/adyen",
	"providers/paypal", "saga",
}

func readConstants(root string) (constants, error) {
	all := constants{}
	for _, folder := range constantFolders {
		files, err := parseFolder(root, folder)
		if err != nil {
			return nil, err
		}
		all[folder] = map[string]int64{}
		for _, file := range files {
			for _, node := range file.Decls {
				declaration, ok := node.(*ast.GenDecl)
				if ok && declaration.Tok == token.CONST {
					all.add(folder, declaration.Specs)
				}
			}
		}
	}
	return all, nil
}

// add takes what can be worked out; what cannot is text, an enumeration, or of a kind that no page needs.
func (c constants) add(folder string, specs []ast.Spec) {
	for _, spec := range specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok || len(values.Names) != len(values.Values) {
			continue
		}
		for i, name := range values.Names {
			value, err := readConstant(c[folder], values.Values[i])
			if err != nil {
				continue
			}
			if number, exact := constant.Int64Val(constant.ToInt(value)); exact {
				c[folder][name.Name] = number
			}
		}
	}
}

func (c constants) get(folder, name string) (int64, error) {
	value, ok := c[folder][name]
	if !ok {
		return 0, fmt.Errorf("%s has no constant %s that can be worked out", folder, name)
	}
	return value, nil
}

func readConstant(known map[string]int64, expression ast.Expr) (constant.Value, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(strings.ReplaceAll(e.Value, "_", ""), e.Kind, 0), nil
	case *ast.ParenExpr:
		return readConstant(known, e.X)
	case *ast.Ident:
		if value, ok := known[e.Name]; ok {
			return constant.MakeInt64(value), nil
		}
	case *ast.SelectorExpr:
		if unit, ok := units[e.Sel.Name]; ok {
			return constant.MakeInt64(int64(unit)), nil
		}
	case *ast.BinaryExpr:
		return readBinary(known, e)
	default:
	}
	return nil, errors.New("not a number")
}

var units = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

func readBinary(known map[string]int64, e *ast.BinaryExpr) (constant.Value, error) {
	left, err := readConstant(known, e.X)
	if err != nil {
		return nil, err
	}
	right, err := readConstant(known, e.Y)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case token.SHL, token.SHR:
		by, _ := constant.Uint64Val(right)
		return constant.Shift(left, e.Op, uint(by)), nil
	case token.ADD, token.SUB, token.MUL:
		return constant.BinaryOp(left, e.Op, right), nil
	default:
		return nil, errors.New("not a number")
	}
}

// intent is what goes into the fingerprint of one operation, in this order.
type intent struct {
	Operation string // with the version of its list: "create order 1"
	Function  string
	Fields    []string
}

// readIntents reads the functions of package httpapi that make fingerprints: the operation's words, and the names of the fields in the
// order in which they are written into the hash.
func readIntents(root string) (map[string]intent, error) {
	files, err := parseFolder(root, "internal/httpapi")
	if err != nil {
		return nil, err
	}
	intents := map[string]intent{}
	for _, file := range files {
		for _, node := range file.Decls {
			function, ok := node.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(function.Name.Name, "Fingerprint") {
				continue
			}
			found := intent{Function: function.Name.Name, Fields: fieldNames(function.Body)}
			if len(found.Fields) == 0 || !strings.HasSuffix(found.Fields[0], operationMark) {
				return nil, fmt.Errorf("%s begins no intent", function.Name.Name)
			}
			found.Operation = strings.TrimSuffix(found.Fields[0], operationMark)
			found.Fields = found.Fields[1:]
			intents[found.Operation] = found
		}
	}
	return intents, nil
}

// fieldNames collects the first arguments of NewIntent, String and Int, in the order in which the calls are made.
func fieldNames(body ast.Node) []string {
	var names []string
	var visit func(node ast.Node) bool
	visit = func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}
		selector, isMethod := call.Fun.(*ast.SelectorExpr)
		if !isMethod || len(call.Args) == 0 {
			return true
		}
		ast.Inspect(selector.X, visit) // of a chain the calls on the left are made first
		switch name := text(call.Args[0]); {
		case name == "":
		case selector.Sel.Name == "NewIntent":
			names = append(names, name+operationMark)
		case selector.Sel.Name == "String", selector.Sel.Name == "Int":
			names = append(names, name)
		default:
		}
		for _, argument := range call.Args {
			ast.Inspect(argument, visit)
		}
		return false
	}
	ast.Inspect(body, visit)
	return names
}

// operationMark tells an operation's words from the names of fields.
const operationMark = "\x00operation"

// readScenarios reads the names of the contract's scenarios, and what a client sees in each, from the command that plays them.
func readScenarios(root string) ([][2]string, error) {
	files, err := parseFolder(root, "cmd/paysaga")
	if err != nil {
		return nil, err
	}
	var scenarios [][2]string
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			declared, ok := node.(*ast.ValueSpec)
			if !ok || declared.Names[0].Name != "contractScenarios" || len(declared.Values) != 1 {
				return true
			}
			if list, ok := declared.Values[0].(*ast.CompositeLit); ok {
				scenarios = append(scenarios, firstTwo(list)...)
			}
			return false
		})
	}
	if len(scenarios) == 0 {
		return nil, errors.New("cmd/paysaga has no table contractScenarios")
	}
	return scenarios, nil
}

// firstTwo are the first two texts of each element of a list.
func firstTwo(list *ast.CompositeLit) [][2]string {
	var all [][2]string
	for _, element := range list.Elts {
		if one, ok := element.(*ast.CompositeLit); ok && len(one.Elts) > 1 {
			all = append(all, [2]string{text(one.Elts[0]), text(one.Elts[1])})
		}
	}
	return all
}

// text is a string constant as it is written, in one piece or in several.
func text(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		unquoted, _ := strconv.Unquote(e.Value) // of a number nothing
		return unquoted
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	default:
		return ""
	}
}
