package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"paysaga/providers"
)

const (
	// shortestSpan is where narrowing a time ends in which a provider has more than it lists.
	shortestSpan = time.Minute
	// mostTries bounds how often one page is asked for.
	mostTries = 5
	// mostPages bounds the pages of one time, with fifty payments each at least: a list without an end would keep the run from ending.
	mostPages = 1_000_000
	// longestWait bounds how long a provider may have the run wait.
	longestWait = time.Minute
)

// read reads what the providers have: their lists, their announcements, or a settlement file.
func (o *once) read(ctx context.Context) error {
	if o.request.Statement != nil {
		return o.readStatement(ctx)
	}
	place, err := listPlaceOf(o.run.Cursor)
	if err != nil {
		return err
	}
	for _, provider := range o.run.Providers {
		if provider < place.Provider {
			continue // read by the process that the run was taken over from
		}
		if place.Provider != provider {
			if place, err = o.firstPlace(ctx, provider); err != nil {
				return err
			}
		}
		if err := o.readProvider(ctx, place); err != nil {
			why, ok := errors.AsType[*providers.ListError](err)
			if !ok {
				return err
			}
			o.notListed(provider, why) // the others are looked at all the same
			delete(o.run.Totals.Listed, provider)
		}
		place = listPlace{}
	}
	return o.next(ctx, StageMatch)
}

// furthestBack bounds how far back a run goes by itself: PayPal lists no more than three years.
const furthestBack = (3*365 - 1) * 24 * time.Hour

// firstPlace is where the listing of a provider begins and ends: where earlier runs have come, less the overlap, and at what is listed for
// sure by now. How long ago that was does not matter: what no run looked at would never be looked at else. A first run goes back as far as
// is set.
func (o *once) firstPlace(ctx context.Context, provider string) (listPlace, error) {
	place := listPlace{Provider: provider, From: o.run.Since, Goal: o.run.Until}
	var limits providers.ListLimits
	if source := o.Sources[provider]; source != nil {
		limits = source.ListLimits()
	}
	if latest := o.now.Add(-limits.Delay); place.Goal.IsZero() || place.Goal.After(latest) {
		place.Goal = latest
	}
	if place.From.IsZero() {
		var err error
		if place.From, err = o.begins(ctx, provider); err != nil {
			return place, err
		}
	}
	place.Until = place.span(limits, place.From)
	o.listed(provider, Listed{From: place.From, Until: place.From})
	return place, nil
}

// begins is from when on a run lists a provider where nobody says so.
func (o *once) begins(ctx context.Context, provider string) (time.Time, error) {
	listed, err := o.Store.Coverage(ctx, provider)
	if err != nil {
		return time.Time{}, err
	}
	compared, err := o.Store.ComparedUntil(ctx, provider)
	if err != nil {
		return time.Time{}, err
	}
	first := o.now.Add(-o.Lookback)
	again := compared.Add(-o.Overlap)
	switch {
	case compared.IsZero(), again.After(first) && len(listed) > 0 && listed[0].From.After(first): // it was never listed from as far back
		return first, nil
	case again.Before(o.now.Add(-furthestBack)):
		return o.now.Add(-furthestBack), nil
	}
	return again, nil
}

// beginsAt is from when on a run compares our payments where nobody says so: as far back as it lists, and as a first run would.
func (o *once) beginsAt() time.Time {
	since := o.now.Add(-o.Lookback)
	for _, so := range o.run.Totals.Listed {
		if so.From.Before(since) {
			since = so.From
		}
	}
	return since
}

// compared notes up to when each provider that was listed is compared with our payments: the next run begins there.
func (o *once) compared(ctx context.Context) error {
	for _, provider := range slices.Sorted(maps.Keys(o.run.Totals.Listed)) {
		so := o.run.Totals.Listed[provider]
		if !so.From.Before(so.Until) {
			continue
		}
		if err := o.Store.PutCompared(ctx, o.run, provider, Coverage{From: so.From, Until: so.Until}); err != nil {
			return err
		}
	}
	return nil
}

// behindSentences tell which lists were not complete up to where they would have been listed.
func (o *once) behindSentences() []string {
	var sentences []string
	for _, provider := range slices.Sorted(maps.Keys(o.run.Totals.Listed)) {
		if so := o.run.Totals.Listed[provider]; so.Behind {
			sentences = append(sentences, fmt.Sprintf("%s: its list is behind, complete up to %s; the next run goes on there",
				provider, so.Until.UTC().Format(time.RFC3339)))
		}
	}
	return sentences
}

// listed notes what of a provider the run has listed so far.
func (o *once) listed(provider string, so Listed) {
	if o.run.Totals.Listed == nil {
		o.run.Totals.Listed = make(map[string]Listed)
	}
	o.run.Totals.Listed[provider] = so
}

// span is the end of a time that begins there and that a provider lists in one piece.
func (p listPlace) span(limits providers.ListLimits, from time.Time) time.Time {
	if limits.Span > 0 && from.Add(limits.Span).Before(p.Goal) {
		return from.Add(limits.Span)
	}
	return p.Goal
}

