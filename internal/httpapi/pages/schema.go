package pages

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

var errIncomplete = errors.New("incomplete document")

// maxDepth bounds how deep the fields of a body are unfolded. The contract's deepest body has three levels; a schema that
// contains itself would otherwise never end.
const maxDepth = 8

// typeName is the type of a value as people say it. Link is the name of the schema that has a section of its own, or empty.
type typeName struct {
	Prefix string // "list of " before the link
	Text   string
	Link   string
}

func newTypeName(schema *openapi3.SchemaRef) typeName {
	value := schema.Value
	if value.Type.Is(openapi3.TypeArray) {
		item := newTypeName(value.Items)
		item.Prefix = "list of " + item.Prefix
		return item
	}
	if link := linkOf(schema); link != "" {
		return typeName{Text: link, Link: link}
	}
	return typeName{Text: kind(value)}
}

// kind is the plain type of a schema, told by its format where that says more.
func kind(schema *openapi3.Schema) string {
	switch {
	case schema.Type.Is(openapi3.TypeObject) && schema.AdditionalProperties.Schema != nil:
		return "object of " + kind(schema.AdditionalProperties.Schema.Value) + "s"
	case schema.Format == "date-time":
		return "time"
	case schema.Format == "uuid":
		return "UUID"
	case schema.Format == "uri", schema.Format == "uri-reference":
		return "URI"
	case schema.Type == nil:
		return "any"
	default:
		return strings.Join(schema.Type.Slice(), " or ")
	}
}

func linkOf(schema *openapi3.SchemaRef) string {
	name, found := strings.CutPrefix(schema.Ref, "#/components/schemas/")
	if !found {
		return ""
	}
	return name
}

func newField(name string, schema *openapi3.SchemaRef, required bool) field {
	return field{
		Name:        name,
		Type:        newTypeName(schema),
		Required:    required,
		Limits:      limits(schema.Value),
		Description: schema.Value.Description,
	}
}

// limits says in words what a value must keep to, besides its type.
func limits(schema *openapi3.Schema) []string {
	var all []string
	say := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	if len(schema.Enum) > 0 {
		values := make([]string, 0, len(schema.Enum))
		for _, value := range schema.Enum {
			values = append(values, fmt.Sprintf("`%v`", value))
		}
		say("one of " + strings.Join(values, " "))
	}
	if schema.Min != nil || schema.Max != nil {
		say(interval(schema.Min, schema.Max))
	}
	say(count(schema.MinLength, schema.MaxLength, "characters"))
	say(count(schema.MinItems, schema.MaxItems, "entries"))
	say(count(schema.MinProps, schema.MaxProps, "entries"))
	if schema.Pattern != "" {
		say("matches `" + schema.Pattern + "`")
	}
	if schema.Default != nil {
		say(fmt.Sprintf("default `%v`", schema.Default))
	}
	if schema.Nullable {
		say("may be null")
	}
	if schema.AdditionalProperties.Schema != nil {
		for _, limit := range limits(schema.AdditionalProperties.Schema.Value) {
			say("each value: " + limit)
		}
	}
	return all
}

func interval(low, high *float64) string {
	switch {
	case high == nil:
		return "at least " + number(*low)
	case low == nil:
		return "at most " + number(*high)
	default:
		return number(*low) + " to " + number(*high)
	}
}

func number(value float64) string {
	if value == math.Trunc(value) {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func count(low uint64, high *uint64, of string) string {
	switch {
	case high != nil && low > 0:
		return fmt.Sprintf("%d to %d %s", low, *high, of)
	case high != nil:
		return fmt.Sprintf("at most %d %s", *high, of)
	case low > 0:
		return fmt.Sprintf("at least %d %s", low, of)
	default:
		return ""
	}
}

// properties gives the names of an object's fields in the document's order.
func properties(schema *openapi3.Schema) []string {
	return sortedByOrigin(schema.Properties, func(s *openapi3.SchemaRef) *openapi3.Origin { return s.Origin })
}

// bodyFields unfolds a request body into one table, nested fields named by their way from the top: "items[].sku".
func bodyFields(schema *openapi3.SchemaRef) []field {
	return unfold("", schema.Value, 0)
}

func unfold(prefix string, schema *openapi3.Schema, depth int) []field {
	if depth == maxDepth {
		return nil
	}
	var rows []field
	for _, name := range properties(schema) {
		property := schema.Properties[name]
		row := newField(prefix+name, property, slices.Contains(schema.Required, name))
		rows = append(rows, row)
		inner, innerPrefix := property.Value, row.Name+"."
		if inner.Type.Is(openapi3.TypeArray) {
			inner, innerPrefix = inner.Items.Value, row.Name+"[]."
		}
		rows = append(rows, unfold(innerPrefix, inner, depth+1)...)
	}
	return rows
}

func typeSections(schemas openapi3.Schemas) []typeSection {
	sections := make([]typeSection, 0, len(schemas))
	for _, name := range sortedByOrigin(schemas, func(s *openapi3.SchemaRef) *openapi3.Origin { return s.Origin }) {
		schema := schemas[name].Value
		section := typeSection{
			Name:        name,
			Description: schema.Description,
			Kind:        typeName{Text: kind(schema)},
			Limits:      limits(schema),
		}
		for _, property := range properties(schema) {
			required := slices.Contains(schema.Required, property)
			section.Fields = append(section.Fields, newField(property, schema.Properties[property], required))
		}
		sections = append(sections, section)
	}
	return sections
}
