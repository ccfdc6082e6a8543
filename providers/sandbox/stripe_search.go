package sandbox

import (
	"regexp"
	"strconv"
	"strings"
)

// searchQuery is a parsed query of Stripe's search language: clauses joined by AND or by OR, never both.
type searchQuery struct {
	anyOf   bool
	clauses []searchClause
}

type searchClause struct {
	negated     bool
	field       string // empty for metadata
	metadataKey string
	operator    string // : ~ > < >= <=
	value       string
	null        bool
}

// maxSearchClauses is Stripe's limit.
const maxSearchClauses = 10

var (
	// A clause: optional minus, a field or metadata["key"], an operator, a quoted text, a number or null.
	searchClausePattern = regexp.MustCompile(
		`^\s*(-)?(?:metadata\[(?:'([^']*)'|"([^"]*)")\]|([a-z_]+))\s*(:|~|>=|<=|>|<)\s*` +
			`(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(-?\d+)|(null))\s*`)
	searchJoinPattern = regexp.MustCompile(`^(?i:(AND|OR)\s+)`)
)

// searchFields are what can be searched besides metadata; true marks numbers.
var searchFields = map[string]bool{paramAmount: true, "created": true, paramCurrency: false, "customer": false, fieldStatus: false}

func badQuery(format string, arguments ...any) *stripeError {
	return invalid("", "query", format, arguments...)
}

func parseSearch(query string) (searchQuery, *stripeError) {
	var parsed searchQuery
	rest := query
	for first := true; ; first = false {
		match := searchClausePattern.FindStringSubmatch(rest)
		if match == nil {
			return parsed, badQuery("We were unable to parse your search query. Try using the format `metadata[\"key\"]:\"value\"` to " +
				"query for metadata or key:\"value\" to query for other fields.")
		}
		clause, refusal := newSearchClause(match)
		if refusal != nil {
			return parsed, refusal
		}
		parsed.clauses = append(parsed.clauses, clause)
		if len(parsed.clauses) > maxSearchClauses {
			return parsed, badQuery("Search queries can have at most %d clauses.", maxSearchClauses)
		}
		rest = rest[len(match[0]):]
		if rest == "" {
			return parsed, nil
		}
		anyOf := false
		if joint := searchJoinPattern.FindStringSubmatch(rest); joint != nil { // without a word, AND is meant
			rest = rest[len(joint[0]):]
			anyOf = strings.EqualFold(joint[1], "OR")
		}
		if !first && anyOf != parsed.anyOf {
			return parsed, badQuery("You cannot combine AND and OR in the same search query.")
		}
		parsed.anyOf = anyOf
	}
}

var unescapeSearch = strings.NewReplacer(`\'`, `'`, `\"`, `"`, `\\`, `\`)

func newSearchClause(match []string) (searchClause, *stripeError) {
	clause := searchClause{
		negated: match[1] != "", metadataKey: match[2] + match[3], field: match[4], operator: match[5],
		value: unescapeSearch.Replace(match[6] + match[7] + match[8]), null: match[9] != "",
	}
	if clause.field == "" {
		if clause.operator != ":" && clause.operator != "~" {
			return clause, badQuery("Operator %s is not supported for metadata.", clause.operator)
		}
		return clause, nil
	}
	numeric, known := searchFields[clause.field]
	switch {
	case !known:
		return clause, badQuery("Field `%s` is an unsupported search field for resource `payment_intents`.", clause.field)
	case numeric && clause.operator == "~", !numeric && clause.operator != ":":
		return clause, badQuery("Operator %s is not supported for field `%s`.", clause.operator, clause.field)
	}
	if _, err := strconv.ParseInt(clause.value, 10, 64); numeric && err != nil {
		return clause, badQuery("Field `%s` must be a number.", clause.field)
	}
	return clause, nil
}

func (q searchQuery) matches(p *stripePayment) bool {
	for _, clause := range q.clauses {
		if (clause.holds(p) != clause.negated) == q.anyOf {
			return q.anyOf
		}
	}
	return !q.anyOf
}

func (c searchClause) holds(p *stripePayment) bool {
	switch c.field {
	case "status":
		return p.status == c.value
	case paramCurrency:
		return p.currency == c.value
	case "customer":
		return p.customer == c.value
	case paramAmount:
		return c.compares(p.amount)
	case "created":
		return c.compares(p.created.Unix())
	}
	value, present := p.metadata[c.metadataKey]
	switch {
	case c.null:
		return !present
	case c.operator == "~":
		return present && strings.Contains(strings.ToLower(value), strings.ToLower(c.value))
	}
	return present && strings.EqualFold(value, c.value) // Stripe's search ignores case
}

func (c searchClause) compares(number int64) bool {
	bound, err := strconv.ParseInt(c.value, 10, 64)
	if err != nil { // refused when it was parsed
		return false
	}
	switch c.operator {
	case ">":
		return number > bound
	case "<":
		return number < bound
	case ">=":
		return number >= bound
	case "<=":
		return number <= bound
	}
	return number == bound
}

// firstQuoted is the first quoted value that stands after an operator: what a search looks for.
func firstQuoted(query string) string {
	match := searchClausePattern.FindStringSubmatch(query)
	if match == nil {
		return ""
	}
	return match[6] + match[7]
}
