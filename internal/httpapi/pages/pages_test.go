package pages_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"paysaga/api"
	"paysaga/internal/httpapi/pages"
)

var declined = pages.ProblemType{
	Slug:    "payment-declined",
	Title:   "The payment <was> declined",
	Status:  http.StatusPaymentRequired,
	Final:   true,
	Meaning: "The bank refused.\n\nThe order is `failed`.",
	Mend:    "Ask for another card.",
}

func load(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := api.Load()
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return document
}

func docs(t *testing.T, document *openapi3.T) string {
	t.Helper()
	page, err := pages.Docs(document)
	if err != nil {
		t.Fatalf("docs: %v", err)
	}
	return string(page)
}

// section is the part of a page that begins at the section with the id.
func section(t *testing.T, page, id string) string {
	t.Helper()
	_, after, found := strings.Cut(page, fmt.Sprintf(`id="%s">`, id))
	if !found {
		t.Fatalf("no section %s", id)
	}
	inner, _, _ := strings.Cut(after, "</section>")
	return inner
}

func mustHave(t *testing.T, where, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", where, want)
		}
	}
}

func row(name string) string { return `<code class="name">` + name + `</code>` }

func TestDocsDescribesEveryOperation(t *testing.T) {
	t.Parallel()
	document := load(t)
	page := docs(t, document)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			where := method + " " + path
			part := section(t, page, operation.OperationID)
			mustHave(t, where, part, ">"+method+"</span> <code>"+path+"</code>", html.EscapeString(operation.Summary), "curl ")
			mustHave(t, "contents", page, `<a href="#`+operation.OperationID+`"><span class="method `+method+`">`)
			for _, parameter := range operation.Parameters {
				mustHave(t, where, part, row(parameter.Value.Name))
			}
			mustHaveAnswers(t, where, part, operation.Responses)
			if operation.RequestBody != nil {
				schema := operation.RequestBody.Value.Content.Get("application/json").Schema.Value
				mustHaveFields(t, where, part, "", schema)
			}
		}
	}
}

func mustHaveAnswers(t *testing.T, where, part string, responses *openapi3.Responses) {
	t.Helper()
	for status, response := range responses.Map() {
		title := "<b>Any other status</b>"
		if code, err := strconv.Atoi(status); err == nil {
			title = "<b>" + status + " " + http.StatusText(code) + "</b>"
		}
		mustHave(t, where, part, title)
		for header := range response.Value.Headers {
			mustHave(t, where, part, "<code>"+header+"</code>")
		}
	}
}

func mustHaveFields(t *testing.T, where, part, prefix string, schema *openapi3.Schema) {
	t.Helper()
	for name, property := range schema.Properties {
		mustHave(t, where, part, row(prefix+name))
		mustHaveFields(t, where, part, prefix+name+".", property.Value)
		if property.Value.Items != nil {
			mustHaveFields(t, where, part, prefix+name+"[].", property.Value.Items.Value)
		}
	}
}

func TestDocsDescribesEverySchema(t *testing.T) {
	t.Parallel()
	document := load(t)
	page := docs(t, document)
	for name, schema := range document.Components.Schemas {
		part := section(t, page, "type-"+name)
		for property := range schema.Value.Properties {
			mustHave(t, name, part, row(property))
		}
		for _, value := range schema.Value.Enum {
			mustHave(t, name, part, fmt.Sprintf("<code>%v</code>", value))
		}
	}
}

