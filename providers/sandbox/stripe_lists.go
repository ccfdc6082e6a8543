package sandbox

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxPageSize = 100 // Stripe's

func checkPage(c stripeCall) *stripeError {
	if limit, present := c.params.integer("limit"); present && limit > maxPageSize {
		return invalid("parameter_invalid_integer", "limit", "This value must be less than or equal to %d.", maxPageSize)
	}
	if c.params.has("starting_after") && c.params.has("ending_before") {
		return invalid("parameters_exclusive", "starting_after", "You may only specify one of these parameters: starting_after, ending_before.")
	}
	return nil
}

func pageSize(c stripeCall) int {
	if limit, present := c.params.integer("limit"); present {
		return int(limit)
	}
	return defaultPageSize
}

// listing is one kind of object as lists need it. items are oldest first.
type listing[T any] struct {
	url      string
	kind     string
	items    []T
	position func(id string) (int, bool) // in items
	keep     func(T) bool
	render   func(T) any
}

// page answers the newest first, from the cursor on.
func (l listing[T]) page(c stripeCall) (any, *stripeError) {
	limit := pageSize(c)
	list := &listObject{Object: "list", Data: []any{}, URL: l.url}
	if cursor := c.params.text("ending_before"); cursor != "" {
		at, known := l.position(cursor)
		if !known {
			return nil, missingCursor(l.kind, cursor, "ending_before")
		}
		for _, item := range l.items[at+1:] {
			if list.add(limit, l.keep(item), func() any { return l.render(item) }) {
				break
			}
		}
		slices.Reverse(list.Data)
		return list, nil
	}
	end := len(l.items)
	if cursor := c.params.text("starting_after"); cursor != "" {
		at, known := l.position(cursor)
		if !known {
			return nil, missingCursor(l.kind, cursor, "starting_after")
		}
		end = at
	}
	for _, item := range slices.Backward(l.items[:end]) {
		if list.add(limit, l.keep(item), func() any { return l.render(item) }) {
			break
		}
	}
	return list, nil
}

func missingCursor(kind, id, param string) *stripeError {
	return invalid("resource_missing", param, "No such %s: '%s'", kind, id)
}

// add reports whether the page is full and there is more.
func (l *listObject) add(limit int, fits bool, render func() any) (done bool) {
	if !fits {
		return false
	}
	if len(l.Data) == limit {
		l.HasMore = true
		return true
	}
	l.Data = append(l.Data, render())
	return false
}

func (a *stripeAPI) listPayments(c stripeCall) (any, *stripeError) {
	customer, created := c.params.text("customer"), c.params.span("created")
	return listing[*stripePayment]{
		url: "/v1/payment_intents", kind: objectPaymentIntent, items: a.store.payments,
		position: func(id string) (int, bool) {
			payment, known := a.store.paymentByID[id]
			if !known {
				return 0, false
			}
			return payment.position, true
		},
		keep: func(p *stripePayment) bool {
			return (customer == "" || p.customer == customer) && created.holds(p.created.Unix())
		},
		render: func(p *stripePayment) any {
			a.refresh(p, c.now)
			return p.object(c.expand)
		},
	}.page(c)
}

func (a *stripeAPI) listCharges(c stripeCall) (any, *stripeError) {
	intent, customer, created := c.params.text(objectPaymentIntent), c.params.text("customer"), c.params.span("created")
	items := a.store.charges
	if intent != "" {
		payment, known := a.store.paymentByID[intent]
		if !known {
			return nil, missingCursor(objectPaymentIntent, intent, objectPaymentIntent)
		}
		items = payment.charges
	}
	return listing[*stripeCharge]{
		url: "/v1/charges", kind: objectCharge, items: items,
		position: func(id string) (int, bool) {
			at := slices.Index(items, a.store.chargeByID[id])
			return at, at >= 0
		},
		keep: func(charge *stripeCharge) bool {
			return (customer == "" || charge.payment.customer == customer) && created.holds(charge.created.Unix())
		},
		render: func(charge *stripeCharge) any {
			a.refresh(charge.payment, c.now)
			return charge.object(c.expand)
		},
	}.page(c)
}

