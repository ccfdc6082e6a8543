package statement

import (
	"math/big"

	"paysaga/providers"
)

// pairWindow is how many bookings apart a payment and the conversion of its money may stand to be taken together. PayPal books them at the
// same moment; what stands further apart stays as it is told, three lines.
const pairWindow = 1000

// pairing brings a booking in another currency together with the two conversions that PayPal books for it: the refund of 50 dollars, 46
// euros out of the balance and 50 dollars into it are one refund, of 46 euros. The bookings may stand in any order.
type pairing struct {
	queue       []*booking
	oldest      int // in the queue
	payments    map[string]*booking
	conversions map[string][]*booking // by the transaction that they are for
}

type booking struct {
	line Line
	done bool // taken together with another one
}

func newPairing() pairing {
	return pairing{payments: make(map[string]*booking), conversions: make(map[string][]*booking)}
}

// add takes a booking, and hands out the oldest one where there is no more room.
func (p *pairing) add(line Line, emit func(Line)) {
	added := &booking{line: line}
	switch {
	case line.Kind == LineExchange && line.Payment != "":
		p.conversions[line.Payment] = append(p.conversions[line.Payment], added)
	case line.Reference != "" && (line.Kind == LineCharge || line.Kind == LineRefund || line.Kind == LineChargeback):
		p.payments[line.Reference] = added
	}
	p.queue = append(p.queue, added)
	if len(p.queue)-p.oldest > pairWindow {
		p.release(emit)
	}
}

func (p *pairing) flush(emit func(Line)) {
	for p.oldest < len(p.queue) {
		p.release(emit)
	}
}

// release hands out the oldest booking, together with what belongs to it.
func (p *pairing) release(emit func(Line)) {
	oldest := p.queue[p.oldest]
	p.queue[p.oldest] = nil
	p.oldest++
	if p.oldest > pairWindow {
		p.queue = append(p.queue[:0], p.queue[p.oldest:]...)
		p.oldest = 0
	}
	if oldest.line.Kind == LineExchange {
		if payment, ok := p.payments[oldest.line.Payment]; ok && !oldest.done {
			p.join(payment)
		}
		p.forget(oldest)
	} else {
		p.join(oldest)
		if p.payments[oldest.line.Reference] == oldest {
			delete(p.payments, oldest.line.Reference)
		}
	}
	if !oldest.done {
		emit(oldest.line)
	}
}

func (p *pairing) forget(conversion *booking) {
	key := conversion.line.Payment
	kept := p.conversions[key][:0]
	for _, other := range p.conversions[key] {
		if other != conversion {
			kept = append(kept, other)
		}
	}
	if len(kept) == 0 {
		delete(p.conversions, key)
		return
	}
	p.conversions[key] = kept
}

// join makes a payment and its two conversions one line in the currency of the balance: where one of them takes away, in the payment's
// currency, exactly what the payment has brought (or the other way round), and the other one brings the same in another currency.
func (p *pairing) join(payment *booking) {
	converted := p.conversions[payment.line.Reference]
	if payment.line.Reference == "" || len(converted) != 2 || converted[0].done || converted[1].done {
		return
	}
	line, away, instead := &payment.line, converted[0], converted[1]
	if away.line.Currency != line.Currency {
		away, instead = instead, away
	}
	if !converts(line, &away.line, &instead.line) {
		return
	}
	away.done, instead.done = true, true
	line.Original = providers.Money{Amount: max(line.Gross, -line.Gross), Currency: line.Currency}
	line.Fee = proportion(line.Fee, instead.line.Net, line.Net)
	line.Net, line.Currency = instead.line.Net, instead.line.Currency
	line.Gross = line.Net + line.Fee
}

func converts(line, away, instead *Line) bool {
	return away.Currency == line.Currency && away.Net == -line.Net && away.Fee == 0 &&
		instead.Currency != line.Currency && instead.Fee == 0 &&
		(instead.Net > 0 && line.Net > 0 || instead.Net < 0 && line.Net < 0)
}

// proportion is amount × times ÷ per, rounded to the nearest: a fee at the rate of the conversion.
func proportion(amount, times, per int64) int64 {
	if amount == 0 {
		return 0
	}
	product := new(big.Int).Mul(big.NewInt(amount), big.NewInt(times))
	half := new(big.Int).Quo(big.NewInt(per), big.NewInt(2))
	if (product.Sign() < 0) != (half.Sign() < 0) {
		half.Neg(half)
	}
	quotient := new(big.Int).Quo(product.Add(product, half), big.NewInt(per))
	if !quotient.IsInt64() {
		return 0
	}
	return quotient.Int64()
}
