package sandbox

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// read checks one parameter and gives its typed value: string, int64, bool, []string, metadata, params or span.
func (f field) read(node *formNode, path string) (any, *stripeError) {
	if f.kind == kindUnsupported {
		return nil, invalid("", path, "The sandbox does not simulate the parameter '%s'.", path)
	}
	if node.leaf && node.value == "" {
		return f.empty(path)
	}
	switch f.kind {
	case kindTexts:
		return f.readTexts(node, path)
	case kindTable:
		return readMetadata(node, path)
	case kindObject:
		return f.readObject(node, path)
	case kindSpan:
		return readSpan(node, path)
	default:
		return f.readScalar(node, path)
	}
}

func (f field) readScalar(node *formNode, path string) (any, *stripeError) {
	if !node.leaf {
		return nil, invalid("", path, "Invalid %s: must be a single value", path)
	}
	switch f.kind {
	case kindInteger:
		return f.readInteger(node.value, path)
	case kindFlag:
		return readFlag(node.value, path)
	default:
		return f.readText(node.value, path)
	}
}

func (f field) readObject(node *formNode, path string) (any, *stripeError) {
	if node.leaf {
		return nil, invalid("", path, "Invalid object")
	}
	return f.fields.read(node, path)
}

func (f field) empty(path string) (any, *stripeError) {
	switch {
	case f.unset && f.kind == kindTable:
		return metadata(nil), nil
	case f.unset:
		return "", nil
	}
	return nil, invalid("parameter_invalid_empty", path,
		"You passed an empty string for '%[1]s'. We assume empty values are an attempt to unset a field; however '%[1]s' cannot be "+
			"unset. You should remove '%[1]s' from your request or supply a non-empty value.", path)
}

func (f field) readText(value, path string) (any, *stripeError) {
	limit := f.maxLength
	if limit == 0 {
		limit = maxTextLength
	}
	if len(value) > limit {
		return nil, invalid("parameter_invalid_string", path, "Invalid string: %s…; must be at most %d characters", value[:10], limit)
	}
	if len(f.allowed) > 0 && !slices.Contains(f.allowed, value) {
		return nil, invalid("", path, "Invalid %s: must be one of %s", path, strings.Join(f.allowed, ", "))
	}
	return value, nil
}

func (f field) readInteger(value, path string) (any, *stripeError) {
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(number, 10) != value {
		return nil, invalid("parameter_invalid_integer", path, "Invalid integer: %s", value)
	}
	if number < f.minimum {
		return nil, invalid("parameter_invalid_integer", path, "This value must be greater than or equal to %d.", f.minimum)
	}
	return number, nil
}

func readFlag(value, path string) (any, *stripeError) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, invalid("", path, "Invalid boolean: %s", value)
}

func (f field) readTexts(node *formNode, path string) (any, *stripeError) {
	if node.leaf {
		return nil, invalid("", path, "Invalid array")
	}
	indexes := make([]int, 0, len(node.children))
	for name := range node.children {
		index, err := strconv.Atoi(name)
		if err != nil {
			return nil, invalid("parameter_unknown", nest(path, name), "Received unknown parameter: %s", nest(path, name))
		}
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	texts := make([]string, 0, len(indexes))
	for _, index := range indexes {
		name := strconv.Itoa(index)
		child, present := node.children[name]
		if !present || !child.leaf || child.value == "" {
			return nil, invalid("", nest(path, name), "Invalid string: %s must be a string", nest(path, name))
		}
		if _, refusal := f.readText(child.value, nest(path, name)); refusal != nil {
			return nil, refusal
		}
		texts = append(texts, child.value)
	}
	return texts, nil
}

func readMetadata(node *formNode, path string) (any, *stripeError) {
	if node.leaf {
		return nil, invalid("", path, "Invalid object")
	}
	table := make(metadata, len(node.children))
	for name, child := range node.children {
		at := nest(path, name)
		switch {
		case !child.leaf:
			return nil, invalid("", at, "Invalid metadata: values must be strings")
		case len(name) > maxMetadataKey:
			return nil, invalid("", path, "Metadata keys can be up to %d characters long; you passed in %d.", maxMetadataKey, len(name))
		case len(child.value) > maxMetadataValue:
			return nil, invalid("", at, "Metadata values can have up to %d characters, but you passed in a value that is %d characters.",
				maxMetadataValue, len(child.value))
		}
		table[name] = child.value
	}
	return table, nil
}

func readSpan(node *formNode, path string) (any, *stripeError) {
	if node.leaf {
		at, err := strconv.ParseInt(node.value, 10, 64)
		if err != nil {
			return nil, invalid("parameter_invalid_integer", path, "Invalid integer: %s", node.value)
		}
		return span{from: &at, until: &at}, nil
	}
	ends := schema{"gt": {kind: kindInteger}, "gte": {kind: kindInteger}, "lt": {kind: kindInteger}, "lte": {kind: kindInteger}}
	read, refusal := ends.read(node, path)
	if refusal != nil {
		return nil, refusal
	}
	end := func(name string) *int64 {
		if value, present := read.integer(name); present {
			return &value
		}
		return nil
	}
	return span{after: end("gt"), from: end("gte"), before: end("lt"), until: end("lte")}, nil
}

// merge applies an update as Stripe does: an empty value removes its key, other keys stay. The receiver is not changed.
func (m metadata) merge(change metadata) (metadata, *stripeError) {
	merged := make(metadata, len(m)+len(change))
	maps.Copy(merged, m)
	for name, value := range change {
		merged[name] = value
		if value == "" {
			delete(merged, name)
		}
	}
	if len(merged) > maxMetadataKeys {
		return nil, invalid("", "metadata", "Metadata can have up to %d keys; you passed in %d.", maxMetadataKeys, len(merged))
	}
	return merged, nil
}
