package sandbox

import (
	"slices"
	"strings"
	"time"
)

// expansion says which ids are to be answered as whole objects: "latest_charge", "latest_charge.refunds".
type expansion []string

func (e expansion) has(name string) bool {
	return slices.ContainsFunc(e, func(each string) bool { return each == name || strings.HasPrefix(each, name+".") })
}

// inside is what to expand in the object called name.
func (e expansion) inside(name string) expansion {
	var inner expansion
	for _, each := range e {
		if rest, nested := strings.CutPrefix(each, name+"."); nested {
			inner = append(inner, rest)
		}
	}
	return inner
}

// expandable lists what each object can expand, with the kind of object found there.
var expandable = map[string]map[string]string{
	objectPaymentIntent: {"latest_charge": objectCharge, objectPaymentMethod: objectPaymentMethod},
	objectCharge: {
		objectPaymentIntent: objectPaymentIntent, "refunds": "refund_list", objectBalanceTransaction: objectBalanceTransaction,
	},
	objectRefund:        {objectCharge: objectCharge, objectPaymentIntent: objectPaymentIntent},
	objectPaymentMethod: {}, objectBalanceTransaction: {},
	"refund_list": {"data": objectRefund},
}

// maxExpansionDepth is Stripe's limit on nested expansions.
const maxExpansionDepth = 4

// readExpansion checks the expand parameter for an object of a kind; lists expand inside their data.
func readExpansion(paths []string, kind string, list bool) (expansion, *stripeError) {
	wanted := make(expansion, 0, len(paths))
	for _, path := range paths {
		steps := strings.Split(path, ".")
		if len(steps) > maxExpansionDepth {
			return nil, invalid("", "expand", "You cannot expand more than %d levels of a property. Property: %s", maxExpansionDepth, path)
		}
		inner := path
		if list {
			if steps[0] != "data" {
				return nil, invalid("", "expand", "This property cannot be expanded (%s). You may want to try expanding 'data.%s' instead.",
					path, path)
			}
			steps, inner = steps[1:], strings.TrimPrefix(path, "data.")
		}
		at, known := kind, len(steps) > 0
		for _, step := range steps {
			if at, known = expandable[at][step]; !known {
				return nil, invalid("", "expand", "This property cannot be expanded (%s).", path)
			}
		}
		if known {
			wanted = append(wanted, inner)
		}
	}
	return wanted, nil
}

func (p *stripePayment) object(expand expansion) *paymentIntentObject {
	object := &paymentIntentObject{
		ID: p.id, Object: objectPaymentIntent, Amount: p.amount, AmountCapturable: p.capturable, AmountReceived: p.received,
		AutomaticPaymentMethods: p.automatic, CancellationReason: orNull(p.cancellationReason), CaptureMethod: p.captureMethod,
		ClientSecret: p.clientSecret, ConfirmationMethod: p.confirmationMethod, Created: p.created.Unix(), Currency: p.currency,
		Customer: orNull(p.customer), Description: orNull(p.description), LastPaymentError: p.lastError, Metadata: p.metadata.shown(),
		NextAction: p.next, PaymentMethodTypes: p.methodTypes, ReceiptEmail: orNull(p.receiptEmail),
		SetupFutureUsage: orNull(p.setupFutureUsage), StatementDescriptor: orNull(p.descriptor),
		StatementDescriptorSuffix: orNull(p.descriptorSuffix), Status: p.status,
	}
	if !p.canceledAt.IsZero() {
		object.CanceledAt = unix(p.canceledAt)
	}
	if p.method != nil {
		object.PaymentMethod = p.method.id
		if expand.has(objectPaymentMethod) {
			object.PaymentMethod = p.method.object()
		}
	}
	if charge := p.latestCharge(); charge != nil {
		object.LatestCharge = charge.id
		if expand.has("latest_charge") {
			object.LatestCharge = charge.object(expand.inside("latest_charge"))
		}
	}
	return object
}

func unix(at time.Time) *int64 {
	seconds := at.Unix()
	return &seconds
}

func (c *stripeCharge) object(expand expansion) *chargeObject {
	payment := c.payment
	object := &chargeObject{
		ID: c.id, Object: objectCharge, Amount: c.amount, AmountCaptured: c.captured, AmountRefunded: c.refunded,
		Captured: c.captured > 0, Created: c.created.Unix(), Currency: payment.currency, Customer: orNull(payment.customer),
		Disputed: c.dispute != nil, Description: orNull(payment.description), Metadata: payment.metadata.shown(),
		Paid:          c.status == statusSucceeded,
		PaymentIntent: payment.id,
		PaymentMethod: c.method.id, PaymentMethodDetails: c.method.chargeDetails(), ReceiptEmail: orNull(payment.receiptEmail),
		Refunded: c.refunded > 0 && c.refunded >= c.amount, StatementDescriptor: orNull(payment.descriptor),
		StatementDescriptorSuffix: orNull(payment.descriptorSuffix), Status: c.status,
		Outcome: &outcomeObject{
			NetworkStatus: "approved_by_network", RiskLevel: "normal", RiskScore: 20, SellerMessage: "Payment complete.", Type: "authorized",
		},
	}
	if c.captured > 0 {
		object.BalanceTransaction = c.balanceID()
		if expand.has(objectBalanceTransaction) {
			object.BalanceTransaction = c.balanceTransaction()
		}
	}
	if c.failure != nil {
		reason := c.failure.DeclineCode
		if reason == "" {
			reason = c.failure.Code
		}
		object.FailureCode, object.FailureMessage = orNull(c.failure.Code), orNull(c.failure.Message)
		object.Outcome = &outcomeObject{
			NetworkStatus: "declined_by_network", Reason: orNull(reason), RiskLevel: "normal", RiskScore: 20,
			SellerMessage: "The bank returned the decline code `" + reason + "`.", Type: "issuer_declined",
		}
	}
	if expand.has(objectPaymentIntent) {
		object.PaymentIntent = payment.object(expand.inside(objectPaymentIntent))
	}
	if expand.has("refunds") {
		object.Refunds = &listObject{Object: "list", Data: []any{}, URL: "/v1/charges/" + c.id + "/refunds"}
		for _, refund := range slices.Backward(c.refunds) {
			if len(object.Refunds.Data) == defaultPageSize {
				object.Refunds.HasMore = true
				break
			}
			object.Refunds.Data = append(object.Refunds.Data, refund.object(expand.inside("refunds.data")))
		}
	}
	return object
}

func (r *stripeRefund) object(expand expansion) *refundObject {
	object := &refundObject{
		ID: r.id, Object: objectRefund, Amount: r.amount, BalanceTransaction: orNull(r.balanceID()), Charge: r.charge.id,
		Created: r.created.Unix(), Currency: r.charge.payment.currency, FailureReason: r.failure, Metadata: r.metadata.shown(),
		PaymentIntent: r.charge.payment.id, Reason: orNull(r.reason), Status: r.status,
		DestinationDetails: map[string]any{fieldType: r.charge.method.kind},
	}
	if r.charge.method.kind == typeCard {
		object.DestinationDetails = tagged(typeCard, map[string]any{"type": objectRefund})
	}
	if expand.has(objectCharge) {
		object.Charge = r.charge.object(expand.inside(objectCharge))
	}
	if expand.has(objectPaymentIntent) {
		object.PaymentIntent = r.charge.payment.object(expand.inside(objectPaymentIntent))
	}
	return object
}