func (o *once) readProvider(ctx context.Context, place listPlace) error {
	source := o.Sources[place.Provider]
	if source == nil {
		return o.readNotices(ctx, place)
	}
	limits := source.ListLimits()
	changed := 0
	for place.From.Before(place.Goal) {
		page, askedAt, err := o.page(ctx, source, place)
		switch code := listCode(err); {
		case code == providers.CodeListTooLong && place.Until.Sub(place.From) > shortestSpan:
			place.Until, place.Page = place.From.Add(place.Until.Sub(place.From)/2), "" //nolint:mnd // a half
			place.Pages = 0
			continue
		case code == providers.CodeListChanged && changed < mostTries: // what was read of it stays, and is read once more
			changed++
			place.Page, place.Pages = "", 0
			continue
		case code == providers.CodeListBehind:
			var some bool
			if place, some = o.behind(ctx, place, limits, err); !some {
				return o.save(ctx)
			}
			continue
		case err != nil:
			return err
		}
		if place, err = o.keepPage(ctx, place, page, askedAt, limits); err != nil {
			return err
		}
	}
	return nil
}

// behind shortens what is listed to what the provider has by now, if that is any of it: the next run lists the rest.
func (o *once) behind(ctx context.Context, place listPlace, limits providers.ListLimits, err error) (listPlace, bool) {
	so := o.run.Totals.Listed[place.Provider]
	so.Behind = true
	o.listed(place.Provider, so)
	var complete time.Time
	if failure, ok := errors.AsType[*providers.ListError](err); ok {
		complete = failure.Until
	}
	o.Logger.WarnContext(ctx, "a provider's list is behind", "provider", place.Provider, "from", place.From, "complete_until", complete)
	if !complete.After(place.From) || !complete.Before(place.Until) {
		return place, false
	}
	place.Goal = complete
	place.Until, place.Page, place.Pages = place.span(limits, place.From), "", 0
	return place, true
}

// keepPage keeps what a page tells, and gives the place behind it.
func (o *once) keepPage(
	ctx context.Context, place listPlace, page providers.ListPage, askedAt time.Time, limits providers.ListLimits,
) (listPlace, error) {
	if place.Pages++; page.Next != "" && (page.Next == place.Page || place.Pages >= mostPages) {
		return place, &providers.ListError{Code: codeListEndless, Refused: true}
	}
	if err := o.Store.PutTransactions(ctx, o.run, place.Provider, askedAt, page.Transactions); err != nil {
		return place, err
	}
	o.run.Totals.Transactions += int64(len(page.Transactions))
	place.Page = page.Next
	if page.Next == "" {
		if err := o.Store.Cover(ctx, o.run, place.Provider, Coverage{From: place.From, Until: place.Until}); err != nil {
			return place, err
		}
		so := o.run.Totals.Listed[place.Provider]
		so.Until = place.Until
		o.listed(place.Provider, so)
		place.From = place.Until
		place.Until, place.Pages = place.span(limits, place.From), 0
	}
	o.run.Cursor = place.String()
	return place, o.save(ctx)
}

// codeListEndless: the list leads to the page that it gave, or has more pages than any house has payments.
const codeListEndless = "list_endless"

// notAgain are the codes of lists that asking for the same page once more does not help.
var notAgain = []string{providers.CodeListTooLong, providers.CodeListChanged, providers.CodeListBehind}

// listCode is why a list could not be read; empty where that was not the list's doing.
func listCode(err error) string {
	if failure, ok := errors.AsType[*providers.ListError](err); ok {
		return failure.Code
	}
	return ""
}

// page asks for a page until it is answered, and tells when it was asked for.
func (o *once) page(ctx context.Context, source Source, place listPlace) (page providers.ListPage, askedAt time.Time, err error) {
	request := providers.ListRequest{From: place.From, Until: place.Until, Cursor: place.Page}
	wait := time.Second
	for try := 1; ; try++ {
		if askedAt, err = o.Store.Now(ctx); err != nil {
			return page, askedAt, err
		}
		page, err = source.List(ctx, request)
		failure, ok := errors.AsType[*providers.ListError](err)
		if err == nil || !ok || failure.Refused || try == mostTries || slices.Contains(notAgain, failure.Code) {
			return page, askedAt, err
		}
		o.Logger.InfoContext(ctx, "a provider's list is asked for again", "provider", place.Provider, "code", failure.Code, "try", try)
		select {
		case <-ctx.Done():
			return page, askedAt, ctx.Err() //nolint:wrapcheck // the caller ended it
		case <-time.After(min(max(wait, failure.RetryAfter), longestWait)):
		}
		if err := o.save(ctx); err != nil { // keeps the lease
			return page, askedAt, err
		}
		wait *= 2
	}
}

// codeNotSetUp: of the provider there is neither a list nor an inbox here.
const codeNotSetUp = "provider_not_set_up"

// readNotices takes what a provider announced for what it would have listed.
func (o *once) readNotices(ctx context.Context, place listPlace) error {
	if !slices.Contains(o.Announcing, place.Provider) {
		return &providers.ListError{Code: codeNotSetUp, Refused: true}
	}
	told, err := o.Store.PutNotices(ctx, o.run, place.Provider, Coverage{From: place.From, Until: place.Goal})
	if err != nil {
		return err
	}
	o.run.Totals.Transactions += told
	o.listed(place.Provider, Listed{From: place.From, Until: place.Goal})
	return o.save(ctx)
}
