package sandbox

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a form, well above what Stripe's largest requests need.
const (
	maxFormFields = 1_000
	maxFormDepth  = 5
)

// formNode is one parameter of a form with nested brackets: "a[b]=1&a[c]=2" is a node a with the children b and c.
type formNode struct {
	value    string
	leaf     bool
	children map[string]*formNode
}

// parseForm reads brackets into a tree. A name that is no well-formed path stays one name, which then no schema knows.
func parseForm(values url.Values) (*formNode, *stripeError) {
	root := &formNode{children: map[string]*formNode{}}
	fields := 0
	for _, name := range slices.Sorted(mapsKeys(values)) {
		for position, value := range values[name] {
			if fields++; fields > maxFormFields {
				return nil, invalid("", "", "Too many parameters: at most %d are taken.", maxFormFields)
			}
			if !root.insert(formPath(name), position, value) {
				return nil, invalid("", name, "Invalid parameter encoding: '%s' is both a value and a hash.", name)
			}
		}
	}
	return root, nil
}

func mapsKeys(values url.Values) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range values {
			if !yield(name) {
				return
			}
		}
	}
}

func formPath(name string) []string {
	head, rest, nested := strings.Cut(name, "[")
	if !nested || head == "" {
		return []string{name}
	}
	path := []string{head}
	for rest != "" {
		segment, after, closed := strings.Cut(rest, "]")
		if !closed || len(path) >= maxFormDepth || (after != "" && after[0] != '[') {
			return []string{name}
		}
		path = append(path, segment)
		rest = strings.TrimPrefix(after, "[")
		if after == "[" {
			return []string{name}
		}
	}
	return path
}

// insert puts a value at its path. An empty segment ("expand[]") appends: repeated ones get their position as index.
func (n *formNode) insert(path []string, position int, value string) bool {
	node := n
	for _, segment := range path {
		if segment == "" {
			segment = strconv.Itoa(position)
		}
		if node.leaf {
			return false
		}
		if node.children == nil {
			node.children = map[string]*formNode{}
		}
		next, present := node.children[segment]
		if !present {
			next = &formNode{}
			node.children[segment] = next
		}
		node = next
	}
	if len(node.children) > 0 {
		return false
	}
	node.leaf, node.value = true, value // a repeated scalar: the last one counts, as in Stripe's parser
	return true
}

// fieldKind is the type of a parameter.
type fieldKind int

const (
	kindText fieldKind = iota
	kindInteger
	kindFlag
	kindTexts       // a list of strings
	kindTable       // metadata: string to string
	kindObject      // named parameters inside
	kindSpan        // a time, or an object with gt, gte, lt, lte
	kindUnsupported // Stripe has it, the sandbox does not
)

// field describes one parameter.
type field struct {
	kind      fieldKind
	required  bool
	allowed   []string // of kindText and kindTexts; empty allows all
	minimum   int64    // of kindInteger
	maxLength int      // of kindText, in bytes; 0: maxTextLength
	unset     bool     // an empty string is taken and unsets the field
	fields    schema   // of kindObject
}

// schema is what an operation takes.
type schema map[string]field

// maxTextLength is Stripe's limit for strings that have no tighter one.
const maxTextLength = 5_000

// params are the checked parameters of a request.
type params map[string]any

// valueOf is a parameter of a type; the zero value stands for an absent or unset one.
func valueOf[T any](p params, name string) T {
	value, ok := p[name].(T)
	if !ok {
		var none T
		return none
	}
	return value
}

func (p params) has(name string) bool       { _, present := p[name]; return present }
func (p params) text(name string) string    { return valueOf[string](p, name) }
func (p params) flag(name string) bool      { return valueOf[bool](p, name) }
func (p params) texts(name string) []string { return valueOf[[]string](p, name) }
func (p params) object(name string) params  { return valueOf[params](p, name) }
func (p params) metadata() metadata         { return valueOf[metadata](p, "metadata") }
func (p params) span(name string) span      { return valueOf[span](p, name) }

func (p params) integer(name string) (value int64, present bool) {
	value, present = p[name].(int64)
	return value, present
}

// metadata is Stripe's string-to-string table. It is never changed in place, so that answers may share it.
type metadata map[string]string

// Stripe's limits on metadata.
const (
	maxMetadataKeys  = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// span bounds a time in Unix seconds; nil ends are open.
type span struct{ after, from, before, until *int64 }

func (s span) holds(at int64) bool {
	return (s.after == nil || at > *s.after) && (s.from == nil || at >= *s.from) &&
		(s.before == nil || at < *s.before) && (s.until == nil || at <= *s.until)
}

// read checks the form against the schema. prefix is the path of the enclosing object, "" at the top.
func (s schema) read(node *formNode, prefix string) (params, *stripeError) {
	if unknown := s.unknown(node, prefix); len(unknown) > 0 {
		word := "parameter"
		if len(unknown) > 1 {
			word = "parameters"
		}
		return nil, invalid("parameter_unknown", unknown[0], "Received unknown %s: %s", word, strings.Join(unknown, ", "))
	}
	read := params{}
	for _, name := range slices.Sorted(s.names()) {
		want := s[name]
		child, present := node.children[name]
		path := nest(prefix, name)
		if !present {
			if want.required {
				return nil, invalid("parameter_missing", path, "Missing required param: %s.", path)
			}
			continue
		}
		value, refusal := want.read(child, path)
		if refusal != nil {
			return nil, refusal
		}
		read[name] = value
	}
	return read, nil
}

func (s schema) names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range s {
			if !yield(name) {
				return
			}
		}
	}
}

func (s schema) unknown(node *formNode, prefix string) []string {
	var unknown []string
	for name := range node.children {
		if _, known := s[name]; !known {
			unknown = append(unknown, nest(prefix, name))
		}
	}
	slices.Sort(unknown)
	return unknown
}

func nest(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "[" + name + "]"
}
