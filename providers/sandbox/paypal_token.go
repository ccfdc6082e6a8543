package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// paypalTokenLife is what PayPal's sandbox gives: nine hours.
const paypalTokenLife = 9 * time.Hour

// tokenMint makes access tokens that carry their own end, so that none need be remembered.
type tokenMint struct{ secret [sha256.Size]byte }

func newTokenMint() *tokenMint {
	mint := &tokenMint{}
	_, _ = rand.Read(mint.secret[:]) // never fails; it ends the program instead
	return mint
}

const tokenPrefix = "A21AA"

func (m *tokenMint) issue(end time.Time) string {
	var stamp [8 + 8]byte
	binary.BigEndian.PutUint64(stamp[:8], uint64(end.UnixMilli()))
	_, _ = rand.Read(stamp[8:]) // so that no two tokens are alike
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(stamp[:], m.sign(stamp[:])...))
}

func (m *tokenMint) sign(stamp []byte) []byte {
	mac := hmac.New(sha256.New, m.secret[:])
	_, _ = mac.Write(stamp) // a hash never fails
	return mac.Sum(nil)
}

func (m *tokenMint) valid(token string, now time.Time) bool {
	text, ours := strings.CutPrefix(token, tokenPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !ours || err != nil || len(raw) != 16+sha256.Size || !hmac.Equal(m.sign(raw[:16]), raw[16:]) {
		return false
	}
	end := time.UnixMilli(int64(binary.BigEndian.Uint64(raw[:8]))) //nolint:gosec // only bits matter
	return now.Before(end)
}

// tokenAnswer is the answer to a token call.
type tokenAnswer struct {
	Scope     string `json:"scope"`
	Token     string `json:"access_token"`
	Type      string `json:"token_type"`
	AppID     string `json:"app_id"`
	ExpiresIn int64  `json:"expires_in"` // seconds
	Nonce     string `json:"nonce"`
}

// serveToken is POST /v1/oauth2/token.
func (a *paypalAPI) serveToken(w http.ResponseWriter, r *http.Request) {
	body, readError := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControlBody))
	now := a.server.clock.now()
	record := newRequestRecord(r, now, body)
	record.Provider, record.Call = paypalName, CallToken
	x := exchange{server: a.server, writer: w, request: r, sequence: a.server.journal.add(record)}
	x.call.provider, x.call.kind = paypalName, CallToken
	x.call.count = a.server.calls.increment(callKey{provider: paypalName, lookup: true, identifier: "oauth2/token"})
	x.conduct(paypalDialect(), func(disturb interference) answer {
		a.server.pause(disturb.delay)
		return a.grant(r, body, readError, now)
	})
}

func (a *paypalAPI) grant(r *http.Request, body []byte, readError error, now time.Time) answer {
	if !a.knowsClient(r) {
		return oauthError(http.StatusUnauthorized, "invalid_client", "Client Authentication failed")
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form, formError := url.ParseQuery(string(body))
	if errors.Join(readError, err, formError) != nil || mediaType != "application/x-www-form-urlencoded" {
		return oauthError(http.StatusBadRequest, "invalid_request", "The body must be form-encoded")
	}
	if form.Get("grant_type") != "client_credentials" {
		return oauthError(http.StatusBadRequest, "unsupported_grant_type", "Grant Type is NULL or not client_credentials")
	}
	return jsonAnswer(http.StatusOK, tokenAnswer{
		Scope: "https://uri.paypal.com/services/payments/payment https://uri.paypal.com/services/reporting/search/read",
		Token: a.mint.issue(now.Add(paypalTokenLife)), Type: "Bearer", AppID: "APP-80W284485P519543T",
		ExpiresIn: int64(paypalTokenLife / time.Second), Nonce: now.UTC().Format(time.RFC3339) + randomText(43),
	})
}

func (a *paypalAPI) knowsClient(r *http.Request) bool {
	client, secret, basic := r.BasicAuth()
	wrong := a.clientID != "" && client != a.clientID || a.secret != "" && secret != a.secret
	return basic && client != "" && secret != "" && !wrong
}

func oauthError(status int, code, description string) answer {
	return jsonAnswer(status, map[string]string{"error": code, "error_description": description})
}
