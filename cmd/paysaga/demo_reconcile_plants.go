package main

import (
	"fmt"
	"net/http"
	"slices"

	"paysaga/api"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
)

// duplicateLimit is up to which the demo lets a second payment be given back without a person: one T-shirt's is below, that of two above.
const duplicateLimit = "25"

// Where something is planted.
const (
	atProvider = "at the providers"
	inDatabase = "in the database"
	inFile     = "in settlement files"
	onTheWay   = "on the way"
)

// outcome is what comes of a finding.
type outcome string

const (
	isMended outcome = "repaired"  // by rule
	isHalted outcome = "in review" // its saga waits for a person
	isTold   outcome = "told"      // people read it; nothing is held up
)

// planting is one thing that goes wrong, and what reconciliation is to make of it.
type planting struct {
	Provider string  `json:"provider"`
	What     string  `json:"planted"`
	Where    string  `json:"at"`
	order    ordered // what the shop takes by day; of what belongs to no order, none
	happens  happens
	want     want
	back     int64 // that the repair is to give back, in minor units
}

// happens is what goes wrong, and when.
type happens struct {
	day   act // after the order
	night act
	file  func(content []byte) ([]byte, error) // changes the provider's settlement file
}

// want is as what a thing is to be found, and what is to come of it.
type want struct {
	kind     reconcile.Kind
	severity reconcile.Severity
	repair   reconcile.Repair
	outcome  outcome
}

// ordered is an order, and how it is answered.
type ordered struct {
	request func(p testProvider) api.OrderRequest
	status  int
	word    string
}

const (
	atStripe = "stripe"
	atAdyen  = "adyen"
	atPayPal = "paypal"
)

// The orders to which something happens.
var (
	nobodys  = ordered{}
	paid     = ordered{paidShirts(2), http.StatusCreated, "confirmed"}
	paidOne  = ordered{paidShirts(1), http.StatusCreated, "confirmed"}
	paidMuch = ordered{paidShirts(60), http.StatusCreated, "confirmed"}
	refused  = ordered{refusedShirts, http.StatusPaymentRequired, "payment-declined"}
	held     = ordered{heldShirts, http.StatusCreated, "confirmed"}
	waits    = ordered{waitingShirts, http.StatusAccepted, "awaiting"}
	// unanswered is an order whose answer nobody gets, as the server is killed.
	unanswered = ordered{request: paidShirts(2)}
)

func paidShirts(quantity int64) func(p testProvider) api.OrderRequest {
	return func(p testProvider) api.OrderRequest { return shirts(quantity, p.pay(p.good)) }
}

func refusedShirts(p testProvider) api.OrderRequest { return shirts(2, p.pay(p.declined)) }

func heldShirts(p testProvider) api.OrderRequest {
	order := shirts(2, p.pay(p.good))
	order.Payment.Capture = api.CaptureModeManual
	return order
}

// waitingShirts waits for its customer.
func waitingShirts(p testProvider) api.OrderRequest {
	order := shirts(2, p.pay(p.customer))
	order.Payment.ReturnURL = shopPage
	return order
}

// What is to be found, and to come of it.
var (
	wantStranger  = want{reconcile.MissingLocally, reconcile.High, reconcile.RepairNone, isTold}
	wantForgotten = want{reconcile.MissingLocally, reconcile.Critical, reconcile.RepairNone, isTold}
	wantRecorded  = want{reconcile.RefundedAtProvider, reconcile.High, reconcile.RepairRecordRefund, isMended}
	wantAmount    = want{reconcile.AmountMismatch, reconcile.Critical, reconcile.RepairReview, isHalted}
	wantCurrency  = want{reconcile.CurrencyMismatch, reconcile.Critical, reconcile.RepairReview, isHalted}
	wantTwice     = want{reconcile.DuplicateCharge, reconcile.Critical, reconcile.RepairRefundDuplicate, isMended}
	wantTwiceMuch = want{reconcile.DuplicateCharge, reconcile.Critical, reconcile.RepairRefundDuplicate, isHalted}
	wantGone      = want{reconcile.PaymentMissing, reconcile.Critical, reconcile.RepairReview, isHalted}
	wantNoRefund  = want{reconcile.RefundMissing, reconcile.Critical, reconcile.RepairReview, isHalted}
	wantLetGo     = want{reconcile.AuthorizationExpired, reconcile.High, reconcile.RepairLetGo, isMended}
	wantComplete  = want{reconcile.StatusMismatch, reconcile.Critical, reconcile.RepairComplete, isMended}
	wantResumed   = want{reconcile.StatusMismatch, reconcile.Low, reconcile.RepairResume, isMended}
	wantUndone    = want{reconcile.StatusMismatch, reconcile.Critical, reconcile.RepairUndo, isMended}
	wantTooMuch   = want{reconcile.StatusMismatch, reconcile.Critical, reconcile.RepairUndo, isTold}
	wantEnded     = want{reconcile.SagaWithoutEnd, reconcile.High, reconcile.RepairResume, isMended}
	wantReleased  = want{reconcile.OrphanReservation, reconcile.High, reconcile.RepairRelease, isMended}
	wantApplied   = want{reconcile.WebhookNotApplied, reconcile.High, reconcile.RepairApplyWebhook, isMended}
	wantDispute   = want{reconcile.Chargeback, reconcile.High, reconcile.RepairNone, isTold}
	wantFee       = want{reconcile.FeeMismatch, reconcile.High, reconcile.RepairNone, isTold}
	wantNet       = want{reconcile.NetMismatch, reconcile.High, reconcile.RepairNone, isTold}
	wantUnread    = want{reconcile.StatementMismatch, reconcile.High, reconcile.RepairNone, isTold}
)

