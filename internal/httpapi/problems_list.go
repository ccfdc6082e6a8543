package httpapi

import (
	"cmp"
	"maps"
	"slices"

	"paysaga/internal/httpapi/pages"
)

// Problems are all problem types that the API answers with, by status and slug.
func Problems() []pages.ProblemType {
	return slices.SortedFunc(maps.Values(problemTypes), func(a, b pages.ProblemType) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Slug, b.Slug))
	})
}
