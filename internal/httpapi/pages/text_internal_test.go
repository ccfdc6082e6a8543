package pages

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
)

func TestParagraphs(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text string
		want [][]span
	}{
		"nothing":               {"", nil},
		"lines are joined":      {"a\n b\n", [][]span{{{Text: "a b"}}}},
		"two paragraphs":        {"a\n\nb", [][]span{{{Text: "a"}}, {{Text: "b"}}}},
		"code inside":           {"a `b` c", [][]span{{{Text: "a "}, {Text: "b", Code: true}, {Text: " c"}}}},
		"code alone":            {"`b`", [][]span{{{Text: "b", Code: true}}}},
		"backtick alone":        {"a ` b", [][]span{{{Text: "a ` b"}}}},
		"empty code is nothing": {"a``b", [][]span{{{Text: "a"}, {Text: "b"}}}},
	}
	for name, test := range cases {
		if diff := cmp.Diff(test.want, paragraphs(test.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	pointer := func(value float64) *float64 { return &value }
	cases := map[string]struct {
		schema *openapi3.Schema
		want   []string
	}{
		"none":      {&openapi3.Schema{}, nil},
		"interval":  {&openapi3.Schema{Min: pointer(1), Max: pointer(999999999999)}, []string{"1 to 999999999999"}},
		"low end":   {&openapi3.Schema{Min: pointer(0)}, []string{"at least 0"}},
		"high end":  {&openapi3.Schema{Max: pointer(2.5)}, []string{"at most 2.5"}},
		"length":    {&openapi3.Schema{MinLength: 1, MaxLength: new(uint64(64))}, []string{"1 to 64 characters"}},
		"longest":   {&openapi3.Schema{MaxLength: new(uint64(64))}, []string{"at most 64 characters"}},
		"entries":   {&openapi3.Schema{MinItems: 1}, []string{"at least 1 entries"}},
		"values":    {&openapi3.Schema{Enum: []any{"a", "b"}, Default: "a"}, []string{"one of `a` `b`", "default `a`"}},
		"pattern":   {&openapi3.Schema{Pattern: "^a$"}, []string{"matches `^a$`"}},
		"null":      {&openapi3.Schema{Nullable: true}, []string{"may be null"}},
		"of values": {openapi3.NewObjectSchema().WithAdditionalProperties(openapi3.NewStringSchema().WithMaxLength(5)), []string{"each value: at most 5 characters"}},
	}
	for name, test := range cases {
		if diff := cmp.Diff(test.want, limits(test.schema)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnfoldEndsForASchemaThatContainsItself(t *testing.T) {
	t.Parallel()
	node := openapi3.NewObjectSchema()
	node.Properties = openapi3.Schemas{"child": openapi3.NewSchemaRef("", node)}
	if got := len(bodyFields(openapi3.NewSchemaRef("", node))); got != maxDepth {
		t.Errorf("rows = %d, want %d", got, maxDepth)
	}
}

func TestExampleJSONBreaksOnlyLongLines(t *testing.T) {
	t.Parallel()
	long := "a text that is long enough to make its object longer than one line of the page"
	cases := map[string]struct {
		value any
		want  string
	}{
		"scalar":       {nil, "null"},
		"empty object": {map[string]any{}, "{}"},
		"short":        {map[string]any{"a": []any{1, "x"}}, `{"a": [1, "x"]}`},
		"long":         {map[string]any{"a": long, "b": []any{}}, "{\n  \"a\": \"" + long + "\",\n  \"b\": []\n}"},
		"nested":       {[]any{map[string]any{"a": long}}, "[\n  {\n    \"a\": \"" + long + "\"\n  }\n]"},
	}
	for name, test := range cases {
		got, err := exampleJSON(test.value, &openapi3.Schema{}, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := exampleJSON(make(chan int), &openapi3.Schema{}, 0); err == nil {
		t.Error("a value that is not JSON gives no error")
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	if got, want := shellQuote(`it's $5`), `'it'\''s $5'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
