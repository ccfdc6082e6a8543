package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"paysaga/api"
)

// The contract's examples of problems are problems that the server gives, with their titles and statuses.
func TestExamplesOfProblemsAreReal(t *testing.T) {
	t.Parallel()
	document, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, response := range document.Components.Responses {
		for _, media := range response.Value.Content {
			for _, example := range examplesOf(media) {
				var p api.Problem
				text, err := json.Marshal(example)
				if err != nil || json.Unmarshal(text, &p) != nil || !strings.HasPrefix(p.Type, "/problems/") {
					continue
				}
				checked++
				kind := problemTypes[strings.TrimPrefix(p.Type, "/problems/")]
				if kind.Title != p.Title || kind.Status != p.Status {
					t.Errorf("%s: the example is %q (%d), the server says %q (%d)", name, p.Title, p.Status, kind.Title, kind.Status)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("found %d examples of problems", checked)
	}
}

func examplesOf(media *openapi3.MediaType) []any {
	var all []any
	if media.Example != nil {
		all = append(all, media.Example)
	}
	for _, example := range media.Examples {
		all = append(all, example.Value.Value)
	}
	return all
}
