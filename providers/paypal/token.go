package paypal

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

var (
	errCredentials = errors.New("paypal refuses the client's credentials")
	errNoToken     = errors.New("paypal gave no token")
)

// tokens keeps the one access token that all calls share, and fetches it when it is missing, has run out, or was refused. The
// library's own source holds on to a token until its time is up, and a token that PayPal refuses before that would fail every
// call for hours.
type tokens struct {
	config *clientcredentials.Config
	http   *http.Client
	turn   chan struct{} // of the one caller who fetches; the others wait for what it brings
	mutex  sync.Mutex
	kept   *oauth2.Token
}

func newTokens(config Config, client *http.Client) *tokens {
	return &tokens{
		config: &clientcredentials.Config{
			ClientID:     config.ClientID,
			ClientSecret: config.ClientSecret,
			TokenURL:     config.BaseURL + "/v1/oauth2/token",
			AuthStyle:    oauth2.AuthStyleInHeader, // PayPal takes no other; guessing would send the secret in the body as well
		},
		http: client,
		turn: make(chan struct{}, 1),
	}
}

// token is the kept token, or a new one. Its errors wrap errCredentials or errNoToken, and no text of the other side. Time is
// bounded by ctx.
func (t *tokens) token(ctx context.Context) (*oauth2.Token, error) {
	if kept, ok := t.valid(); ok {
		return kept, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, errors.Join(errNoToken, ctx.Err())
	}
	if kept, ok := t.valid(); ok {
		return kept, nil // fetched by whoever had the turn before
	}
	fetched, err := t.config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.http))
	if err != nil {
		return nil, tokenError(ctx, err)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = fetched
	return fetched, nil
}

func (t *tokens) valid() (*oauth2.Token, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.kept, t.kept.Valid()
}

// forget drops a refused token. A newer one, which another call has fetched meanwhile, stays.
func (t *tokens) forget(refused *oauth2.Token) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.kept == refused {
		t.kept = nil
	}
}

// tokenError tells credentials that an operator must put right from a failure that passes.
func tokenError(ctx context.Context, err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil {
		switch answer.Response.StatusCode {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
			return errCredentials
		}
	}
	return errors.Join(errNoToken, ctx.Err())
}
