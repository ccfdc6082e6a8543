package sandbox

import (
	"net/http"
	"net/url"
	"time"
)

const walletNote = "At PayPal the customer would log in here and choose what to pay with."

func (a *paypalAPI) pageRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+paypalRoot+"/checkoutnow", a.showApproval)
	mux.HandleFunc("POST "+paypalRoot+"/checkoutnow", a.decideApproval)
	mux.HandleFunc("GET "+paypalRoot+certificatePath, func(w http.ResponseWriter, _ *http.Request) {
		a.server.sendCertificate(w, func() []byte { return a.server.authority.served })
	})
}

func (a *paypalAPI) showApproval(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	order, known := a.store.orderByID[r.URL.Query().Get("token")]
	var view challengeView
	if known {
		view = order.approvalView()
	}
	a.mu.Unlock()
	if !known {
		http.Error(w, "There is no such order.", http.StatusNotFound)
		return
	}
	a.server.renderChallenge(w, view)
}

func (o *paypalOrder) approvalView() challengeView {
	amount := money(o.amount, o.currency)
	view := challengeView{
		ID: o.id, Amount: amount.Value + " " + amount.Currency, Method: "PayPal", Action: paypalRoot + "/checkoutnow",
		SecretName: "token", Secret: o.id, Note: walletNote,
	}
	if !o.approvable() {
		view.Decided = o.status
	}
	return view
}

// approvable reports whether the payer can still decide.
func (o *paypalOrder) approvable() bool {
	return o.status == paypalCreated || o.status == paypalActionRequired
}

func (a *paypalAPI) decideApproval(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxControlBody)
	decision := action(r.PostFormValue("decision"))
	if decision != actionApprove && decision != actionRefuse {
		http.Error(w, "The decision must be approve or refuse.", http.StatusBadRequest)
		return
	}
	now := a.server.clock.now()
	a.mu.Lock()
	order, known := a.store.orderByID[r.PostFormValue("token")]
	target := ""
	var view challengeView
	if known {
		if decision == actionApprove && order.approvable() {
			a.approve(order, now)
		}
		target, view = order.returnTarget(decision == actionApprove), order.approvalView()
	}
	a.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "There is no such order.", http.StatusNotFound)
	case target != "":
		http.Redirect(w, r, target, http.StatusSeeOther)
	default:
		a.server.renderChallenge(w, view)
	}
}

// approve lets the payer agree. Refusing changes nothing at PayPal: the payer may still come back and approve.
func (a *paypalAPI) approve(order *paypalOrder, now time.Time) {
	order.become(paypalApproved, now)
	if order.source.method.action { // the payer came back, so the method pays now
		order.source.method = paypalMethod{}
	}
	a.announceOrder(order, "CHECKOUT.ORDER.APPROVED")
}

// returnTarget is the shop's URL with what PayPal adds to it; empty when the shop gave none.
func (o *paypalOrder) returnTarget(approved bool) string {
	raw := o.source.cancelURL
	if approved {
		raw = o.source.returnURL
	}
	target, err := url.Parse(raw)
	if err != nil || raw == "" {
		return ""
	}
	query := target.Query()
	query.Set("token", o.id)
	if approved {
		query.Set("PayerID", sandboxPayer)
	}
	target.RawQuery = query.Encode()
	return target.String()
}
