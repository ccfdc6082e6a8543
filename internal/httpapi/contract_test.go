package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"paysaga/api"
)

// contract is api/openapi.yaml, sharpened: what a schema does not name must not be answered.
type contract struct {
	document *openapi3.T
	router   routers.Router
}

var loadContract = sync.OnceValues(func() (contract, error) {
	document, err := openapi3.NewLoader().LoadFromData(api.Document)
	if err != nil {
		return contract{}, fmt.Errorf("load the contract: %w", err)
	}
	for _, schema := range document.Components.Schemas {
		if len(schema.Value.Properties) > 0 {
			schema.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
		}
	}
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.PlainBodyDecoder)
	router, err := legacy.NewRouter(document)
	return contract{document, router}, err
})

// check holds an exchange against the contract: every answer, and every request that was not refused. It is done for each
// exchange of each test.
func (s *shop) check(t *testing.T, r request, a answer) {
	t.Helper()
	c, err := loadContract()
	noError(t, err)
	sent, err := http.NewRequestWithContext(t.Context(), r.method, r.path, strings.NewReader(r.body))
	noError(t, err)
	if r.header != nil {
		sent.Header = r.header.Clone()
	}
	s.checkSecrets(t, r, a)
	route, parameters, err := c.router.FindRoute(sent)
	if err != nil {
		c.checkUnrouted(t, a)
		return
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	input := &openapi3filter.RequestValidationInput{Request: sent, PathParams: parameters, Route: route, Options: options}
	if a.status < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("%s %s was answered with %d, but the contract does not allow it: %v", r.method, r.path, a.status, err)
		}
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header, Options: options,
	}
	if err := openapi3filter.ValidateResponse(t.Context(), response.SetBodyBytes([]byte(a.body))); err != nil {
		t.Errorf("%s %s: the answer %d is not what the contract says: %v\n%s", r.method, r.path, a.status, err, a.body)
	}
	checkRetryAfter(t, a)
}

// checkUnrouted: what the contract does not know is answered with a problem all the same.
func (c contract) checkUnrouted(t *testing.T, a answer) {
	t.Helper()
	var problem any
	noError(t, json.Unmarshal([]byte(a.body), &problem))
	if err := c.document.Components.Schemas["Problem"].Value.VisitJSON(problem); err != nil {
		t.Errorf("status %d without a problem: %v", a.status, err)
	}
}

// checkRetryAfter: whoever is asked to come back is told when, and nobody else.
func checkRetryAfter(t *testing.T, a answer) {
	t.Helper()
	passes := strings.Contains(a.body, `"/problems/request-in-progress"`) || strings.Contains(a.body, `"/problems/order-busy"`)
	retry := a.status == http.StatusConflict && passes || a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable
	if told := a.header.Get("Retry-After") != ""; told != retry {
		t.Errorf("status %d, Retry-After told: %t", a.status, told)
	}
}

// checkSecrets: no answer repeats what the client must keep to itself, and what it hands out is not logged.
func (s *shop) checkSecrets(t *testing.T, r request, a answer) {
	t.Helper()
	_, apiKey, _ := strings.Cut(r.header.Get("Authorization"), " ")
	secrets := append(r.header.Values("Idempotency-Key"), apiKey, "pm_card_visa", "pm_card_authenticationRequired", "test_4111111111111111")
	if a.status >= http.StatusBadRequest {
		secrets = append(secrets, "ada@example.com", "customer-4711")
	}
	const shortest = 8 // a shorter one could be there by chance
	for _, secret := range secrets {
		if len(secret) >= shortest && strings.Contains(a.body, secret) && !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") &&
			a.header.Get("Content-Type") != "application/yaml" {
			t.Errorf("the answer %d repeats %q", a.status, secret)
		}
	}
	var order api.Order
	if json.Unmarshal([]byte(a.body), &order) == nil && order.NextAction != nil {
		s.log.Secret("a client secret", order.NextAction.ClientSecret)
	}
}
