package sandbox

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func redirectURL(baseURL string, p *adyenPayment) string {
	return strings.TrimSuffix(baseURL, "/") + "/adyen/redirect/" + p.psp + "?secret=" + p.redirectSecret
}

func (a *adyenAPI) pageRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /adyen/redirect/{id}", a.showRedirect)
	mux.HandleFunc("POST /adyen/redirect/{id}", a.decideRedirect)
}

func (a *adyenAPI) showRedirect(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	payment, view := a.redirected(r.PathValue("id"), r.URL.Query().Get("secret"))
	a.mu.Unlock()
	if payment == nil {
		http.Error(w, "There is no such payment.", http.StatusNotFound)
		return
	}
	a.server.renderChallenge(w, view)
}

func (a *adyenAPI) decideRedirect(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxControlBody)
	decision := action(r.PostFormValue("decision"))
	if decision != actionApprove && decision != actionRefuse {
		http.Error(w, "The decision must be approve or refuse.", http.StatusBadRequest)
		return
	}
	now := a.server.clock.now()
	a.mu.Lock()
	payment, _ := a.redirected(r.PathValue("id"), r.PostFormValue("secret"))
	target := ""
	if payment != nil {
		if payment.status == resultRedirect { // else it was decided before: a second click only leads on
			a.authenticate(payment, decision == actionApprove, now)
		}
		target = payment.returnTarget()
	}
	a.mu.Unlock()
	if payment == nil {
		http.Error(w, "There is no such payment.", http.StatusNotFound)
		return
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// redirected finds a payment whose customer was sent to the page.
func (a *adyenAPI) redirected(id, secret string) (*adyenPayment, challengeView) {
	payment, known := a.store.paymentByPSP[id]
	if !known || payment.redirectSecret == "" ||
		subtle.ConstantTimeCompare([]byte(payment.redirectSecret), []byte(secret)) != 1 {
		return nil, challengeView{}
	}
	view := challengeView{
		ID: payment.psp, Amount: adyenCurrencies[payment.currency].show(payment.amount, payment.currency), Method: "visa •••• 1111",
		Action: "/adyen/redirect/" + payment.psp, SecretName: "secret", Secret: payment.redirectSecret, Note: bankNote,
	}
	if payment.status != resultRedirect {
		view.Decided = payment.status
	}
	return payment, view
}

// authenticate ends the customer's visit. The bank's decision stands at once, whether or not the shop asks for it.
func (a *adyenAPI) authenticate(p *adyenPayment, approved bool, now time.Time) {
	p.redirectResult = "sandbox_" + randomText(40)
	a.store.byResult[p.redirectResult] = p
	code := notAuthenticated
	if approved {
		code = adyenCodes[codeApproved]
	}
	a.conclude(p, code, now)
}

// returnTarget is the shop's returnUrl with the redirectResult that it has to send to /payments/details.
func (p *adyenPayment) returnTarget() string {
	target, err := url.Parse(p.returnURL)
	if err != nil {
		return p.returnURL
	}
	query := target.Query()
	query.Set("redirectResult", p.redirectResult)
	target.RawQuery = query.Encode()
	return target.String()
}