func (a *stripeAPI) listRefunds(c stripeCall) (any, *stripeError) {
	intent, charge, created := c.params.text(objectPaymentIntent), c.params.text(objectCharge), c.params.span("created")
	items := a.refundsOf(intent, charge)
	return listing[*stripeRefund]{
		url: "/v1/refunds", kind: objectRefund, items: items,
		position: func(id string) (int, bool) {
			at := slices.Index(items, a.store.refundByID[id])
			return at, at >= 0
		},
		keep:   func(r *stripeRefund) bool { return created.holds(r.created.Unix()) },
		render: func(r *stripeRefund) any { return r.object(c.expand) },
	}.page(c)
}

// refundsOf narrows the refunds to a payment or a charge, oldest first.
func (a *stripeAPI) refundsOf(intent, charge string) []*stripeRefund {
	switch {
	case charge != "":
		if found, known := a.store.chargeByID[charge]; known && (intent == "" || found.payment.id == intent) {
			return found.refunds
		}
		return nil
	case intent != "":
		var refunds []*stripeRefund
		if payment, known := a.store.paymentByID[intent]; known {
			for _, each := range payment.charges {
				refunds = append(refunds, each.refunds...)
			}
		}
		return refunds
	}
	return a.store.refunds
}

func checkSearch(c stripeCall) *stripeError {
	if refusal := checkPage(c); refusal != nil {
		return refusal
	}
	if page := c.params.text("page"); page != "" {
		if _, valid := pageOffset(page); !valid {
			return invalid("", "page", "Invalid page token: %s", page)
		}
	}
	_, refusal := parseSearch(c.params.text("query"))
	return refusal
}

const pageTokenPrefix = "offset_"

func pageOffset(token string) (offset int, valid bool) {
	digits, tagged := strings.CutPrefix(token, pageTokenPrefix)
	offset, err := strconv.Atoi(digits)
	return offset, tagged && err == nil && offset >= 0
}

// searchPayments answers from the index, which does not know yet what happened within the search delay. A payment is found by
// its present fields once it is older than the delay; Stripe's index lags on every change.
func (a *stripeAPI) searchPayments(c stripeCall) (any, *stripeError) {
	query, refusal := parseSearch(c.params.text("query"))
	if refusal != nil {
		return nil, refusal
	}
	delay, _ := a.server.settings.delays()
	offset, _ := pageOffset(c.params.text("page"))
	limit := pageSize(c)
	result := &searchObject{Object: "search_result", Data: []any{}, URL: "/v1/payment_intents/search"}
	position := 0
	for _, payment := range slices.Backward(a.searchCandidates(query)) {
		a.refresh(payment, c.now)
		if !indexed(payment, delay, c.now) || !query.matches(payment) {
			continue
		}
		if position >= offset+limit {
			result.HasMore = true
			next := pageTokenPrefix + strconv.Itoa(offset+limit)
			result.NextPage = &next
			break
		}
		if position >= offset {
			result.Data = append(result.Data, payment.object(c.expand))
		}
		position++
	}
	return result, nil
}

func indexed(p *stripePayment, delay time.Duration, now time.Time) bool {
	return now.Sub(p.created) >= delay
}

// searchCandidates narrows a search by an exact metadata clause where that is sound.
func (a *stripeAPI) searchCandidates(query searchQuery) []*stripePayment {
	for _, clause := range query.clauses {
		if clause.metadataKey != "" && clause.operator == ":" && !clause.negated && !clause.null && (!query.anyOf || len(query.clauses) == 1) {
			return a.store.byMetadata[metadataPair(clause.metadataKey, clause.value)]
		}
	}
	return a.store.payments
}
