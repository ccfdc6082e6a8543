//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/api/client"
)

const (
	// journeyLimit bounds one order from its placing to its last refund, whatever befalls the servers meanwhile. Customers are gone by
	// then; in a run of minutes a journey takes a second, and some ten where several blows meet it.
	journeyLimit = 90 * time.Second
	// lookPause is how often a shop looks at an order that goes on by itself.
	lookPause = 100 * time.Millisecond
)

// purchase is one order on its way, as its shop knows it.
type purchase struct {
	plan

	id       uuid.UUID
	refused  client.ProblemType // why placing came to nothing
	captured int64              // taken by a capture that was answered with success
	canceled bool               // a cancel was
	refunds  []uuid.UUID        // those that were taken on
	given    []int64            // their amounts
	closed   client.ProblemType // why a later request was refused: the order had ended meanwhile
	err      error              // what the shop could not find out
}

// walk carries an order through. What it finds is in the purchase.
func (s *shops) walk(ctx context.Context, p plan) *purchase {
	ctx, cancel := context.WithTimeout(ctx, journeyLimit)
	defer cancel()
	o := &purchase{plan: p}
	if o.err = s.place(ctx, o); o.err != nil || o.refused != "" {
		return o
	}
	switch p.course {
	case courseCustomer, courseRefuses:
		o.err = s.sendCustomer(ctx, o)
	case courseElsewhere:
		o.err = s.payElsewhere(ctx, o)
	case courseCapture, courseCancel:
		o.err = s.endHold(ctx, o)
	case courseRefund:
		o.err = s.giveBack(ctx, o)
	case coursePaid, courseDeclined, courseSlow:
	}
	if o.err == nil && p.note != "" {
		o.err = s.write(ctx, o)
	}
	return o
}

// ask makes one request as often as the plan says, all at the same moment, as when a customer clicks twice. It gives the first one's
// result; that all have the same the journal sees.
func ask[T any](copies int, call func() (T, error)) (T, error) {
	var group sync.WaitGroup
	for range copies - 1 {
		group.Go(func() { _, _ = call() }) // the journal has it
	}
	result, err := call()
	group.Wait()
	return result, err
}

func newKey(parts ...string) client.Key {
	key, err := client.ParseKey(strings.Join(parts, "-"))
	if err != nil {
		panic(err)
	}
	return key
}

func (s *shops) place(ctx context.Context, o *purchase) error {
	result, err := ask(o.copies, func() (client.OrderResult, error) { return s.client.CreateOrder(ctx, newKey(o.key), o.order) })
	if o.refused = refusal(err); o.refused != "" {
		return nil
	}
	o.id = result.Order.ID
	return err
}

// await looks at the order until it is as wanted, or has ended otherwise.
func (s *shops) await(ctx context.Context, o *purchase, wanted func(api.Order) bool) (api.Order, error) {
	for {
		order, err := s.client.GetOrder(ctx, o.id)
		if err != nil {
			return order, fmt.Errorf("look at the order: %w", err)
		}
		if wanted(order) || over(order) {
			return order, nil
		}
		sleep(ctx, lookPause)
		if ctx.Err() != nil {
			return order, fmt.Errorf("the order is %s, its saga %s: %w", order.Status, order.Saga.State, ctx.Err())
		}
	}
}

func over(order api.Order) bool {
	return order.Saga.State == api.SagaStateCompleted || order.Saga.State == api.SagaStateRolledBack ||
		order.Saga.State == api.SagaStateNeedsReview
}

func asksCustomer(order api.Order) bool { return order.NextAction != nil }

// sendCustomer sends the customer to the provider's page, and perhaps tells paysaga when they are back.
func (s *shops) sendCustomer(ctx context.Context, o *purchase) error {
	order, err := s.await(ctx, o, asksCustomer)
	if err != nil || order.NextAction == nil {
		return err
	}
	decision := "approve"
	if o.course == courseRefuses {
		decision = "refuse"
	}
	back, err := s.decide(ctx, order.NextAction.URL, decision)
	if err != nil || !o.comesBack {
		return err
	}
	request := api.ContinueRequest{}
	if back.Has("redirectResult") {
		details, err := json.Marshal(map[string]string{"redirectResult": back.Get("redirectResult")})
		if err != nil {
			return err
		}
		request.Details = details
	}
	_, err = ask(o.copies, func() (client.OrderResult, error) {
		return s.client.ContinueOrder(ctx, newKey(o.key, "continue"), o.id, request)
	})
	return o.close(err)
}

