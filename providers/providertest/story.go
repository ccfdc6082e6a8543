package providertest

import (
	"slices"
	"testing"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// story is what becomes of one payment, or of several under one saga's key, and how that is to be listed.
type story struct {
	name    string
	sagaKey string
	live    func(t *testing.T, b listBench, request providers.ChargeRequest)
	// status is how a payment of it is listed. With silent a provider may leave the payment out, as it never had money.
	status  providers.OutcomeKind
	silent  bool
	taken   []int64 // by each payment that took money
	returns []int64 // each refund, in the order in which they were made
	own     int     // how many of the refunds, the first ones, have our keys
}

func (s story) key(step string) providers.SubKey { return providers.SubKey(s.sagaKey + "_" + step) }

func (s story) order(method string) providers.ChargeRequest {
	request := order(s.key("charge"), method)
	request.SagaKey = s.sagaKey
	return request
}

// listed are the stories that a list must tell.
func listed() []story {
	return []story{
		{name: "charged", live: charges, status: providers.Succeeded, taken: []int64{price}},
		{name: "declined", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			request.Method = b.Methods.DeclinedHard
			b.charged(t, request, providers.Declined)
		}, status: providers.Declined, silent: true},
		{name: "customer asked", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			request.Method = b.Methods.Action
			b.charged(t, request, providers.ActionRequired)
		}, status: providers.ActionRequired, silent: true},
		{name: "slow", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			request.Method = b.Methods.Processing
			b.charged(t, request, providers.Processing)
		}, status: providers.Processing},
		{name: "held", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			b.holds(t, request)
		}, status: providers.Authorized},
		{name: "voided", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			held := b.holds(t, request)
			void := providers.VoidRequest{
				Key: providers.SubKey(request.SagaKey + "_void"), ChargeKey: request.Key, Reference: held.Reference, ManualCapture: true,
			}
			if got := b.Void(t.Context(), void); got.Kind != providers.Succeeded {
				t.Errorf("void: %+v", got)
			}
		}, status: providers.Canceled},
		{name: "captured in part", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			held := b.holds(t, request)
			capture := captureOf(held, "", 1000, true)
			capture.Key, capture.SagaKey = providers.SubKey(request.SagaKey+"_capture"), request.SagaKey
			b.captured(t, capture)
		}, status: providers.Succeeded, taken: []int64{1000}},
		{
			name: "refunded in parts", live: returns(1000, 500), status: providers.Succeeded, taken: []int64{price},
			returns: []int64{1000, 500}, own: 2,
		},
		{name: "refunded whole", live: returns(price), status: providers.Succeeded, taken: []int64{price}, returns: []int64{price}, own: 1},
		{name: "refunded by others too", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			returns(1000)(t, b, request)
			b.plant(t, map[string]any{"kind": "refund_in_dashboard", "reference": request.SagaKey, "amount": 700})
		}, status: providers.Succeeded, taken: []int64{price}, returns: []int64{1000, 700}, own: 1},
		{name: "taken twice", live: func(t *testing.T, b listBench, request providers.ChargeRequest) {
			t.Helper()
			charges(t, b, request)
			b.plant(t, map[string]any{"kind": "duplicate", "reference": request.SagaKey})
		}, status: providers.Succeeded, taken: []int64{price, price}},
	}
}

func charges(t *testing.T, b listBench, request providers.ChargeRequest) {
	t.Helper()
	b.charged(t, request, providers.Succeeded)
}

// returns charges and gives back.
func returns(amounts ...int64) func(t *testing.T, b listBench, request providers.ChargeRequest) {
	return func(t *testing.T, b listBench, request providers.ChargeRequest) {
		t.Helper()
		taken := b.charged(t, request, providers.Succeeded)
		for i, amount := range amounts {
			key := providers.SubKey(request.SagaKey + "_refund" + []string{"", "_2", "_3"}[i])
			got := b.Refund(t.Context(), providers.RefundRequest{
				Key: key, SagaKey: request.SagaKey, Reference: taken.Reference, Money: dollars(amount),
			})
			if got.Kind != providers.Succeeded {
				t.Errorf("refund: %+v", got)
			}
			b.sandbox.AdvanceClock(apart)
		}
	}
}

