package reconcile

import (
	"context"
	"errors"
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
		}
		place = listPlace{}
	}
	return o.next(ctx, StageMatch)
}

// firstPlace is where the listing of a provider begins and ends: at what was listed before, less the overlap, and at what is listed for
// sure by now.
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
		coverage, err := o.Store.Coverage(ctx, provider)
		if err != nil {
			return place, err
		}
		place.From = o.now.Add(-o.Lookback)
		if again := coverage.Until.Add(-o.Overlap); again.After(place.From) && !coverage.From.After(place.From) {
			place.From = again
		}
	}
	place.Until = place.span(limits, place.From)
	return place, nil
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
		case code == providers.CodeListBehind: // this time is not covered then, and the next run lists it
			o.Logger.WarnContext(ctx, "a provider's list is behind", "provider", place.Provider, "from", place.From)
			return nil
		case err != nil:
			return err
		}
		if place, err = o.keepPage(ctx, place, page, askedAt, limits); err != nil {
			return err
		}
	}
	return nil
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
	return o.save(ctx)
}
