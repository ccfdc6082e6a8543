package saga_test

import (
	"testing"

	"paysaga/providers"
	"paysaga/saga"
)

// A saga stands where it stood while it only looks, and elsewhere once something about it has come to an end.
func TestStanding(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := claimOf("order")
	b.bank.on(saga.CallCharge, asksTheCustomer())
	b.start(order, cups())
	stands := func() string {
		text, err := b.repairs().Standing(b.ctx, refOf(order))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := stands()
	if err := b.repairs().Retry(b.ctx, refOf(order), "a look"); err != nil {
		t.Fatal(err)
	}
	if after := stands(); after != before {
		t.Errorf("after a look it stands at %q, not at %q", after, before)
	}
	b.bank.set(chargeKey(order), paid)
	if err := b.repairs().Notify(b.ctx, refOf(order), looked("pay_1", providers.Succeeded, "")); err != nil {
		t.Fatal(err)
	}
	if after := stands(); after == before {
		t.Errorf("it is paid, and stands at %q", after)
	}
}