// plantings are all that goes wrong.
var plantings = []planting{
	{atStripe, "a payment made by hand", atProvider, nobodys, strange("phone-order-17", 4500), wantStranger, 0},
	{atAdyen, "a payment made by hand", atProvider, nobodys, strange("phone-order-18", 4500), wantStranger, 0},
	{atStripe, "5.00 given back by hand", atProvider, paid, diverges("refund_in_dashboard", 500), wantRecorded, 0},
	{atAdyen, "5.00 given back by hand", atProvider, paid, diverges("refund_in_dashboard", 500), wantRecorded, 0},
	{atPayPal, "all of it given back by hand", atProvider, paid, diverges("refund_in_dashboard", 0), wantRecorded, 0},
	{atStripe, "taken over 29.98, not 39.98", atProvider, paid, diverges("amount_changed", 2998), wantAmount, 0},
	{atPayPal, "taken over 49.98, not 39.98", atProvider, paid, diverges("amount_changed", 4998), wantAmount, 0},
	{atStripe, "taken in dollars, not euros", atProvider, paid, inCurrency("USD"), wantCurrency, 0},
	{atStripe, "taken twice, 19.99 each", atProvider, paidOne, diverges("duplicate", 0), wantTwice, shirtPrice},
	{atPayPal, "taken twice, 39.98 each: above the limit", atProvider, paid, diverges("duplicate", 0), wantTwiceMuch, 0},
	{atStripe, "the payment is gone", atProvider, paid, diverges("payment_lost", 0), wantGone, 0},
	{atPayPal, "the payment is gone", atProvider, paid, diverges("payment_lost", 0), wantGone, 0},
	{atStripe, "the shop's refund is gone", atProvider, paid, losesRefund, wantNoRefund, 0},
	{atStripe, "held money let go by hand", atProvider, held, diverges("voided_in_dashboard", 0), wantLetGo, 0},
	{atPayPal, "held money's time ran out", atProvider, held, diverges("authorization_expired", 0), wantLetGo, 0},
	{atPayPal, "held money taken by hand", atProvider, held, diverges("captured_in_dashboard", 0), wantComplete, 0},

	{atStripe, "the customer paid, nobody was told", onTheWay, waits, customer("approve"), wantComplete, 0},
	{atAdyen, "the customer paid, nobody was told", onTheWay, waits, customer("approve"), wantComplete, 0},
	{atStripe, "the customer refused, nobody was told", onTheWay, waits, customer("refuse"), wantResumed, 0},
	{atPayPal, "the answer died with the server", onTheWay, unanswered, happens{}, wantComplete, 0},

	{atAdyen, "an event was given up", inDatabase, paid, inTables((*mischief).ParkEvent), wantApplied, 0},
	{atPayPal, "the order is gone, as in an older backup", inDatabase, paid, inTables((*mischief).Forget), wantForgotten, 0},
	{atStripe, "stands as declined, and is paid", inDatabase, paid, inTables((*mischief).GiveUp), wantUndone, 2 * shirtPrice},
	{atPayPal, "stands as declined, and is paid", inDatabase, paid, inTables((*mischief).GiveUp), wantUndone, 2 * shirtPrice},
	{atStripe, "the same with 1,199.40: above the limit", inDatabase, paidMuch, inTables((*mischief).GiveUp), wantTooMuch, 0},
	{atPayPal, "left between payment and end", inDatabase, paid, inTables((*mischief).Unconfirm), wantEnded, 0},
	{atAdyen, "stock held for a declined order", inDatabase, refused, inTables((*mischief).HoldStock), wantReleased, 0},

	{atAdyen, "the bank took the money back", inFile, paid, diverges("chargeback", 0), wantDispute, 0},
	{atStripe, "another fee than was told", inFile, paid, diverges("fee_changed", 0), wantFee, 0},
	{atAdyen, "a net that is not gross less fee", inFile, paid, diverges("net_changed", 0), wantNet, 0},
	{atAdyen, "and a file that does not add up with it", inFile, nobodys, happens{}, wantUnread, 0},
	{atAdyen, "settled over 29.98, not 39.98", inFile, paid, diverges("settled_amount_changed", 2998), wantAmount, 0},
	{atPayPal, "a line that cannot be read", inFile, nobodys, happens{file: spoilLine}, wantUnread, 0},
}

// planted is a planting on its way.
type planted struct {
	planting

	Kind     reconcile.Kind     `json:"kind"` // as which it was found; empty: it was not
	Severity reconcile.Severity `json:"severity,omitempty"`
	Repair   reconcile.Repair   `json:"repair,omitempty"` // that mends it
	Mended   bool               `json:"mended"`
	Detail   string             `json:"detail,omitempty"` // why it is one
	Note     string             `json:"note,omitempty"`   // what came of the repair, or why there was none
	OK       bool               `json:"ok"`
	Problems []string           `json:"problems,omitempty"`

	taken  placed
	charge sandbox.Charge // the order's, or what was planted
}

func newPlanted() []*planted {
	all := make([]*planted, len(plantings))
	for i, one := range plantings {
		all[i] = &planted{planting: one}
	}
	return all
}

func (p *planted) name() string { return p.Provider + ", " + p.What }

func (p *planted) provider() testProvider {
	return testProviders[slices.IndexFunc(testProviders, func(one testProvider) bool { return one.name == p.Provider })]
}

func (p *planted) wantf(holds bool, format string, args ...any) {
	if !holds {
		p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
	}
}
