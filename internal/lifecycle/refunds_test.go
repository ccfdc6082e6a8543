package lifecycle_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// TestRefundRace asks for fifty refunds at once, of which no more than nineteen fit into what was captured. None of them may be more
// than that, here or at the provider, and each has its end: the money, or a refusal.
func TestRefundRace(t *testing.T) {
	t.Parallel()
	faults := map[string][]sandbox.Fault{
		"all goes well": nil,
		"answers are lost": {
			{Call: sandbox.CallRefund, Kind: sandbox.FaultResetAfter, Probability: 0.3, Seed: 1},
			{Call: sandbox.CallRefund, Kind: sandbox.FaultErrorAfter, Probability: 0.3, Seed: 2},
			{Call: sandbox.CallRefund, Kind: sandbox.FaultResetBefore, Probability: 0.3, Seed: 3},
		},
	}
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{})
			for name, some := range faults {
				t.Run(name, func(t *testing.T) { raceRefunds(t, h.fresh(t), provider, some) })
			}
		})
	}
}

const (
	refundsAtOnce  = 50
	refundAmount   = 200
	refundsThatFit = stage.Price / refundAmount
)

func raceRefunds(t *testing.T, h house, provider string, faults []sandbox.Fault) {
	t.Helper()
	f := h.newFlow(stage.TwoCups(provider, stage.Pays))
	f.want(f.Place(), http.StatusCreated)
	for _, fault := range faults {
		h.Must(h.Sandbox.AddFault(fault))
	}
	all := f.askAtOnce()
	taken := 0
	for i, got := range all {
		f.Sent = append(f.Sent, refundNumber(f, i))
		switch {
		case got.Status == http.StatusCreated, got.Status == http.StatusAccepted:
			f.Got[refundNumber(f, i).Name()] = got
			taken++
		case got.Problem != "amount-too-large":
			t.Errorf("refund %d: %s", i, got)
		}
	}
	if known := len(f.RefundsOf(f.First.ID)); taken != refundsThatFit || known != taken {
		t.Errorf("%d refunds were taken on, %d are known, %d fit", taken, known, refundsThatFit)
	}
	for _, fault := range h.Sandbox.Faults() {
		if fault.Fired == 0 {
			t.Errorf("fault %s has not happened", fault.Kind)
		}
	}
	f.checkRefundSums()
	f.Settle(func() { f.checkRefundSums() })
	f.checkEnd()
	if payment := f.Saga().Order.Payment; payment.RefundedAmount != refundsThatFit*refundAmount {
		t.Errorf("%d refunded", payment.RefundedAmount)
	}
	if t.Failed() {
		t.Log(f.Report())
	}
}

func refundNumber(f *flow, i int) stage.Request {
	return stage.Request{Endpoint: stage.ToRefund, Key: fmt.Sprintf("refund %d", i), ID: f.First.ID, Body: stage.Part(refundAmount)}
}

// askAtOnce sends all refunds at the same moment. One that is asked to come again does so.
func (f *flow) askAtOnce() []stage.Reply {
	f.Helper()
	all := make([]stage.Reply, refundsAtOnce)
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			<-begin
			for range refundsAtOnce {
				if all[i] = f.Stage.Send(refundNumber(f, i)); all[i].Problem != "order-busy" {
					return
				}
			}
		})
	}
	close(begin)
	group.Wait()
	return all
}

// checkRefundSums compares the sums, with refunds that are on their way.
func (f *flow) checkRefundSums() {
	f.Helper()
	payment := f.Saga().Order.Payment
	var sum int64
	for _, refund := range f.RefundsOf(f.First.ID) {
		if refund.State != saga.RolledBack {
			sum += refund.Refund.Amount
		}
	}
	if held := payment.RefundedAmount + payment.RefundingAmount; held != sum || held > payment.CapturedAmount {
		f.Errorf("%d refunded and being refunded of %d captured; the refunds add up to %d", held, payment.CapturedAmount, sum)
	}
	if slices.ContainsFunc(f.Sandbox.Ledger(), func(charge sandbox.Charge) bool { return charge.Refunded > charge.Captured }) {
		f.Errorf("more is refunded than captured: %+v", f.Sandbox.Ledger())
	}
}
