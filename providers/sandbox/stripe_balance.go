package sandbox

import "time"

const objectBalanceTransaction = "balance_transaction"

// balanceAvailableAfter is when booked money can be paid out: Stripe's own depends on country and account.
const balanceAvailableAfter = 2 * 24 * time.Hour

// balanceTransactionObject is one booking on the account's balance. There is one balance in each currency, so nothing is converted.
type balanceTransactionObject struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Amount            int64       `json:"amount"`
	AvailableOn       int64       `json:"available_on"`
	Created           int64       `json:"created"`
	Currency          string      `json:"currency"`
	Description       *string     `json:"description"`
	ExchangeRate      *float64    `json:"exchange_rate"`
	Fee               int64       `json:"fee"`
	FeeDetails        []feeDetail `json:"fee_details"`
	Net               int64       `json:"net"`
	ReportingCategory string      `json:"reporting_category"`
	Source            string      `json:"source"`
	Status            string      `json:"status"`
	Type              string      `json:"type"`
}

type feeDetail struct {
	Amount      int64   `json:"amount"`
	Application *string `json:"application"`
	Currency    string  `json:"currency"`
	Description string  `json:"description"`
	Type        string  `json:"type"`
}

func (c *stripeCharge) balanceID() string { return "txn_" + c.id[len("ch_"):] }

func (r *stripeRefund) balanceID() string { return "txn_" + r.id[len("re_"):] }

// fee is what Stripe keeps: an amount that the currency has.
func (c *stripeCharge) fee() int64 {
	fee := stripeFees.of(c.captured)
	return fee - fee%stripeCurrencies[c.payment.currency].multipleOf
}

func (c *stripeCharge) balanceTransaction() *balanceTransactionObject {
	fee := c.fee()
	return &balanceTransactionObject{
		ID: c.balanceID(), Object: objectBalanceTransaction, Amount: c.captured, AvailableOn: c.booked.Add(balanceAvailableAfter).Unix(),
		Created: c.booked.Unix(), Currency: c.payment.currency, Description: orNull(c.payment.description), Fee: fee,
		FeeDetails: []feeDetail{{Amount: fee, Currency: c.payment.currency, Description: "Stripe processing fees", Type: "stripe_fee"}},
		Net:        c.captured - fee, ReportingCategory: objectCharge, Source: c.id, Status: "available", Type: objectCharge,
	}
}