// close notes a refusal, which tells that the order has ended meanwhile.
func (o *purchase) close(err error) error {
	if reason := refusal(err); reason != "" {
		o.closed = reason
		return nil
	}
	return err
}

// decide plays a customer at the provider's or the bank's page, and gives what their way back to the shop brought.
func (s *shops) decide(ctx context.Context, page, decision string) (url.Values, error) {
	address, err := url.Parse(page)
	if err != nil || page == "" {
		return nil, errors.New("there is no page to send the customer to")
	}
	form := address.Query()
	form.Set("decision", decision)
	address.RawQuery = ""
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		return nil, fmt.Errorf("the page answers %s, and does not lead back to the shop: %w", answer.Status, err)
	}
	return back.Query(), nil
}

func (s *shops) payElsewhere(ctx context.Context, o *purchase) error {
	order, err := s.await(ctx, o, asksCustomer)
	if err != nil || order.NextAction == nil {
		return err
	}
	request := api.ContinueRequest{Payment: &api.ContinuePayment{Provider: o.elsewhere.name, Method: o.elsewhere.good}}
	_, err = ask(o.copies, func() (client.OrderResult, error) {
		return s.client.ContinueOrder(ctx, newKey(o.key, "continue"), o.id, request)
	})
	return o.close(err)
}

// endHold captures held money, or lets go of it.
func (s *shops) endHold(ctx context.Context, o *purchase) error {
	order, err := s.await(ctx, o, func(order api.Order) bool { return order.Payment.CapturableAmount > 0 })
	if err != nil || order.Payment.CapturableAmount == 0 {
		return err
	}
	if o.course == courseCancel {
		_, err = ask(o.copies, func() (client.OrderResult, error) { return s.client.CancelOrder(ctx, newKey(o.key, "cancel"), o.id) })
		o.canceled = err == nil
		return o.close(err)
	}
	_, err = ask(o.copies, func() (client.OrderResult, error) {
		return s.client.CaptureOrder(ctx, newKey(o.key, "capture"), o.id, api.CaptureRequest{Amount: o.parts[0]})
	})
	if err == nil {
		if o.captured = o.parts[0]; o.captured == 0 {
			o.captured = order.Payment.CapturableAmount
		}
	}
	return o.close(err)
}

// giveBack refunds the parts, one after the other or all at once.
func (s *shops) giveBack(ctx context.Context, o *purchase) error {
	order, err := s.await(ctx, o, func(order api.Order) bool { return order.Payment.CapturedAmount > 0 })
	if err != nil || order.Payment.CapturedAmount == 0 {
		return err
	}
	var mutex sync.Mutex
	var group sync.WaitGroup
	refund := func(i int) {
		result, failed := ask(o.copies, func() (client.RefundResult, error) {
			return s.client.Refund(ctx, newKey(o.key, "refund", strconv.Itoa(i+1)), o.id, api.RefundRequest{Amount: o.parts[i]})
		})
		mutex.Lock()
		defer mutex.Unlock()
		if failed == nil {
			o.refunds, o.given = append(o.refunds, result.Refund.ID), append(o.given, result.Refund.Amount)
		}
		err = errors.Join(err, o.close(failed))
	}
	for i := range o.parts {
		if o.together {
			group.Go(func() { refund(i) })
			continue
		}
		refund(i)
	}
	group.Wait()
	return err
}

// write adds a note to the order.
func (s *shops) write(ctx context.Context, o *purchase) error {
	_, err := ask(o.copies, func() (client.OrderResult, error) {
		return s.client.UpdateMetadata(ctx, newKey(o.key, "note"), o.id, api.OrderPatch{Metadata: map[string]*string{"note": &o.note}})
	})
	return err
}