func (b listBench) holds(t *testing.T, request providers.ChargeRequest) providers.Outcome {
	t.Helper()
	request.ManualCapture = true
	return b.charged(t, request, providers.Authorized)
}

// expect holds what is listed of a story against the story and against the ledger.
func (s story) expect(t *testing.T, all []providers.Transaction, ledger []sandbox.Charge) {
	t.Helper()
	var payments, refunds []providers.Transaction
	for _, transaction := range all {
		switch {
		case transaction.SagaKey == s.sagaKey && transaction.Kind == providers.TransactionPayment:
			payments = append(payments, transaction)
		case transaction.Kind == providers.TransactionRefund:
			refunds = append(refunds, transaction)
		}
	}
	s.expectPayments(t, payments)
	refunds = slices.DeleteFunc(refunds, func(refund providers.Transaction) bool {
		return !slices.ContainsFunc(payments, func(payment providers.Transaction) bool { return payment.Reference == refund.Payment })
	})
	s.expectRefunds(t, refunds)
	s.expectLedger(t, payments, refunds, ledger)
}

func (s story) expectPayments(t *testing.T, payments []providers.Transaction) {
	t.Helper()
	if s.silent && len(payments) == 0 {
		return
	}
	var taken []int64
	told := false
	for _, payment := range payments {
		told = told || payment.Status == s.status
		if payment.Status == providers.Succeeded {
			taken = append(taken, payment.Money.Amount)
		}
		s.expectPayment(t, payment)
	}
	if !told || !slices.Equal(taken, s.taken) {
		t.Errorf("want %s, taken %v: %+v", s.status, s.taken, payments)
	}
}

// expectPayment: it has our key, and the money that was asked for, or a fee on what was taken.
func (s story) expectPayment(t *testing.T, payment providers.Transaction) {
	t.Helper()
	if payment.Key != s.key("charge") && payment.Key != s.key("capture") || payment.Money.Currency != "USD" {
		t.Errorf("not ours: %+v", payment)
	}
	switch {
	case payment.Status != providers.Succeeded && payment.Money.Amount != price:
		t.Errorf("amount: %+v", payment)
	case payment.Status == providers.Succeeded && (payment.Fee <= 0 || payment.FeeCurrency != "USD"):
		t.Errorf("fee: %+v", payment)
	case payment.Refunded > payment.Money.Amount:
		t.Errorf("given back: %+v", payment)
	}
}

func (s story) expectRefunds(t *testing.T, refunds []providers.Transaction) {
	t.Helper()
	slices.SortFunc(refunds, func(a, b providers.Transaction) int { return a.At.Compare(b.At) })
	if len(refunds) != len(s.returns) {
		t.Fatalf("want %v given back: %+v", s.returns, refunds)
	}
	for i, refund := range refunds {
		ours := refund.Key == s.key("refund"+[]string{"", "_2", "_3"}[i])
		if refund.Status != providers.Succeeded || refund.Money != dollars(s.returns[i]) || ours != (i < s.own) || refund.Refunded != 0 {
			t.Errorf("refund %d: %+v", i, refund)
		}
	}
}

// expectLedger: money that was taken and given back is the same as in the ledger; and where the list tells of a payment how much of it
// was given back, that is the sum of its refunds.
func (s story) expectLedger(t *testing.T, payments, refunds []providers.Transaction, ledger []sandbox.Charge) {
	t.Helper()
	var taken, returned, told, booked, back int64
	tells := true
	for _, payment := range payments {
		if payment.Status == providers.Succeeded {
			taken += payment.Money.Amount
			tells = tells && payment.Refunded >= 0
			told += payment.Refunded
		}
	}
	for _, refund := range refunds {
		returned += refund.Money.Amount
	}
	for _, charge := range ledger {
		if charge.Reference == s.sagaKey {
			booked, back = booked+charge.Captured, back+charge.Refunded
		}
	}
	if taken != booked || returned != back || tells && told != returned {
		t.Errorf("listed %d taken, %d given back (%d by the payments); in the ledger %d and %d", taken, returned, told, booked, back)
	}
}
