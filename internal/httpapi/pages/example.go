package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const (
	jsonType = "application/json"

	// lineWidth is how long a line of an example may be, in bytes, before its object or list is broken into several: what
	// a desktop's column shows without scrolling.
	lineWidth = 78

	lineBreak = " \\\n  " // continues a shell command on the next line
)

// example is one value that the document gives for a body.
type example struct {
	Summary, JSON string
}

func describeExamples(content *openapi3.MediaType) ([]example, error) {
	var all []example
	names := sortedByOrigin(content.Examples, func(e *openapi3.ExampleRef) *openapi3.Origin { return e.Origin })
	for _, name := range names {
		source := content.Examples[name].Value
		text, err := exampleJSON(source.Value, content.Schema.Value, 0)
		if err != nil {
			return nil, fmt.Errorf("example %s: %w", name, err)
		}
		all = append(all, example{Summary: source.Summary, JSON: text})
	}
	return all, nil
}

// exampleJSON writes a value with the fields in their schema's order, and breaks only what does not fit in one line.
func exampleJSON(value any, schema *openapi3.Schema, indent int) (string, error) {
	parts, opening, closing, err := exampleParts(value, schema, indent)
	if err != nil {
		return "", err
	}
	if opening == "" {
		return parts[0], nil
	}
	line := opening + strings.Join(parts, ", ") + closing
	if len(line)+indent <= lineWidth && !strings.Contains(line, "\n") {
		return line, nil
	}
	margin := strings.Repeat(" ", indent)
	return opening + "\n  " + margin + strings.Join(parts, ",\n  "+margin) + "\n" + margin + closing, nil
}

// exampleParts gives the members of an object or a list and its brackets; a scalar is one part without brackets.
func exampleParts(value any, schema *openapi3.Schema, indent int) (parts []string, opening, closing string, err error) {
	switch typed := value.(type) {
	case map[string]any:
		for _, name := range memberNames(typed, schema) {
			member, err := exampleJSON(typed[name], memberSchema(schema, name), indent+2)
			if err != nil {
				return nil, "", "", err
			}
			parts = append(parts, fmt.Sprintf("%q: %s", name, member))
		}
		return parts, "{", "}", nil
	case []any:
		for _, entry := range typed {
			member, err := exampleJSON(entry, entrySchema(schema), indent+2)
			if err != nil {
				return nil, "", "", err
			}
			parts = append(parts, member)
		}
		return parts, "[", "]", nil
	default:
		scalar, err := json.Marshal(value)
		if err != nil {
			return nil, "", "", fmt.Errorf("write %T: %w", value, err)
		}
		return []string{string(scalar)}, "", "", nil
	}
}

// memberNames gives an object's names in the schema's order, and those that the schema does not name after them.
func memberNames(value map[string]any, schema *openapi3.Schema) []string {
	ordered := properties(schema)
	names := slices.DeleteFunc(slices.Clone(ordered), func(name string) bool {
		_, present := value[name]
		return !present
	})
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if !slices.Contains(ordered, name) {
			names = append(names, name)
		}
	}
	return names
}

func memberSchema(schema *openapi3.Schema, name string) *openapi3.Schema {
	if property, ok := schema.Properties[name]; ok {
		return property.Value
	}
	return &openapi3.Schema{}
}

func entrySchema(schema *openapi3.Schema) *openapi3.Schema {
	if schema.Items != nil {
		return schema.Items.Value
	}
	return &openapi3.Schema{}
}

// curl writes the call as a command to paste. The server's address and the API key come from the shell's variables.
func curl(described operation, source *openapi3.Operation) (string, error) {
	path := described.Path
	var headers strings.Builder
	for _, parameter := range source.Parameters {
		value := parameter.Value
		if !value.Required {
			continue // the call without filters shows most
		}
		if value.Example == nil {
			return "", fmt.Errorf("parameter %s has no example: %w", value.Name, errIncomplete)
		}
		if value.In == openapi3.ParameterInHeader {
			headers.WriteString(lineBreak + "-H " + shellQuote(fmt.Sprintf("%s: %v", value.Name, value.Example)))
			continue
		}
		path = strings.ReplaceAll(path, "{"+value.Name+"}", fmt.Sprint(value.Example))
	}
	body, err := curlBody(source)
	if err != nil {
		return "", err
	}
	verb, authorization := "", ""
	if described.Method != http.MethodGet {
		verb = "-X " + described.Method + " "
	}
	if described.NeedsKey {
		authorization = lineBreak + `-H "Authorization: Bearer $MERCHANT_KEY"`
	}
	return "curl " + verb + `"$BASE_URL` + path + `"` + authorization + headers.String() + body, nil
}

func curlBody(source *openapi3.Operation) (string, error) {
	if source.RequestBody == nil {
		return "", nil
	}
	body, err := jsonBody(source)
	if err != nil {
		return "", err
	}
	examples, err := describeExamples(body)
	if err != nil {
		return "", fmt.Errorf("request: %w", err)
	}
	if len(examples) == 0 {
		return "", fmt.Errorf("the request has no example: %w", errIncomplete)
	}
	return lineBreak + "-H 'Content-Type: " + jsonType + "'" + lineBreak + "-d " + shellQuote(examples[0].JSON), nil
}

// shellQuote makes text one literal word of a POSIX shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
