package webhook_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/stripe"
	"paysaga/saga"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	stripeSecret  = "whsec_0123456789abcdefABCDEFghij"
	adyenKey      = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenMerchant = "TestMerchant"
	payPalID      = "8PT597110X687430LKGECATA"
	// patience is far over what anything here takes: a test that runs into it has failed.
	patience = time.Minute
)

// bundle is an inbox on a database of its own, behind real HTTP, with the adapters' own parsers and a runner that does as it is told.
type bundle struct {
	t       testing.TB
	pool    *pgxpool.Pool
	store   *watchedStore
	runner  *fakeRunner
	parsers map[string]webhook.Parser
	inbox   *webhook.Inbox
	url     string
	log     *hygiene.Book
	payPal  *payPalCertificate
}

func newBundle(t testing.TB) *bundle {
	t.Helper()
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, pool: pgtest.New(t), runner: &fakeRunner{}, log: hygiene.New(t), payPal: newPayPalCertificate(t)}
	for _, secret := range []string{stripeSecret, adyenKey} {
		b.log.Secret("a webhook's secret", secret)
	}
	b.store = &watchedStore{Store: postgres.New(b.pool, ring), settled: make(chan settlement, 1000)}
	stripeHook, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: []string{stripeSecret}})
	if err != nil {
		t.Fatal(err)
	}
	adyenHook, err := adyen.NewWebhook(adyen.WebhookConfig{HMACKeys: []string{adyenKey}, MerchantAccount: adyenMerchant})
	if err != nil {
		t.Fatal(err)
	}
	b.parsers = map[string]webhook.Parser{"stripe": stripeHook, "adyen": adyenHook, "paypal": b.payPal.webhook(t)}
	b.inbox = b.newInbox()
	server := httptest.NewServer(b.inbox)
	t.Cleanup(server.Close)
	b.url = server.URL
	b.exec(`INSERT INTO accounts (id) VALUES ('shop1')`)
	return b
}

// newInbox is another process's.
func (b *bundle) newInbox() *webhook.Inbox {
	b.t.Helper()
	endpoints := map[string]webhook.Endpoint{}
	for provider, parser := range b.parsers {
		endpoints[provider] = webhook.Endpoint{Parser: parser}
	}
	endpoints["adyen"] = webhook.Endpoint{Parser: b.parsers["adyen"], Accepted: adyen.Accepted}
	inbox, err := webhook.New(webhook.Config{
		Store: b.store, Runner: b.runner, Endpoints: endpoints, Lease: time.Minute, Interval: 10 * time.Millisecond, Concurrency: 8,
		Logger: b.log.Logger(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return inbox
}

// run lets the worker work until the test ends, or until stop is called, which returns when the worker has.
func (b *bundle) run() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	inbox := b.inbox
	go func() { defer close(done); inbox.Run(ctx) }()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return stop
}

func (b *bundle) exec(sql string, arguments ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(context.Background(), sql, arguments...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) count(sql string, arguments ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(context.Background(), sql, arguments...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// due makes every event that waits due now.
func (b *bundle) due() {
	b.t.Helper()
	b.exec(`UPDATE webhook_events SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL`)
}

// charged is a saga whose charge step is written, and its reference if that is known.
func (b *bundle) charged(provider, reference string) saga.Ref {
	b.t.Helper()
	key := uuid.New()
	b.exec(`INSERT INTO orders (account_id, id, status, currency, amount, payment_provider, payment_method)
		VALUES ('shop1', $1, 'processing', 'EUR', 3998, $2, 'm')`, key, provider)
	b.exec(`INSERT INTO sagas (account_id, key, order_id, generation, state, next_attempt_at, locked_until)
		VALUES ('shop1', $1, $1, 1, 'charging', now(), now())`, key)
	b.exec(`INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status, provider, provider_reference)
		VALUES ('shop1', $1, 'charge', 1, $2, 'pending', $3, $4)`, key, chargeKey(key), provider, reference)
	return saga.Ref{AccountID: "shop1", Key: key}
}

func chargeKey(key uuid.UUID) providers.SubKey { return saga.SubKey(key, saga.StepCharge, 1) }

// message is what a provider sends.
type message struct {
	provider string
	header   http.Header
	body     string
}

// reply is the answer to it.
type reply struct {
	status int
	header http.Header
	body   string
}

func (b *bundle) send(m message) reply {
	b.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, b.url+"/webhooks/"+m.provider, strings.NewReader(m.body))
	if err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(request.Header, m.header)
	b.log.Body("a webhook", m.body)
	for _, name := range []string{"Stripe-Signature", "Paypal-Transmission-Sig"} {
		b.log.Secret("a webhook's signature", request.Header.Get(name))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// accepted sends messages that must be.
func (b *bundle) accepted(messages ...message) {
	b.t.Helper()
	for _, m := range messages {
		if got := b.send(m); got.status != http.StatusOK {
			b.t.Fatalf("%s answered %d: %s", m.provider, got.status, got.body)
		}
	}
}

// call is one that the runner got.
type call struct {
	ref    saga.Ref
	notice providers.Notice
}

// fakeRunner answers as react says, given how often this event was brought before; without react it takes everything.
type fakeRunner struct {
	react func(ctx context.Context, c call, before int) error

	mu    sync.Mutex
	calls []call
}

func (r *fakeRunner) Notify(ctx context.Context, ref saga.Ref, notice providers.Notice) error {
	r.mu.Lock()
	before := 0
	for _, c := range r.calls {
		if c.notice.ID == notice.ID {
			before++
		}
	}
	r.calls = append(r.calls, call{ref, notice})
	r.mu.Unlock()
	if r.react == nil {
		return nil
	}
	return r.react(ctx, call{ref, notice}, before)
}

func (r *fakeRunner) all() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

// settlement is what a worker wrote about an event.
type settlement struct {
	event  webhook.Event
	result webhook.Result
	err    error
}

// watchedStore tells what is settled, and can be out of order.
type watchedStore struct {
	*postgres.Store

	settled chan settlement
	keep    func() error // instead of keeping
}

func (s *watchedStore) KeepEvents(ctx context.Context, provider string, notices []providers.Notice) (int, error) {
	if s.keep != nil {
		if err := s.keep(); err != nil {
			return 0, err
		}
	}
	return s.Store.KeepEvents(ctx, provider, notices)
}

func (s *watchedStore) SettleEvent(ctx context.Context, event webhook.Event, result webhook.Result) error {
	err := s.Store.SettleEvent(ctx, event, result)
	s.settled <- settlement{event, result, err}
	return err
}

// next is what is settled next.
func (b *bundle) next() settlement {
	b.t.Helper()
	select {
	case s := <-b.store.settled:
		if s.err != nil {
			b.t.Fatalf("settle %s: %v", s.event.Notice.ID, s.err)
		}
		return s
	case <-time.After(patience):
		b.t.Fatalf("nothing is settled; log:\n%s", b.log)
	}
	return settlement{}
}

// wantNext is the next settlement, which must be so.
func (b *bundle) wantNext(status webhook.Status, failed bool) settlement {
	b.t.Helper()
	s := b.next()
	if s.result.Status != status || s.result.Failed != failed {
		b.t.Errorf("%s is %s, failed %t (%s); want %s, %t", s.event.Notice.ID, s.result.Status, s.result.Failed, s.result.Reason, status, failed)
	}
	return s
}
