// Package pages makes the HTML pages that people read: the reference at /docs and the pages of the problem types.
//
// It turns values into bytes and nothing more: it serves no requests and imports nothing else of paysaga. The pages need no
// script, no font and no image, and load nothing.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// ContentSecurityPolicy is the header that suits all pages of this package: they load nothing, and carry one style sheet.
const ContentSecurityPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed templates
var files embed.FS

var templates = template.Must(template.New("pages").
	Funcs(template.FuncMap{"prose": paragraphs, "statusText": http.StatusText}).
	ParseFS(files, "templates/*"))

// ProblemType is one type of problem that the API answers with.
type ProblemType struct {
	Slug    string // the last part of the type's address, "out-of-stock"
	Title   string
	Status  int    // the HTTP status that comes with it
	Passes  bool   // of a conflict: it ends by itself
	Final   bool   // the answer stays for its key
	Meaning string // when it happens; paragraphs parted by an empty line, code in backticks
	Mend    string // what the client does about it, and under which key; written like Meaning
}

// Repeat says whether a request that got this problem may be sent again.
func (p ProblemType) Repeat() string {
	switch {
	case p.Status == http.StatusConflict && !p.Passes && !p.Final:
		return "Not unchanged: the order does not stand as the request supposes, and will not by waiting."
	case p.Slug == "request-in-progress", p.Status >= http.StatusInternalServerError:
		return "Yes: the same request, with the same `Idempotency-Key` if it has one, once the seconds of `Retry-After` have passed " +
			"when it is given. An earlier one may have begun its work; under a new key that could be done twice."
	case p.Passes, p.Status == http.StatusTooManyRequests:
		return "Yes: the same request, with the same `Idempotency-Key`, once the seconds of `Retry-After` have passed."
	case p.Final, p.Status == http.StatusGone:
		return "Not unchanged: the same request with the same `Idempotency-Key` gets the same answer again."
	default:
		return "Not as it is. Nothing was done, so the mended request, or the same one once what it lacked is there, may carry the same " +
			"`Idempotency-Key`."
	}
}

// Docs makes the reference of the whole document, which must be resolved and valid; api.Load gives such a one. Elements come
// in the document's order when it was loaded with their origins, else by name. An error means that the document lacks a part
// that the page needs.
func Docs(document *openapi3.T) ([]byte, error) {
	reference, err := newReference(document)
	if err != nil {
		return nil, fmt.Errorf("describe the OpenAPI document: %w", err)
	}
	return render("docs.html", reference)
}

// Problem makes the page of one problem type, which its address /problems/{slug} leads to.
func Problem(problem ProblemType) ([]byte, error) {
	return render("problem.html", problem)
}

// Problems makes the page that lists all problem types, in the order given.
func Problems(problems []ProblemType) ([]byte, error) {
	return render("problems.html", problems)
}

func render(name string, data any) ([]byte, error) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return page.Bytes(), nil
}
