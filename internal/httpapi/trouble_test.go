package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/internal/httpapi"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// I1, I4: a provider that takes the money and does not answer. The order is accepted, its outcome stays open until it is known,
// and the customer is charged once.
func TestProviderDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(c *saga.Config) { c.CallTimeout = 300 * time.Millisecond })
	noError(t, s.sandbox.AddFault(sandbox.Fault{Provider: "stripe", Call: sandbox.CallAny, Kind: sandbox.FaultErrorAfter}))
	key := newKeyText()
	placed := s.place(t, key, theOrder)
	order := placed.order(t, http.StatusAccepted)
	if order.Status != api.OrderStatusProcessing || order.Payment.CapturedAmount != 0 || s.stock(t, "TSHIRT-M") != "2 of 100" {
		t.Errorf("order %+v, stock %s", order, s.stock(t, "TSHIRT-M"))
	}
	s.sandbox.ClearFaults()
	s.recover(t)
	location := placed.header.Get("Location")
	eventually(t, "order is confirmed", func() bool { return s.orderNow(t, location).Status == api.OrderStatusConfirmed })
	if got := s.onlyCharge(t); got.Captured != 3998 {
		t.Errorf("charge %+v", got)
	}
	sameAnswer(t, placed, s.place(t, key, theOrder))
}

// A server that has enough to do turns orders away before anything is written.
func TestOverload(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(c *saga.Config) { c.MaxInFlight = 1 })
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	before := s.footprint(t)
	key := newKeyText()
	s.place(t, key, theOrder).problem(t, http.StatusServiceUnavailable, "unavailable")
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("it changed something (-before +after):\n%s", diff)
	}
	held.release()
	answered := receive(t, "the answer", first)
	s.check(t, r, answered)
	answered.order(t, http.StatusCreated)
	eventually(t, "the order turned away is taken", func() bool { return s.place(t, key, theOrder).status == http.StatusCreated })
}

// panicking is a store with a defect.
type panicking struct{ httpapi.Store }

func (panicking) FindAPIKey(context.Context, [32]byte) (account.Key, error) { panic("a defect") }

// A defect ends one request, not the process, and its text stays here.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	handler, err := httpapi.New(httpapi.Config{
		Store: panicking{s.store}, Runner: s.runner, Guard: s.guard(t), MaxBody: bodyLimit, Logger: s.config.Logger,
	})
	noError(t, err)
	s.api = httptest.NewServer(handler)
	t.Cleanup(s.api.Close)
	problem := s.place(t, newKeyText(), theOrder).problem(t, http.StatusInternalServerError, "internal-error")
	if strings.Contains(problem.Detail, "defect") || !s.log.Contains("a defect") {
		t.Errorf("told to the client: %s", problem.Detail)
	}
	s.getAs(t, "", "/healthz")
}

func TestNewRefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	good := httpapi.Config{Store: s.store, Runner: s.runner, Guard: s.guard(t), MaxBody: bodyLimit, Logger: s.config.Logger}
	for name, change := range map[string]func(*httpapi.Config){
		"store": func(c *httpapi.Config) { c.Store = nil }, "runner": func(c *httpapi.Config) { c.Runner = nil },
		"logger": func(c *httpapi.Config) { c.Logger = nil }, "guard": func(c *httpapi.Config) { c.Guard = nil },
		"body limit": func(c *httpapi.Config) { c.MaxBody = 0 },
	} {
		broken := good
		change(&broken)
		if _, err := httpapi.New(broken); err == nil {
			t.Errorf("made without its %s", name)
		}
	}
}
