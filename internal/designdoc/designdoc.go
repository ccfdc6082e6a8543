// Package designdoc makes docs/idempotency-design.html, the design document of idempotency, from what it describes: the migrations,
// the code's constants, tables of metrics, problems and settings, the alert rules, the published test vectors, the runbook and the
// names of the tests. The prose around these is in docs/idempotency-design, one file for each chapter.
//
// Whatever the prose names, a test, a file, a value, a heading, must exist, or nothing is made. A test compares the page that is kept
// with what the sources give. The package decides nothing about idempotency and is not linked into the program.
package designdoc

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"paysaga/internal/httpapi"
)

//go:generate go run ./generate ../..

// Where the page is, and the chapters' prose, under the project's folder.
const (
	pagePath  = "docs/idempotency-design.html"
	prosePath = "docs/idempotency-design"
)

//go:embed page/page.html
var layout string

//go:embed page/style.css
var style string

// Write makes the page anew. It keeps its date, and so the whole file, when nothing else has changed.
func Write(root string, now time.Time) error {
	path := filepath.Join(root, filepath.FromSlash(pagePath))
	kept, err := os.ReadFile(path) //nolint:gosec // a file of this project
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the page: %w", err)
	}
	page, err := renew(kept, now, func(date time.Time) ([]byte, error) { return Page(root, date) })
	if err != nil || bytes.Equal(page, kept) {
		return err
	}
	if err := os.WriteFile(path, page, 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// renew gives the page that is kept if it is still what its sources give, as of its own date, else one of today.
func renew(kept []byte, now time.Time, render func(date time.Time) ([]byte, error)) ([]byte, error) {
	if date, ok := dateOf(kept); ok {
		same, err := render(date)
		if err != nil || bytes.Equal(same, kept) {
			return same, err
		}
	}
	return render(now)
}

var dateInPage = regexp.MustCompile(`<time datetime="(\d{4}-\d{2}-\d{2})">`)

func dateOf(page []byte) (time.Time, bool) {
	found := dateInPage.FindSubmatch(page)
	if found == nil {
		return time.Time{}, false
	}
	date, err := time.Parse(time.DateOnly, string(found[1]))
	return date, err == nil
}

// Page gives the page as of a date. root is the project's folder. The error names every thing that the prose names and that is not there.
func Page(root string, date time.Time) ([]byte, error) {
	sources, err := readSources(root)
	if err != nil {
		return nil, err
	}
	chapters, err := readChapters(filepath.Join(root, filepath.FromSlash(prosePath)))
	if err != nil {
		return nil, err
	}
	writer := newWriter(sources)
	for _, chapter := range chapters {
		writer.chapter(chapter)
	}
	writer.mustTellFieldsOf(httpapi.Endpoints())
	if err := errors.Join(writer.errs...); err != nil {
		return nil, err
	}
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Style":    template.CSS(style), //nolint:gosec // written here
		"Contents": writer.contents,
		"Body":     template.HTML(writer.html.String()), //nolint:gosec // escaped by the writer
		"ISO":      date.Format(time.DateOnly),
		"Date":     date.Format("2 January 2006"),
	})
	if err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return out.Bytes(), nil
}
