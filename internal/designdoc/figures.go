package designdoc

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

//go:embed page/*.svg
var figures embed.FS

// figure writes a drawing, under its caption: "name caption".
func (w *writer) figure(argument string) {
	name, caption, _ := strings.Cut(argument, " ")
	drawing, err := figures.ReadFile("page/" + name + ".svg")
	if err != nil {
		w.failf("there is no figure %q", name)
		return
	}
	w.put(`<figure><div class="scroll" role="group" aria-label="`+name+`" tabindex="0">`, strings.TrimSpace(string(drawing)), `</div>`)
	w.put(`<figcaption>`, w.inline(caption), `</figcaption></figure>`)
}

// goCode writes declarations as they stand in the code: "path Name Name…".
func (w *writer) goCode(argument string) {
	words := strings.Fields(argument)
	path := filepath.Join(w.sources.root, filepath.FromSlash(words[0]))
	content, err := os.ReadFile(path) //nolint:gosec // a file of this project
	if err != nil {
		w.failf("there is no file %s", words[0])
		return
	}
	fileSet := token.NewFileSet()
	file, err := parser.ParseFile(fileSet, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		w.failf("cannot parse %s: %v", words[0], err)
		return
	}
	pieces := make([]string, 0, len(words)-1)
	for _, name := range words[1:] {
		from, to := place(file, name)
		if !from.IsValid() {
			w.failf("%s declares no %s", words[0], name)
			continue
		}
		pieces = append(pieces, string(content[fileSet.Position(from).Offset:fileSet.Position(to).Offset]))
	}
	w.put(`<p class="source">`, w.fileLink(words[0], "<code>"+words[0]+"</code>"), `</p>`)
	w.code("go", strings.ReplaceAll(strings.Join(pieces, "\n\n"), "\t", "    "))
}

// place is where a function or a declaration of one name begins, with its comment, and ends.
func place(file *ast.File, name string) (from, to token.Pos) {
	for _, node := range file.Decls {
		switch declaration := node.(type) {
		case *ast.FuncDecl:
			if declaration.Name.Name == name {
				return withDoc(declaration.Doc, declaration.Pos()), declaration.End()
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if ok && value.Names[0].Name == name && len(declaration.Specs) == 1 {
					return withDoc(declaration.Doc, declaration.Pos()), declaration.End()
				}
			}
		default:
		}
	}
	return token.NoPos, token.NoPos
}

func withDoc(doc *ast.CommentGroup, from token.Pos) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return from
}