func TestDocsShowsLimitsAndCommands(t *testing.T) {
	t.Parallel()
	document := load(t)
	page := docs(t, document)
	mustHave(t, "fields of Item", section(t, page, "type-Item"), "<li>1 to 64 characters </li>", "<li>1 to 1000000 </li>")
	mustHave(t, "parameters of listOrders", section(t, page, "listOrders"), "<li>1 to 100 </li>", "<li>default <code>20</code> </li>")
	mustHave(t, "createOrder", html.UnescapeString(section(t, page, "createOrder")), strings.Join([]string{
		`<pre><code>curl -X POST "$BASE_URL/v1/orders" \`,
		`  -H "Authorization: Bearer $MERCHANT_KEY" \`,
		`  -H 'Idempotency-Key: 0190b6f2-3c1e-4f0a-9d52-7c6a1f2b3e4d' \`,
		`  -H 'Content-Type: application/json' \`,
		`  -d '{`,
		`  "currency": "EUR",`,
	}, "\n"))
	mustHave(t, "answers of receiveWebhook", section(t, page, "receiveWebhook"), "object or text/plain")
	mustHave(t, "getStock", html.UnescapeString(section(t, page, "getStock")), `curl "$BASE_URL/v1/stock/TSHIRT-M" \`)
	mustHave(t, "getHealth", html.UnescapeString(section(t, page, "getHealth")), `<pre><code>curl "$BASE_URL/healthz"</code></pre>`)
}

func TestDocsKeepsTheOrderOfTheDocument(t *testing.T) {
	t.Parallel()
	part := section(t, docs(t, load(t)), "type-Order")
	id, status, updated := strings.Index(part, row("id")), strings.Index(part, row("status")), strings.Index(part, row("updated_at"))
	if id < 0 || id > status || status > updated {
		t.Errorf("fields stand at %d, %d, %d; want id before status before updated_at", id, status, updated)
	}
}

func TestDocsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	page := docs(t, load(t))
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) == 0 {
		t.Fatal("the page has no links")
	}
	for _, link := range links {
		anchor, inPage := strings.CutPrefix(link[1], "#")
		switch {
		case inPage && !strings.Contains(page, `id="`+anchor+`"`):
			t.Errorf("link to %s leads nowhere", link[1])
		case !inPage && link[1] != "/problems" && link[1] != "/openapi.yaml":
			t.Errorf("unexpected link to %s", link[1])
		default: // leads to a section of the page, or to a page of the same server
		}
	}
}

func TestDocsRefusesAnIncompleteDocument(t *testing.T) {
	t.Parallel()
	withoutTag, err := openapi3.NewLoader().LoadFromData([]byte(
		`{"openapi":"3.0.3","info":{"title":"t","version":"1"},"components":{},
		  "paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"ok"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, document := range map[string]*openapi3.T{"empty": {}, "operation without tag": withoutTag} {
		if _, err := pages.Docs(document); err == nil {
			t.Errorf("%s: no error", name)
		} else if errors.Unwrap(err) == nil {
			t.Errorf("%s: error %v wraps no cause", name, err)
		}
	}
}

func TestPagesLoadNothing(t *testing.T) {
	t.Parallel()
	problem, err := pages.Problem(declined)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := pages.Problems([]pages.ProblemType{declined})
	if err != nil {
		t.Fatal(err)
	}
	loads := regexp.MustCompile(`(?i)\bsrc\s*=|<link\b|<script\b|<img\b|<iframe\b|@import|url\(|@font-face|href="(https?:)?//`)
	for name, page := range map[string]string{"docs": docs(t, load(t)), "problem": string(problem), "problems": string(problems)} {
		if found := loads.FindString(page); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		mustHave(t, name, page, "prefers-color-scheme: dark", "width=device-width", "</html>")
		if strings.Contains(page, "ZgotmplZ") {
			t.Errorf("%s has content that the template refused", name)
		}
	}
}

func TestProblemPage(t *testing.T) {
	t.Parallel()
	page, err := pages.Problem(declined)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, "page", string(page),
		"<h1>The payment &lt;was&gt; declined</h1>", "402 Payment Required", "/problems/payment-declined",
		"<p>The bank refused.</p><p>The order is <code>failed</code>.</p>", "<p>Ask for another card.</p>",
		"Not unchanged: the same request with the same <code>Idempotency-Key</code>",
		`href="/problems"`, `href="/docs"`)
}

func TestProblemsPageKeepsTheOrderGiven(t *testing.T) {
	t.Parallel()
	page, err := pages.Problems([]pages.ProblemType{declined, {Slug: "a-later-one", Title: "Later", Status: http.StatusConflict}})
	if err != nil {
		t.Fatal(err)
	}
	first, second := strings.Index(string(page), `href="/problems/payment-declined"`), strings.Index(string(page), `href="/problems/a-later-one"`)
	if first < 0 || first > second {
		t.Errorf("links stand at %d and %d", first, second)
	}
	mustHave(t, "page", string(page), "402", "409", "Later")
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	cases := map[int]string{
		http.StatusBadRequest:          "Not as it is. ",
		http.StatusUnauthorized:        "Not as it is. ",
		http.StatusPaymentRequired:     "Not as it is. ",
		http.StatusConflict:            "Not unchanged: ",
		http.StatusGone:                "Not unchanged: ",
		http.StatusUnprocessableEntity: "Not as it is. ",
		http.StatusTooManyRequests:     "Yes: ",
		http.StatusInternalServerError: "Yes: ",
		http.StatusServiceUnavailable:  "Yes: ",
	}
	for status, want := range cases {
		if got := (pages.ProblemType{Status: status}).Repeat(); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %q, want it to begin with %q", status, got, want)
		}
	}
	final := pages.ProblemType{Status: http.StatusUnprocessableEntity, Final: true}
	if got := final.Repeat(); !strings.HasPrefix(got, "Not unchanged: ") {
		t.Errorf("a final answer: %q", got)
	}
	passing := pages.ProblemType{Status: http.StatusConflict, Passes: true}
	if got := passing.Repeat(); !strings.HasPrefix(got, "Yes: ") {
		t.Errorf("a conflict that passes: %q", got)
	}
	const begun = "may have begun"
	for slug, status := range map[string]int{"request-in-progress": http.StatusConflict, "unavailable": http.StatusServiceUnavailable} {
		if got := (pages.ProblemType{Slug: slug, Status: status, Passes: true}).Repeat(); !strings.Contains(got, begun) {
			t.Errorf("%s: %q", slug, got)
		}
	}
	for slug, status := range map[string]int{"order-busy": http.StatusConflict, "too-many-new-keys": http.StatusTooManyRequests} {
		if got := (pages.ProblemType{Slug: slug, Status: status, Passes: true}).Repeat(); strings.Contains(got, begun) {
			t.Errorf("%s, of which nothing was done: %q", slug, got)
		}
	}
}
