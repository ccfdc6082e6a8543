package paypal

import (
	"context"
	"errors"
	"time"

	"paysaga/providers"
)

// PayPal's search takes ranges of up to 31 days and has no filter for our identifiers, so every transaction of a range is read.
// Both ranges are therefore as short as what they must cover.
const (
	// chargeSpan covers a charge whose answer was lost, and which was therefore not approved by anybody: all its sends are within
	// the re-POST window.
	chargeSpan = repostWindow + 2*searchMargin
	// approvalSpan covers an order that the customer knew: at most 72 hours until the redirect and 72 more until the capture, the
	// longest that PayPal grants.
	approvalSpan = 144*time.Hour + 2*searchMargin
	// searchMargin is for clocks that differ: SentAt is by the database's.
	searchMargin = time.Hour
	// maxSearchPages is PayPal's own limit: a search has at most 10,000 results.
	maxSearchPages = 10_000 / searchPageSize
	// maxOrders bounds the orders that one sub-key is found on. There is one; a second is for a person to see, and more are not needed
	// for that.
	maxOrders = 10
)

const (
	codeSentAtMissing    = "sent_at_missing"
	codeSearchIncomplete = "search_incomplete" // the pages do not add up, or are too many
	codeSearchBehind     = "search_behind"     // PayPal says that its index is older than the charge
)

var errIncomplete = errors.New("search is incomplete")

// search finds the orders whose transactions bear the key, and asks for each afresh: the index can be behind in a payment's state
// as well.
func (a *Adapter) search(ctx context.Context, request providers.LookupRequest, span time.Duration) providers.Outcome {
	if !validKey(request.Key) {
		return unknown(codeKeyInvalid)
	}
	if request.SentAt.IsZero() {
		return unknown(codeSentAtMissing)
	}
	hits, refreshed, err := a.transactionsOf(ctx, request, span)
	switch {
	case errors.Is(err, errIncomplete):
		return unknown(codeSearchIncomplete)
	case err != nil:
		return notAnAbsence(outcomeOfError(lookupCall, err))
	case len(hits) == 0 && !refreshed.IsZero() && refreshed.Before(request.SentAt.Truncate(time.Second)): // PayPal tells whole seconds
		return unknown(codeSearchBehind)
	}
	orders, failed := a.ordersOf(ctx, hits)
	if failed != nil {
		return *failed
	}
	var found []providers.Outcome
	for _, id := range orders {
		outcome := notAnAbsence(a.look(ctx, id, request.Key))
		if outcome.Kind == providers.Unknown || outcome.Kind == providers.Busy {
			return outcome // one open question leaves the whole open
		}
		found = append(found, outcome)
	}
	return onlyLive(found)
}

// notAnAbsence keeps a 404 in the middle of a search from being read as "not charged".
func notAnAbsence(outcome providers.Outcome) providers.Outcome {
	if outcome.Kind == providers.NotFound {
		return unknown(outcome.Code)
	}
	return outcome
}

// transactionsOf reads all pages and picks the transactions that bear the key; refreshed is how old PayPal says its index is. The
// pages must add up to what each of them says: transactions that move between pages while they are read would be missed.
func (a *Adapter) transactionsOf(
	ctx context.Context, request providers.LookupRequest, span time.Duration,
) (hits []transactionInfo, refreshed time.Time, err error) {
	from := request.SentAt.Add(-searchMargin)
	to := from.Add(span)
	if now := a.now(); to.After(now) && now.After(request.SentAt) {
		to = now
	}
	read := 0
	for page := 1; page <= maxSearchPages; page++ {
		answered, err := a.client.transactions(ctx, from, to, page)
		if err != nil {
			return nil, time.Time{}, err
		}
		if answered.TotalItems == nil || answered.TotalPages == nil || *answered.TotalPages > maxSearchPages {
			return nil, time.Time{}, errIncomplete
		}
		for _, transaction := range answered.Details {
			if transaction.Info.isPaymentOf(request.Key) {
				hits = append(hits, transaction.Info)
			}
		}
		read += len(answered.Details)
		refreshed = answered.Refreshed.Time
		if page >= *answered.TotalPages {
			if read != *answered.TotalItems {
				return nil, time.Time{}, errIncomplete
			}
			return hits, refreshed, nil
		}
	}
	return nil, time.Time{}, errIncomplete
}

// ordersOf tells to which orders transactions belong; failed is the outcome of a question that stayed open. A transaction is a
// capture or an authorization, which only PayPal knows.
func (a *Adapter) ordersOf(ctx context.Context, hits []transactionInfo) (orders []string, failed *providers.Outcome) {
	known := make(map[string]bool)
	for _, hit := range hits {
		id, outcome := a.orderOf(ctx, hit)
		switch {
		case outcome != nil:
			return nil, outcome
		case known[id]:
			continue
		case len(orders) == maxOrders:
			several := unknown(providers.CodeSeveralPayments)
			return nil, &several
		}
		known[id] = true
		orders = append(orders, id)
	}
	return orders, nil
}

func (a *Adapter) orderOf(ctx context.Context, hit transactionInfo) (string, *providers.Outcome) {
	other := unknown(codeOtherObject)
	if hit.ReferenceType == "ODR" && idForm.MatchString(hit.ReferenceID) {
		return hit.ReferenceID, nil
	}
	if !idForm.MatchString(hit.ID) {
		return "", &other
	}
	for _, kind := range []string{"captures", "authorizations"} {
		id, err := a.client.orderOf(ctx, kind, hit.ID)
		if err == nil && idForm.MatchString(id) {
			return id, nil
		}
		if err == nil {
			return "", &other
		}
		if outcome := outcomeOfError(lookupCall, err); outcome.Kind != providers.NotFound {
			return "", &outcome
		}
	}
	return "", &other
}

// onlyLive picks the payment that has, or can still get, money. Two of them are what must never be; a person decides. With none
// alive the first is told.
func onlyLive(found []providers.Outcome) providers.Outcome {
	if len(found) == 0 {
		return providers.Outcome{Kind: providers.NotFound}
	}
	var live []providers.Outcome
	for _, outcome := range found {
		if outcome.Kind != providers.Declined && outcome.Kind != providers.Canceled {
			live = append(live, outcome)
		}
	}
	switch len(live) {
	case 0:
		return found[0]
	case 1:
		return live[0]
	default:
		return unknown(providers.CodeSeveralPayments)
	}
}
