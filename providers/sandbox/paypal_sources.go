package sandbox

import (
	"encoding/json"
	"net/url"
	"strings"
)

// paypalMethod is how a payment with a test method ends.
type paypalMethod struct {
	status   string // of the capture; empty is COMPLETED
	reason   string
	response string // processor_response.response_code of a decline
	issue    string // refused with a 422 and this issue
	action   bool   // the payer has to come back first
	refund   string // the status in which a refund starts; empty is COMPLETED
}

// sourceToken is the kind of source that names a token; the others are cards and PayPal itself.
const sourceToken = "token"

// paypalSource is what an order is to be paid with.
type paypalSource struct {
	kind                 string // card, paypal, token; empty when the order was made without one
	name                 string
	method               paypalMethod
	wallet               bool // the payer approves on PayPal's page
	returnURL, cancelURL string
}

var paypalVault = map[string]paypalMethod{
	paypalCompleted:      {},
	paypalDeclined:       {status: paypalDeclined, response: "0500"},
	paypalFailed:         {status: paypalFailed},
	paypalPending:        {status: paypalPending, reason: "PENDING_REVIEW"},
	"ECHECK":             {status: paypalPending, reason: "ECHECK"},
	paypalActionRequired: {action: true},
	"REFUND_PENDING":     {refund: paypalPending},
}

// refusedVaults are the 422 issues that a vault id can ask for: vault_INSTRUMENT_DECLINED.
var refusedVaults = words(`INSTRUMENT_DECLINED PAYER_CANNOT_PAY TRANSACTION_REFUSED PAYER_ACCOUNT_RESTRICTED COMPLIANCE_VIOLATION
	PAYER_ACCOUNT_LOCKED_OR_CLOSED PAYMENT_SOURCE_DECLINED_BY_PROCESSOR PAYMENT_SOURCE_CANNOT_BE_USED PAYEE_BLOCKED_TRANSACTION
	TRANSACTION_LIMIT_EXCEEDED MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED CARD_EXPIRED TRANSACTION_BLOCKED_BY_PAYEE`)

// rejectedNames are the card holders' names that PayPal's sandbox declines, with the processor's code.
// Source: https://developer.paypal.com/tools/sandbox/card-testing/.
var rejectedNames = map[string]string{
	"CCREJECT-REFUSED": "0500", "CCREJECT-SF": "9500", "CCREJECT-EC": "5400", "CCREJECT-IRC": "5180", "CCREJECT-IF": "5120",
	"CCREJECT-LS": "9520", "CCREJECT-IA": "1330", "CCREJECT-BANK_ERROR": "5100", "CCREJECT-CVV_F": "00N7",
}

func vaulted(id string) (paypalMethod, *paypalError) {
	name, ours := strings.CutPrefix(id, "vault_")
	method, known := paypalVault[name]
	switch {
	case ours && known:
		return method, nil
	case ours && refusedVaults[name]:
		return paypalMethod{issue: name}, nil
	}
	return paypalMethod{}, unprocessable("MISMATCHED_VAULT_ID_TO_PAYMENT_SOURCE", "/payment_source")
}

// readSource reads a payment_source; nil leaves it open.
func readSource(raw json.RawMessage) (*paypalSource, *paypalError) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var kinds map[string]json.RawMessage
	if err := json.Unmarshal(raw, &kinds); err != nil || len(kinds) != 1 {
		return nil, paypalBadRequest("INVALID_PARAMETER_VALUE", "/payment_source")
	}
	for kind, inner := range kinds {
		switch kind {
		case typeCard, paypalName, sourceToken:
			return readSourceOf(kind, inner)
		default:
			return nil, paypalBadRequest("NOT_SUPPORTED", "/payment_source/"+kind)
		}
	}
	return nil, nil // there is exactly one kind
}

// paypalContext is where the payer goes back to.
type paypalContext struct {
	ReturnURL string `json:"return_url"`
	CancelURL string `json:"cancel_url"`
}

func (c paypalContext) valid() bool {
	for _, each := range []string{c.ReturnURL, c.CancelURL} {
		if parsed, err := url.Parse(each); err != nil || each != "" && parsed.Scheme == "" {
			return false
		}
	}
	return true
}

// paypalSourceRequest is what the sandbox looks at in a payment source.
type paypalSourceRequest struct {
	ID      string          `json:"id"` // of a token
	VaultID string          `json:"vault_id"`
	Name    json.RawMessage `json:"name"`
	Number  string          `json:"number"`
	Expiry  string          `json:"expiry"`
	Context paypalContext   `json:"experience_context"`
}

// pays reports whether a source pays without the payer's approval.
func (s *paypalSource) pays() bool { return s != nil && !s.wallet && !s.method.action }

func readSourceOf(kind string, raw json.RawMessage) (*paypalSource, *paypalError) {
	var given paypalSourceRequest
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, paypalBadRequest("INVALID_PARAMETER_SYNTAX", "/payment_source/"+kind)
	}
	if !given.Context.valid() {
		return nil, paypalBadRequest("INVALID_PARAMETER_SYNTAX", "/payment_source/"+kind+"/experience_context")
	}
	source := &paypalSource{kind: kind, returnURL: given.Context.ReturnURL, cancelURL: given.Context.CancelURL}
	vault := given.VaultID
	if kind == sourceToken {
		vault = given.ID
	}
	if kind == typeCard {
		_ = json.Unmarshal(given.Name, &source.name) // another shape than a text is no name to look at
	}
	var refusal *paypalError
	switch {
	case rejectedNames[source.name] != "":
		source.method = paypalMethod{status: paypalDeclined, response: rejectedNames[source.name]}
	case vault != "":
		source.method, refusal = vaulted(vault)
	case kind == typeCard && given.Number != "" && given.Expiry != "": // a card of PayPal's test numbers pays
	case kind == paypalName:
		source.wallet = true
	default:
		return nil, paypalBadRequest("MISSING_REQUIRED_PARAMETER", "/payment_source/"+kind)
	}
	return source, refusal
}
