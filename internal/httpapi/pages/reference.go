package pages

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// reference is what the template docs.html shows.
type reference struct {
	Title, Version, Description string
	Authentication              []string
	Groups                      []group
	Types                       []typeSection
}

// group is one tag with its operations.
type group struct {
	Name, Description string
	Operations        []operation
}

// operation is one call of the API.
type operation struct {
	ID, Method, Path, Summary, Description string
	NeedsKey                               bool
	Parameters                             []field
	Body                                   []field
	Curl                                   string
	Answers                                []answer
}

// answer is one status that an operation answers with.
type answer struct {
	Status, StatusText, Description string
	Headers                         []field
	Type                            typeName
	Examples                        []example
}

// typeSection is one schema of the document. A scalar has no fields; Kind and Limits then say all.
type typeSection struct {
	Name, Description string
	Kind              typeName
	Limits            []string
	Fields            []field
}

// field is one row of a table: a parameter, a header, or a field of a body.
type field struct {
	Name, In, Description string
	Type                  typeName
	Required              bool
	Limits                []string
}

func newReference(document *openapi3.T) (reference, error) {
	if document.Info == nil || document.Components == nil || document.Paths == nil {
		return reference{}, fmt.Errorf("info, paths and components are needed: %w", errIncomplete)
	}
	page := reference{
		Title:       document.Info.Title,
		Version:     document.Info.Version,
		Description: document.Info.Description,
		Types:       typeSections(document.Components.Schemas),
	}
	for _, name := range slices.Sorted(maps.Keys(document.Components.SecuritySchemes)) {
		page.Authentication = append(page.Authentication, document.Components.SecuritySchemes[name].Value.Description)
	}
	for _, tag := range document.Tags {
		page.Groups = append(page.Groups, group{Name: tag.Name, Description: tag.Description})
	}
	for _, path := range sortedByOrigin(document.Paths.Map(), func(item *openapi3.PathItem) *openapi3.Origin { return item.Origin }) {
		if err := page.add(document, path); err != nil {
			return reference{}, fmt.Errorf("path %s: %w", path, err)
		}
	}
	return page, nil
}

// add puts the operations of one path into their groups.
func (r *reference) add(document *openapi3.T, path string) error {
	operations := document.Paths.Value(path).Operations()
	for _, method := range sortedByOrigin(operations, func(o *openapi3.Operation) *openapi3.Origin { return o.Origin }) {
		described, err := describeOperation(document, path, method, operations[method])
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		index := slices.IndexFunc(r.Groups, func(g group) bool { return slices.Contains(operations[method].Tags, g.Name) })
		if index < 0 {
			return fmt.Errorf("%s has no tag that the document declares: %w", method, errIncomplete)
		}
		r.Groups[index].Operations = append(r.Groups[index].Operations, described)
	}
	return nil
}

func describeOperation(document *openapi3.T, path, method string, source *openapi3.Operation) (operation, error) {
	described := operation{
		ID: source.OperationID, Method: method, Path: path,
		Summary: source.Summary, Description: source.Description,
		NeedsKey: needsKey(document, source),
	}
	for _, parameter := range source.Parameters {
		value := parameter.Value
		row := newField(value.Name, value.Schema, value.Required)
		row.In, row.Description = value.In, value.Description
		described.Parameters = append(described.Parameters, row)
	}
	var err error
	if described.Answers, err = describeAnswers(source.Responses); err != nil {
		return operation{}, err
	}
	if described.Curl, err = curl(described, source); err != nil {
		return operation{}, err
	}
	if source.RequestBody != nil {
		body, err := jsonBody(source)
		if err != nil {
			return operation{}, err
		}
		described.Body = bodyFields(body.Schema)
	}
	return described, nil
}

// jsonBody is the content of a request; the contract knows no other media type than JSON.
func jsonBody(source *openapi3.Operation) (*openapi3.MediaType, error) {
	content := source.RequestBody.Value.Content.Get(jsonType)
	if content == nil || content.Schema == nil {
		return nil, fmt.Errorf("the request has no %s body: %w", jsonType, errIncomplete)
	}
	return content, nil
}

func needsKey(document *openapi3.T, source *openapi3.Operation) bool {
	if source.Security != nil {
		return len(*source.Security) > 0
	}
	return len(document.Security) > 0
}

// describeAnswers lists the answers by status; the default, for every status that is not listed, comes last.
func describeAnswers(responses *openapi3.Responses) ([]answer, error) {
	var answers []answer
	for _, status := range slices.Sorted(maps.Keys(responses.Map())) { // digits sort before "default"
		source := responses.Value(status).Value
		described := answer{Status: status, StatusText: "Any other status", Description: *source.Description}
		if code, err := strconv.Atoi(status); err == nil {
			described.StatusText = http.StatusText(code)
		}
		for _, name := range slices.Sorted(maps.Keys(source.Headers)) {
			header := source.Headers[name].Value
			row := newField(name, header.Schema, header.Required)
			row.Description = header.Description
			described.Headers = append(described.Headers, row)
		}
		for _, mediaType := range slices.Sorted(maps.Keys(source.Content)) {
			content := source.Content[mediaType]
			name := newTypeName(content.Schema)
			if !strings.HasSuffix(mediaType, "json") {
				name = typeName{Text: mediaType}
			}
			if described.Type.Text != "" { // of two, which only answers without a type of their own have
				name = typeName{Text: described.Type.Text + " or " + name.Text}
			}
			described.Type = name
			examples, err := describeExamples(content)
			if err != nil {
				return nil, fmt.Errorf("answer %s: %w", status, err)
			}
			described.Examples = append(described.Examples, examples...)
		}
		answers = append(answers, described)
	}
	return answers, nil
}

// sortedByOrigin gives the keys in the order in which their values stand in the document.
func sortedByOrigin[V any](elements map[string]V, origin func(V) *openapi3.Origin) []string {
	line := func(key string) int {
		if o := origin(elements[key]); o != nil && o.Key != nil {
			return o.Key.Line
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(elements), func(a, b string) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a, b))
	})
}
