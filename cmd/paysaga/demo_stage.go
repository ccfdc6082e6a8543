package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/pgdev"
	"paysaga/providers/sandbox"
)

// stage is the system on which the demo plays: database and sandbox belong to this process, the server is a child.
type stage struct {
	dir    string
	place  *playground
	shop   *shop
	log    *os.File
	server *serverProcess
	// browser is the customers', and of whoever stands beside the sandbox.
	browser *http.Client

	stockBefore map[string]int64 // on hand before anything was sold, by SKU
	// settings are the servers' own; where the playground has one too, these count.
	settings []string
	prepare  func(ctx context.Context, s *stage) error // before the first server; may be nil

	fail func(error) // ends the demo when a part of the system ends that should not
}

const (
	// demoMarker is a file that tells a folder of the demo's, which may be emptied, from any other.
	demoMarker = "paysaga-demo"
	serverLog  = "serve.log"
)

// openStage starts everything in an empty folder, so that no earlier demo's orders come up in this one.
func openStage(ctx context.Context, dir string, fail func(error)) (*stage, error) {
	s := &stage{dir: dir, place: &playground{}, browser: newBrowser(), fail: fail}
	return s, s.start(ctx)
}

// start starts everything of a stage that is set up.
func (s *stage) start(ctx context.Context) error {
	if err := emptyFolder(ctx, s.dir); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var err error
	// Never the database that DATABASE_URL names: that could be one with real orders in it.
	if s.place.postgres, err = pgdev.Start(ctx, pgdev.Options{Dir: s.dir, Logger: logger}); err != nil {
		return fmt.Errorf("the demo needs a PostgreSQL of its own: %w", err)
	}
	if err := s.open(ctx, logger); err != nil {
		s.close()
		return err
	}
	go func() {
		select {
		case <-s.place.postgres.Done():
			s.fail(errors.New("the private PostgreSQL ended by itself"))
		case <-ctx.Done():
		}
	}()
	return nil
}

func (s *stage) open(ctx context.Context, logger *slog.Logger) error {
	if err := s.place.fill(ctx, s.dir, logger); err != nil {
		return err
	}
	var err error
	path := filepath.Join(s.dir, serverLog)
	if s.log, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil { //nolint:gosec // --dir says where
		return fmt.Errorf("open the server's log: %w", err)
	}
	s.shop = newShop(s.place.secrets.MerchantKey)
	if s.prepare != nil {
		if err := s.prepare(ctx, s); err != nil {
			return err
		}
	}
	if err := s.startServer(ctx); err != nil {
		return err
	}
	if err := s.place.sendWebhooksTo(s.server.url); err != nil {
		return err
	}
	if err := s.control(ctx, "settings", map[string]int64{"settle_after_ms": settleAfter.Milliseconds()}); err != nil {
		return err
	}
	stock, err := s.shop.stock(ctx)
	if err != nil {
		return err
	}
	s.stockBefore = map[string]int64{}
	for _, one := range stock {
		s.stockBefore[one.SKU] = one.OnHand
	}
	return nil
}

func emptyFolder(ctx context.Context, dir string) error {
	marker := filepath.Join(dir, demoMarker)
	content, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(content) == 0:
	case err != nil:
		return fmt.Errorf("look into the demo's folder: %w", err)
	default:
		if _, err := os.Stat(marker); err != nil {
			return fmt.Errorf("%s has something in it that is not the demo's; move it away, or choose another place with --dir", dir)
		}
		err := pgdev.RemoveAbandoned(ctx, dir)
		if errors.Is(err, pgdev.ErrInUse) {
			return fmt.Errorf("another demo runs in %s; wait for it, or choose another place with --dir", dir)
		}
		if err != nil {
			return fmt.Errorf("empty the demo's folder: %w", err)
		}
	}
	// PostgreSQL's account must be able to pass through; the files that are secret say so themselves.
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // see above
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	return writePrivate(marker, []byte("paysaga demo empties this folder when it starts.\n"))
}

// startServer starts the next server; the shop talks to it from then on. It listens where the one before did, since that is where
// the providers' webhooks go.
func (s *stage) startServer(ctx context.Context) error {
	address := anyAddress
	if s.server != nil {
		address = strings.TrimPrefix(s.server.url, "http://")
	}
	started, err := launchServer(ctx, s.environ(), address, s.log, s.fail)
	if err != nil {
		return err
	}
	s.server = started
	s.shop.setServer(started.url)
	return nil
}

