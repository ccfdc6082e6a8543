package sandbox

import (
	"crypto/subtle"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// challengePage is what the customer's bank would show.
//
//go:embed challenge.html
var challengePage string

var challengeTemplate = template.Must(template.New("challenge").Parse(challengePage))

// challengeView is what the page shows. Decided is empty while the customer has yet to decide.
type challengeView struct {
	ID, Amount, Method, Decided string
	Action                      string // where the decision is posted
	SecretName, Secret          string // what shows that the visitor was sent here
	Note                        string
}

// bankNote is what the page of a bank says.
const bankNote = "A real bank would ask for a code or an app here (3-D Secure)."

func (a *stripeAPI) pageRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /stripe/authenticate/{id}", a.showChallenge)
	mux.HandleFunc("POST /stripe/authenticate/{id}", a.decideChallenge)
}

func (a *stripeAPI) showChallenge(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	payment, view := a.challenged(r.PathValue("id"), r.URL.Query().Get("client_secret"))
	a.mu.Unlock()
	if payment == nil {
		http.Error(w, "There is no such payment.", http.StatusNotFound)
		return
	}
	a.server.renderChallenge(w, view)
}

func (a *stripeAPI) decideChallenge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxControlBody)
	decision := action(r.PostFormValue("decision"))
	if decision != actionApprove && decision != actionRefuse {
		http.Error(w, "The decision must be approve or refuse.", http.StatusBadRequest)
		return
	}
	now := a.server.clock.now()
	a.mu.Lock()
	payment, view := a.challenged(r.PathValue("id"), r.PostFormValue("client_secret"))
	target := ""
	if payment != nil {
		if payment.status == statusRequiresAction { // else it was decided before: a second click only leads on
			a.authenticate(payment, decision == actionApprove, now)
		}
		view.Decided = payment.status
		target = payment.returnTarget()
	}
	a.mu.Unlock()
	switch {
	case payment == nil:
		http.Error(w, "There is no such payment.", http.StatusNotFound)
	case target != "":
		http.Redirect(w, r, target, http.StatusSeeOther)
	default:
		a.server.renderChallenge(w, view)
	}
}

// challenged finds a payment whose client secret the visitor knows.
func (a *stripeAPI) challenged(id, clientSecret string) (*stripePayment, challengeView) {
	payment, known := a.store.paymentByID[id]
	if !known || subtle.ConstantTimeCompare([]byte(payment.clientSecret), []byte(clientSecret)) != 1 {
		return nil, challengeView{}
	}
	view := challengeView{
		ID: payment.id, Action: "/stripe/authenticate/" + payment.id, SecretName: "client_secret", Secret: payment.clientSecret, Note: bankNote,
		Amount: stripeCurrencies[payment.currency].show(payment.amount, strings.ToUpper(payment.currency)),
	}
	if payment.method != nil {
		view.Method = payment.method.brand + " •••• " + payment.method.last4 // only cards are challenged
	}
	if payment.status != statusRequiresAction {
		view.Decided = payment.status
	}
	return payment, view
}

// returnTarget is the shop's return_url with what Stripe adds to it; empty when the shop gave none.
func (p *stripePayment) returnTarget() string {
	target, err := url.Parse(p.returnURL)
	if err != nil || p.returnURL == "" {
		return ""
	}
	query := target.Query()
	query.Set(objectPaymentIntent, p.id)
	query.Set("payment_intent_client_secret", p.clientSecret)
	query.Set("redirect_status", "succeeded")
	if p.status == statusRequiresPaymentMethod {
		query.Set("redirect_status", "failed")
	}
	target.RawQuery = query.Encode()
	return target.String()
}

func (s *Server) renderChallenge(w http.ResponseWriter, view challengeView) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer") // the address holds the client secret
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	if err := challengeTemplate.Execute(w, view); err != nil {
		s.log.Debug("page not delivered", "error", err)
	}
}
