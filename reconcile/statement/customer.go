package statement

import "paysaga/providers"

// Customer is what the customer paid or got back by a line, in the currency in which he did; ours is the currency of what was asked for. A
// charge can be negative: what was authorized and not captured, after a charge over all of it.
//
// ok is false where the line does not tell: Stripe's gross is what comes to the account, in the account's currency. What a customer paid
// in another one is in customer_facing_amount and customer_facing_currency, columns that a report need not have.
func (l Line) Customer(provider, ours string) (money providers.Money, ok bool) {
	if l.Original == (providers.Money{}) && provider == stripe && l.Currency != ours {
		return providers.Money{}, false
	}
	money = providers.Money{Amount: max(l.Gross, -l.Gross), Currency: l.Currency}
	if l.Original != (providers.Money{}) {
		money = l.Original
	}
	if l.Kind == LineCharge && l.Gross < 0 {
		money.Amount = -money.Amount
	}
	return money, true
}

// Names tells that a line names what it books: a refund of which a report tells neither Stripe's id (source_id) nor our key cannot be told
// from another one of the same payment.
func (l Line) Names() bool { return l.Kind != LineRefund || l.Reference != "" || l.Key != "" }