// environ are the settings of a server, or of another command that joins the same system.
func (s *stage) environ() []string { return slices.Concat(s.place.environ(), s.settings) }

// close ends what was started, in reverse. A server that still runs was not told to stop in the regular way: the demo was
// cut short.
func (s *stage) close() {
	if s.server != nil {
		_ = s.server.stop() // on Ctrl-C the terminal asks it too, and asked twice it ends at once
	}
	if s.log != nil {
		_ = s.log.Close() // every line that matters is in it
	}
	s.place.close()
}

// chargesOf are the payments in the ledgers that were made for an order.
func (s *stage) chargesOf(id uuid.UUID) []sandbox.Charge {
	var found []sandbox.Charge
	for _, charge := range s.place.sandbox.Ledger() {
		if orderOf(charge) == id.String() {
			found = append(found, charge)
		}
	}
	return found
}

// orderOf is the id of the order that a payment was made for. It is its saga's key, which every payment carries: alone, or as the
// beginning of the reference that Adyen gets.
func orderOf(charge sandbox.Charge) string {
	id, _, _ := strings.Cut(charge.Reference, "_")
	return id
}

func (s *stage) stock(ctx context.Context, sku string) (api.Stock, error) {
	var stock api.Stock
	err := s.shop.get(ctx, "/v1/stock/"+sku, &stock)
	return stock, err
}

// pollPause is how often a state that comes by itself is looked at: often enough to show when it came.
const pollPause = 50 * time.Millisecond

// waitForEnd asks for an order until it has an end, or for as long as ought to suffice many times over.
func (s *stage) waitForEnd(ctx context.Context, id uuid.UUID) (api.Order, error) {
	return s.waitForOrder(ctx, id, "an end", func(order api.Order) bool { return ended(order.Status) })
}

// longestWait is many times what anything in the demo takes by itself.
const longestWait = 30 * time.Second

// waitForOrder asks for an order until it is as wanted.
func (s *stage) waitForOrder(ctx context.Context, id uuid.UUID, what string, reached func(api.Order) bool) (api.Order, error) {
	order, err := waitFor(ctx, s.shop, "/v1/orders/"+id.String(), reached)
	if err != nil {
		return order, fmt.Errorf("wait for %s of order %s, which is %s, its payment %s, its saga %s: %w", what, id, order.Status,
			order.Payment.Status, order.Saga.State, err)
	}
	return order, nil
}

// waitForRefund asks for a refund until it has this status.
func (s *stage) waitForRefund(ctx context.Context, asked api.Refund, status api.RefundStatus) (api.Refund, error) {
	path := "/v1/orders/" + asked.OrderID.String() + "/refunds/" + asked.ID.String()
	refund, err := waitFor(ctx, s.shop, path, func(now api.Refund) bool { return now.Status == status })
	if err != nil {
		return refund, fmt.Errorf("wait for refund %s to be %s, it is %s: %w", asked.ID, status, refund.Status, err)
	}
	return refund, nil
}

// waitFor reads from the API until what it reads is as wanted, and returns what it read last.
func waitFor[T any](ctx context.Context, from *shop, path string, reached func(T) bool) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("%s are over", longestWait))
	defer cancel()
	var last T
	for {
		var read T
		if err := from.get(ctx, path, &read); err != nil {
			return last, err
		}
		if last = read; reached(last) {
			return last, nil
		}
		if err := wait(ctx, pollPause); err != nil {
			return last, err
		}
	}
}

// settled: nothing about the order is on its way any more, and no money is held for it.
func settled(order api.Order) bool {
	return order.Saga.State == api.SagaStateCompleted || order.Saga.State == api.SagaStateRolledBack
}

// ended: in_review is none of the ends, as a person would have to look.
func ended(status api.OrderStatus) bool {
	switch status {
	case api.OrderStatusConfirmed, api.OrderStatusFailed, api.OrderStatusCanceled:
		return true
	case api.OrderStatusProcessing, api.OrderStatusAwaiting, api.OrderStatusInReview:
	}
	return false
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx) //nolint:wrapcheck // callers say what they waited for
	}
}
