package stripe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

func TestOutcomeOfEveryPaymentStatus(t *testing.T) {
	t.Parallel()
	euros := providers.Money{Amount: 3998, Currency: "EUR"}
	payment := func(status sdk.PaymentIntentStatus, change func(*sdk.PaymentIntent)) *sdk.PaymentIntent {
		made := &sdk.PaymentIntent{ID: "pi_1", Object: "payment_intent", Amount: 3998, Currency: "eur", Status: status, ClientSecret: "pi_1_secret_2"}
		if status == sdk.PaymentIntentStatusSucceeded {
			made.AmountReceived = 3998
		}
		if change != nil {
			change(made)
		}
		return made
	}
	failedBy := func(code sdk.ErrorCode, bank sdk.DeclineCode) func(*sdk.PaymentIntent) {
		return func(p *sdk.PaymentIntent) { p.LastPaymentError = &sdk.Error{Code: code, DeclineCode: bank} }
	}
	declinedAs := func(code, bank string, hard bool) providers.Outcome {
		return providers.Outcome{
			Kind: providers.Declined, Reference: "pi_1", Code: code, Money: euros,
			Decline: &providers.Decline{Code: code, Bank: bank, Hard: hard},
		}
	}
	tests := []struct {
		name    string
		payment *sdk.PaymentIntent
		want    providers.Outcome
	}{
		{"taken", payment(sdk.PaymentIntentStatusSucceeded, nil), providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: euros}},
		{
			"taken in part",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.AmountReceived = 1000 }),
			providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: providers.Money{Amount: 1000, Currency: "EUR"}},
		},
		{
			"taken, charge not expanded",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.LatestCharge = &sdk.Charge{ID: "ch_1"} }),
			providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: euros},
		},
		{
			"refunded",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) {
				p.LatestCharge = &sdk.Charge{ID: "ch_1", Refunded: true, AmountRefunded: 3998}
			}),
			providers.Outcome{Kind: providers.Canceled, Reference: "pi_1", Code: "refunded", Money: euros},
		},
		{
			"refund on its way",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) {
				p.LatestCharge = &sdk.Charge{
					ID: "ch_1", Refunded: true, AmountRefunded: 3998,
					Refunds: &sdk.RefundList{Data: []*sdk.Refund{nil, {ID: "re_1", Status: "succeeded"}, {ID: "re_2", Status: "pending"}}},
				}
			}),
			providers.Outcome{Kind: providers.Processing, Reference: "pi_1", Code: "refund_pending", Money: euros},
		},
		{
			"refunded in two parts",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) {
				p.LatestCharge = &sdk.Charge{
					ID: "ch_1", Refunded: true, AmountRefunded: 3998,
					Refunds: &sdk.RefundList{Data: []*sdk.Refund{{ID: "re_1", Status: "succeeded"}, {ID: "re_2", Status: "succeeded"}}},
				}
			}),
			providers.Outcome{Kind: providers.Canceled, Reference: "pi_1", Code: "refunded", Money: euros},
		},
		{
			"refunded in part",
			payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.LatestCharge = &sdk.Charge{ID: "ch_1", AmountRefunded: 1} }),
			providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Code: "partially_refunded", Money: euros},
		},
		{"held", payment(sdk.PaymentIntentStatusRequiresCapture, nil), providers.Outcome{Kind: providers.Authorized, Reference: "pi_1", Money: euros}},
		{
			"held, a part taken", payment(sdk.PaymentIntentStatusRequiresCapture, func(p *sdk.PaymentIntent) { p.AmountReceived = 1000 }),
			providers.Outcome{Kind: providers.Authorized, Reference: "pi_1", Code: "partially_captured", Money: euros},
		},
		{
			"a part taken, the rest let go",
			payment(sdk.PaymentIntentStatusCanceled, func(p *sdk.PaymentIntent) { p.AmountReceived, p.CancellationReason = 1000, "automatic" }),
			providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: providers.Money{Amount: 1000, Currency: "EUR"}},
		},
		{
			"expired",
			payment(sdk.PaymentIntentStatusCanceled, func(p *sdk.PaymentIntent) { p.CancellationReason = "automatic" }),
			providers.Outcome{Kind: providers.Canceled, Reference: "pi_1", Code: "authorization_expired", Money: euros},
		},
		{
			"action in Stripe's library", payment(sdk.PaymentIntentStatusRequiresAction, nil),
			providers.Outcome{
				Kind: providers.ActionRequired, Reference: "pi_1", Money: euros,
				NextAction: &providers.NextAction{Type: "client_secret", ClientSecret: "pi_1_secret_2"},
			},
		},
		{
			"action on a page",
			payment(sdk.PaymentIntentStatusRequiresAction, func(p *sdk.PaymentIntent) {
				p.NextAction = &sdk.PaymentIntentNextAction{RedirectToURL: &sdk.PaymentIntentNextActionRedirectToURL{URL: "https://hooks.stripe.com/3ds"}}
			}),
			providers.Outcome{
				Kind: providers.ActionRequired, Reference: "pi_1", Money: euros,
				NextAction: &providers.NextAction{Type: "redirect", URL: "https://hooks.stripe.com/3ds"},
			},
		},
		{
			"action on no page",
			payment(sdk.PaymentIntentStatusRequiresAction, func(p *sdk.PaymentIntent) {
				p.NextAction = &sdk.PaymentIntentNextAction{RedirectToURL: &sdk.PaymentIntentNextActionRedirectToURL{URL: "javascript:alert(1)"}}
			}),
			providers.Outcome{
				Kind: providers.ActionRequired, Reference: "pi_1", Money: euros,
				NextAction: &providers.NextAction{Type: "client_secret", ClientSecret: "pi_1_secret_2"},
			},
		},
		{
			"action without a way to act",
			payment(sdk.PaymentIntentStatusRequiresAction, func(p *sdk.PaymentIntent) { p.ClientSecret = "" }),
			providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "next_action_missing", Money: euros},
		},
		{"processing", payment(sdk.PaymentIntentStatusProcessing, nil), providers.Outcome{Kind: providers.Processing, Reference: "pi_1", Money: euros}},
		{
			"never confirmed", payment(sdk.PaymentIntentStatusRequiresConfirmation, nil),
			providers.Outcome{Kind: providers.Processing, Reference: "pi_1", Code: "requires_confirmation", Money: euros},
		},
		{
			"declined", payment(sdk.PaymentIntentStatusRequiresPaymentMethod, failedBy("card_declined", "insufficient_funds")),
			declinedAs("card_declined", "insufficient_funds", false),
		},
		{
			"declined for good", payment(sdk.PaymentIntentStatusRequiresPaymentMethod, failedBy("card_declined", "stolen_card")),
			declinedAs("card_declined", "stolen_card", true),
		},
		{
			"authentication failed", payment(sdk.PaymentIntentStatusRequiresPaymentMethod, failedBy("payment_intent_authentication_failure", "")),
			declinedAs("payment_intent_authentication_failure", "", false),
		},
		{"no reason", payment(sdk.PaymentIntentStatusRequiresPaymentMethod, nil), declinedAs("requires_payment_method", "", false)},
		{
			"a reason that is none", payment(sdk.PaymentIntentStatusRequiresPaymentMethod, failedBy("Jane Doe, 4242", "x y")),
			declinedAs("unrecognized", "unrecognized", false),
		},
		{
			"canceled",
			payment(sdk.PaymentIntentStatusCanceled, func(p *sdk.PaymentIntent) { p.CancellationReason = "abandoned" }),
			providers.Outcome{Kind: providers.Canceled, Reference: "pi_1", Code: "abandoned", Money: euros},
		},
		{
			"a status of tomorrow", payment("requires_prayer", nil),
			providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "status_unrecognized", Money: euros},
		},
		{"no status", payment("", nil), providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "status_unrecognized", Money: euros}},
		{
			"no id", payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.ID = "" }),
			providers.Outcome{Kind: providers.Unknown, Code: "other_object"},
		},
		{"nothing", nil, providers.Outcome{Kind: providers.Unknown, Code: "other_object"}},
		{
			"another object", payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.Object = "setup_intent" }),
			providers.Outcome{Kind: providers.Unknown, Code: "other_object"},
		},
		{
			"no currency", payment(sdk.PaymentIntentStatusSucceeded, func(p *sdk.PaymentIntent) { p.Currency = "" }),
			providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "amount_unreadable"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, outcomeOfPayment(test.payment)); difference != "" {
				t.Error(difference)
			}
		})
	}
}

