package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Retries of a webhook. Providers retry for days; the sandbox gives up within a minute and counts it, so that a test ends.
const (
	maxWebhookAttempts = 8
	firstWebhookRetry  = 200 * time.Millisecond // doubled each time: 25 s in all
	webhookTimeout     = 10 * time.Second       // Adyen's
	maxWebhookAnswer   = 4 << 10
)

// parcel is one copy of a webhook that waits.
type parcel struct {
	hook     webhook
	due      time.Time // by the machine's clock: a sandbox's clock may stand still
	attempts int
}

// delivery is a webhook that was accepted.
type delivery struct {
	hook webhook
	at   time.Time // by the machine's clock
}

// WebhookStatus is how a provider's webhooks are sent and what has become of them.
type WebhookStatus struct {
	WebhookTarget
	WebhookManner

	Provider  string `json:"provider"`
	Waiting   int    `json:"waiting"`
	Delivered int    `json:"delivered"`
	Lost      int    `json:"lost"`      // on purpose
	Abandoned int    `json:"abandoned"` // after the last retry, or because the queue was full
}

// outbox sends one provider's webhooks, one at a time.
type outbox struct {
	provider string
	seed     int64
	client   *http.Client
	log      *slog.Logger
	clock    *clock
	closing  context.Context //nolint:containedctx // the server's own life

	// sending is held while a parcel is on its way, so that a flush also waits for that one. It is taken before mu.
	sending sync.Mutex
	mu      sync.Mutex
	status  WebhookStatus
	waiting []parcel
	sent    []delivery // the last ones, oldest first
	working bool
	wake    chan struct{}
}

func newOutbox(server *Server, provider string, seed int64, client *http.Client) *outbox {
	return &outbox{
		provider: provider, seed: seed, client: client, log: server.log, clock: server.clock, closing: server.closing,
		status: WebhookStatus{Provider: provider}, wake: make(chan struct{}, 1),
	}
}

// newWebhookClient dials this machine only, unless anywhere; it looks at the address, so that no name and no redirect leads out.
func newWebhookClient(anywhere bool) *http.Client {
	dialer := &net.Dialer{Timeout: webhookTimeout}
	if !anywhere {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(address)
			if err != nil || !net.ParseIP(host).IsLoopback() {
				return fmt.Errorf("%w: not an address of this machine", ErrWebhook)
			}
			return nil
		}
	}
	return &http.Client{
		Timeout:       webhookTimeout,
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: len(knownProviders)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// wanted reports whether anybody listens.
func (o *outbox) wanted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status.URL != ""
}

func (o *outbox) target() WebhookTarget {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status.WebhookTarget
}

func (o *outbox) setTarget(target WebhookTarget) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status.WebhookTarget = target
}

func (o *outbox) setManner(manner WebhookManner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status.WebhookManner = manner
}

func (o *outbox) show() WebhookStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := o.status
	shown.Waiting = len(o.waiting)
	return shown
}

// reset forgets what waits and the counts; target and manner stay.
func (o *outbox) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.sent = nil, nil
	o.status.Delivered, o.status.Lost, o.status.Abandoned = 0, 0, 0
}

// add lets an event wait for its time. It never blocks.
func (o *outbox) add(hook webhook) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status.URL == "" {
		return
	}
	delays, lost := o.status.copies(o.seed, o.provider+"\x00"+hook.lot)
	o.status.Lost += lost
	for _, delay := range delays {
		o.enqueue(parcel{hook: hook, due: time.Now().Add(delay)})
	}
}

// enqueue runs under mu.
func (o *outbox) enqueue(one parcel) {
	if len(o.waiting) >= maxWaitingWebhooks {
		o.status.Abandoned++
		return
	}
	o.waiting = append(o.waiting, one)
	if !o.working {
		o.working = true
		go o.work()
		return
	}
	select {
	case o.wake <- struct{}{}:
	default: // it is awake already
	}
}

// work sends what is due until nothing waits or the server closes.
func (o *outbox) work() {
	for {
		wait, more := o.sendDue()
		if !more {
			return
		}
		if wait <= 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-o.wake:
		case <-o.closing.Done():
		}
		timer.Stop()
	}
}

// sendDue sends the parcel that is due first, or says how long that will be. more is false when there is nothing to do.
func (o *outbox) sendDue() (wait time.Duration, more bool) {
	o.sending.Lock()
	defer o.sending.Unlock()
	one, wait, more := o.next()
	if more && wait <= 0 {
		o.deliver(o.closing, one)
	}
	return wait, more
}

func (o *outbox) next() (one parcel, wait time.Duration, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 || o.closing.Err() != nil {
		o.working = false
		return parcel{}, 0, false
	}
	first := 0
	for i, each := range o.waiting {
		if each.due.Before(o.waiting[first].due) {
			first = i
		}
	}
	one = o.waiting[first]
	if wait = time.Until(one.due); wait > 0 {
		return parcel{}, wait, true
	}
	o.waiting = slices.Delete(o.waiting, first, first+1)
	return one, 0, true
}

// flush sends all that waits now, each once, whatever its time. What is refused waits for its retry.
func (o *outbox) flush(ctx context.Context) {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.mu.Lock()
	all := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	slices.SortStableFunc(all, func(a, b parcel) int { return a.due.Compare(b.due) })
	for _, each := range all {
		o.deliver(ctx, each)
	}
}

// deliver sends one parcel and counts how it went.
func (o *outbox) deliver(ctx context.Context, one parcel) {
	err := o.post(ctx, one.hook)
	o.mu.Lock()
	defer o.mu.Unlock()
	one.attempts++
	switch {
	case err == nil:
		o.status.Delivered++
		o.remember(one.hook)
		return
	case one.attempts >= maxWebhookAttempts:
		o.status.Abandoned++
	default:
		one.due = time.Now().Add(firstWebhookRetry << (one.attempts - 1))
		o.enqueue(one)
	}
	o.log.Debug("webhook not delivered", "provider", o.provider, "attempts", one.attempts, "error", err)
}

// remember keeps a webhook that was accepted, to be sent again on request. It runs under mu.
func (o *outbox) remember(hook webhook) {
	if len(o.sent) >= maxWaitingWebhooks {
		o.sent[0] = delivery{} // let the backing array not keep it
		o.sent = o.sent[1:]
	}
	o.sent = append(o.sent, delivery{hook, time.Now()})
}

// resend lets all that was accepted since a time wait once more, and tells how many that are.
func (o *outbox) resend(since time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := 0
	for _, each := range o.sent {
		if !each.at.Before(since) {
			o.enqueue(parcel{hook: each.hook, due: time.Now()})
			count++
		}
	}
	return count
}

// errNotAccepted: the shop answered, but not with what tells the provider that it has the webhook.
var errNotAccepted = errors.New("webhook not accepted")

func (o *outbox) post(ctx context.Context, hook webhook) error {
	target := o.target()
	letter, err := hook.compose(target, o.clock.now())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL, bytes.NewReader(letter.body))
	if err != nil {
		return fmt.Errorf("make webhook request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	for name, value := range letter.header {
		request.Header.Set(name, value)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return fmt.Errorf("send webhook: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxWebhookAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("read answer to webhook: %w", err)
	case response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%w: status %d", errNotAccepted, response.StatusCode)
	case o.provider == adyenName && !strings.Contains(string(answer), "[accepted]"):
		return fmt.Errorf("%w: the answer is not [accepted]", errNotAccepted)
	}
	return nil
}
