package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// What happens on the providers' side: how they send webhooks, what banks do, what customers decide.

// settleAfter is how long the providers take for what they do not do at once: short, and longer than any answer.
const settleAfter = 300 * time.Millisecond

// webhooks says how all providers send their webhooks from now on.
func (s *stage) webhooks(manner sandbox.WebhookManner) error {
	if err := s.place.sandbox.SetWebhookManner("", manner); err != nil {
		return fmt.Errorf("set the webhooks up: %w", err)
	}
	return nil
}

// webhooksAsUsual has each sent once and at once.
func (s *stage) webhooksAsUsual() { _ = s.webhooks(sandbox.WebhookManner{}) } // nothing in it could be refused

// control calls the sandbox's own API, as a person at its side would with curl.
func (s *stage) control(ctx context.Context, path string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode what the sandbox shall do: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.place.sandboxURL()+"/_sandbox/"+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("tell the sandbox: %w", err)
	}
	answer, err := s.browser.Do(request)
	if err != nil {
		return fmt.Errorf("tell the sandbox: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // nothing in it matters
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the sandbox refuses %s: %s", path, answer.Status)
	}
	return nil
}

// atBank plays what a bank makes of a refund: settle or fail.
func (s *stage) atBank(ctx context.Context, refund api.Refund, deed string) error {
	return s.control(ctx, "refunds/"+refund.ProviderReference+"/"+deed, struct{}{})
}

// decide plays a customer whom the shop sends to a provider's or a bank's page: approve or refuse. It returns what the way back
// to the shop brought.
func (s *stage) decide(ctx context.Context, action *api.NextAction, decision string) (url.Values, error) {
	if action == nil || action.URL == "" {
		return nil, errors.New("there is no page to send the customer to")
	}
	page, err := url.Parse(action.URL)
	if err != nil {
		return nil, fmt.Errorf("the customer's page: %w", err)
	}
	form := page.Query()
	form.Set("decision", decision)
	page.RawQuery = ""
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("decide at the page: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.browser.Do(request)
	if err != nil {
		return nil, fmt.Errorf("decide at the page: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // where it leads is in the head
	back, err := answer.Location()
	if err != nil || !strings.HasPrefix(back.String(), shopPage) {
		return nil, fmt.Errorf("the page (%s) does not lead back to the shop: %s", answer.Status, back)
	}
	return back.Query(), nil
}

// newBrowser follows no redirect: the shop's page is nowhere.
func newBrowser() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: maxDemoConcurrency}, // no proxy: the sandbox is on this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       sendTimeout,
	}
}
