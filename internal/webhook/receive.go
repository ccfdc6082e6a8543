package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// pathPrefix is before the provider's name in the address.
	pathPrefix = "/webhooks/"
	// maxBodyBytes is far over the largest message of any provider, some 10 KiB, and what their adapters take.
	maxBodyBytes = 1 << 20
	// maxVerifying bounds the messages of one provider that are verified and stored at once: anybody may send. It is over what a
	// provider sends at the same moment; the others wait there, not here.
	maxVerifying = 64
	// keepTimeout is below 10 s, the shortest patience of a provider (Adyen's), with room for the verification before it.
	keepTimeout = 4 * time.Second
	// retryAfter is long enough for a restart or a failover to begin. Providers have plans of their own and may not heed it.
	retryAfter = 5 * time.Second
	// emptyObject answers providers that look at the status only.
	emptyObject = "{}"
)

// ServeHTTP takes POSTs at …/webhooks/{provider}. 200 tells that every event in the message is stored, now or before. A provider
// that gets anything else sends the message again.
func (b *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, provider, _ := strings.Cut(r.URL.Path, pathPrefix)
	endpoint, known := b.Endpoints[provider]
	switch {
	case !known:
		refuse(w, notFound)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, methodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		refuse(w, bodyTooLarge)
		return
	}
	if err != nil {
		refuse(w, refused) // it broke off; nobody is there to read this
		return
	}
	select {
	case b.verifying[provider] <- struct{}{}:
		defer func() { <-b.verifying[provider] }()
	default:
		b.Logger.WarnContext(r.Context(), "webhook turned away: too many at once", "provider", provider)
		refuse(w, unavailable)
		return
	}
	if answer := b.keep(r.Context(), provider, r.Header, body); answer != nil {
		refuse(w, *answer)
		return
	}
	accept(w, endpoint)
}

// keep verifies a message and stores its events, or says how to refuse it.
func (b *Inbox) keep(ctx context.Context, provider string, header http.Header, body []byte) *problem {
	notices, err := b.Endpoints[provider].Parser.Parse(header, body, time.Now())
	switch {
	case errors.Is(err, providers.ErrSignature), errors.Is(err, providers.ErrMalformed):
		b.Logger.WarnContext(ctx, "webhook refused", "provider", provider, "bytes", len(body), "error", err)
		return &refused
	case err != nil: // also what nobody foresaw: better sent twice than lost
		b.Logger.ErrorContext(ctx, "webhook not verified", "provider", provider, "error", err)
		return &unavailable
	}
	now := time.Now()
	for i := range notices {
		notices[i] = storable(notices[i], now)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout) // a sender that goes away has sent it all the same
	defer cancel()
	fresh, err := b.Store.KeepEvents(ctx, provider, notices)
	if err != nil {
		b.Logger.ErrorContext(ctx, "webhook not stored", "provider", provider, "events", len(notices), "error", err)
		return &unavailable
	}
	b.Logger.InfoContext(ctx, "webhook stored", "provider", provider, "events", len(notices), "fresh", fresh)
	if fresh > 0 {
		b.wake()
	}
	return nil
}

// wake lets the worker look at once. A signal that waits already stands for this one too.
func (b *Inbox) wake() {
	select {
	case b.stored <- struct{}{}:
	default:
	}
}

func accept(w http.ResponseWriter, endpoint Endpoint) {
	body, contentType := endpoint.Accepted, "text/plain; charset=utf-8"
	if body == "" {
		body, contentType = emptyObject, "application/json"
	}
	send(w, http.StatusOK, contentType, []byte(body))
}

// problem is a refusal (RFC 9457). It says nothing of what was wrong with a message: whoever may know sees it in the log.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Each type has a page at its address, which package httpapi gives; a test there holds these against the pages.
var (
	refused = problem{
		"/problems/webhook-refused", "The webhook was refused", http.StatusBadRequest,
		"The message does not carry its provider's signature, or is none of its events. Nothing is kept.",
	}
	notFound = problem{
		"/problems/not-found", "There is no such thing", http.StatusNotFound, "No provider of this name is set up for webhooks.",
	}
	methodNotAllowed = problem{
		"/problems/method-not-allowed", "The method does not fit the address", http.StatusMethodNotAllowed, "Webhooks are sent with POST.",
	}
	bodyTooLarge = problem{
		"/problems/body-too-large", "The body is too large", http.StatusRequestEntityTooLarge, "The message has more than 1 MiB.",
	}
	unavailable = problem{
		"/problems/unavailable", "The service cannot take the request now", http.StatusServiceUnavailable,
		"The message could not be verified and kept now. Send it again.",
	}
)

func refuse(w http.ResponseWriter, p problem) {
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(emptyObject) // cannot be: a problem is three texts and a number
	}
	send(w, p.Status, "application/problem+json", body)
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a sender that has gone away sends again
}