func TestHardDeclines(t *testing.T) {
	t.Parallel()
	hard := map[sdk.DeclineCode]bool{
		"stolen_card": true, "lost_card": true, "pickup_card": true, "fraudulent": true, "do_not_try_again": true,
		"issuer_not_available": false, "try_again_later": false, "processing_error": false, "reenter_transaction": false,
		"insufficient_funds": false, "generic_decline": false, "expired_card": false, "": false,
	}
	for code, want := range hard {
		if got := declined(&sdk.Error{Code: "card_declined", DeclineCode: code}).Decline.Hard; got != want {
			t.Errorf("%q: hard %t, want %t", code, got, want)
		}
	}
}

func TestOutcomeOfEveryRefundStatus(t *testing.T) {
	t.Parallel()
	euros := providers.Money{Amount: 1000, Currency: "EUR"}
	tests := []struct {
		name   string
		refund *sdk.Refund
		want   providers.Outcome
	}{
		{
			"succeeded", &sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: sdk.RefundStatusSucceeded},
			providers.Outcome{Kind: providers.Succeeded, Reference: "re_1", Money: euros},
		},
		{
			"pending", &sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: sdk.RefundStatusPending},
			providers.Outcome{Kind: providers.Processing, Reference: "re_1", Code: "pending", Money: euros},
		},
		{
			"requires action", &sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: sdk.RefundStatusRequiresAction},
			providers.Outcome{Kind: providers.Processing, Reference: "re_1", Code: "requires_action", Money: euros},
		},
		{
			"failed",
			&sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: sdk.RefundStatusFailed, FailureReason: "lost_or_stolen_card"},
			providers.Outcome{
				Kind: providers.Declined, Reference: "re_1", Code: "refund_failed", Money: euros,
				Decline: &providers.Decline{Code: "refund_failed", Bank: "lost_or_stolen_card", Hard: true},
			},
		},
		{
			"canceled", &sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: sdk.RefundStatusCanceled},
			providers.Outcome{Kind: providers.Canceled, Reference: "re_1", Money: euros},
		},
		{
			"a status of tomorrow", &sdk.Refund{ID: "re_1", Object: "refund", Amount: 1000, Currency: "eur", Status: "floating"},
			providers.Outcome{Kind: providers.Unknown, Reference: "re_1", Code: "status_unrecognized", Money: euros},
		},
		{"no id", &sdk.Refund{Object: "refund", Amount: 1000, Currency: "eur", Status: "succeeded"}, providers.Outcome{Kind: providers.Unknown, Code: "other_object"}},
		{
			"no currency", &sdk.Refund{ID: "re_1", Object: "refund", Status: "succeeded"},
			providers.Outcome{Kind: providers.Unknown, Reference: "re_1", Code: "amount_unreadable"},
		},
		{"nothing", nil, providers.Outcome{Kind: providers.Unknown, Code: "other_object"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, outcomeOfRefund(test.refund)); difference != "" {
				t.Error(difference)
			}
		})
	}
}
