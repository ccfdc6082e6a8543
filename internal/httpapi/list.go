package httpapi

// onePage is what a list shows of what was read, which is one more than a page holds where there is a next page: then the cursor is that of
// the last entry shown.
func onePage[R, S any](read []R, limit int, show func(R) S, cursor func(R) string) (shown []S, next *string) {
	page := read[:min(limit, len(read))]
	shown = make([]S, 0, len(page)) // no entries are an empty list, not null
	for _, entry := range page {
		shown = append(shown, show(entry))
	}
	if len(read) > limit {
		next = new(cursor(page[limit-1]))
	}
	return shown, next
}
