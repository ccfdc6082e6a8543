package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

// bad is a request that must be refused before anything is done.
type bad struct {
	name   string
	method string // POST when empty
	path   string // /v1/orders when empty
	body   string // theOrder when empty; "-" for none
	header map[string][]string
	status int
	slug   string
	place  string // "pointer /amount", "header Idempotency-Key", "parameter limit"; empty where no place is to be mended
}

type badList []bad

func (l *badList) add(more ...bad) { *l = append(*l, more...) }

// badRequests are all bad requests of all tests.
func badRequests(t *testing.T, s *shop) []bad {
	t.Helper()
	return slices.Concat(badKeys(), badCallers(s), badSyntax(t), badFields(t), badAmounts(t), badPayments(t), badAddresses(), badStock())
}

func (b bad) request(s *shop) request {
	r := s.placing(newKeyText(), theOrder)
	if b.method != "" {
		r.method = b.method
	}
	if b.path != "" {
		r.path = b.path
	}
	switch b.body {
	case "":
	case "-":
		r.body = ""
	default:
		r.body = b.body
	}
	for name, values := range b.header {
		if values == nil {
			r.header.Del(name)
			continue
		}
		r.header[name] = values
	}
	return r
}

// Each bad request gets its precise problem, and changes nothing at all.
//
//nolint:paralleltest,tparallel // what each leaves behind is looked at, so they come one after the other
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, b := range badRequests(t, s) {
		t.Run(b.name, func(t *testing.T) {
			before := s.footprint(t)
			got := s.send(t, b.request(s))
			problem := got.problem(t, b.status, b.slug)
			if problem.Title == "" || problem.Detail == "" {
				t.Errorf("a problem without words: %s", got.body)
			}
			if places := places(problem); b.place == "" && len(places) > 0 || b.place != "" && !slices.Contains(places, b.place) {
				t.Errorf("names %q, want %q: %s", places, b.place, got.body)
			}
			if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
				t.Errorf("it changed something (-before +after):\n%s", diff)
			}
		})
	}
}

// A key is not used up by a request that was refused before anything was done.
func TestRefusedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	s.place(t, key, changed(t, theOrder, "3998", "3999")).problem(t, http.StatusBadRequest, "invalid-request")
	s.place(t, key, changed(t, theOrder, "TSHIRT-M", "NO-SUCH-SKU")).problem(t, http.StatusUnprocessableEntity, "unknown-sku")
	s.place(t, key, theOrder).order(t, http.StatusCreated)
}

// All places are named at once, not one a try.
func TestAllPlacesAreNamed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	body := `{"currency":"eur","amount":0,"items":[{"sku":"TSHIRT-M","quantity":0,"unit_amount":-1}],"payment":{"provider":"stripe"},"more":1}`
	problem := s.place(t, newKeyText(), body).problem(t, http.StatusBadRequest, "invalid-request")
	for _, want := range []string{
		"pointer /currency", "pointer /amount", "pointer /items/0/quantity", "pointer /items/0/unit_amount", "pointer /payment/method", "pointer /more",
	} {
		if !slices.Contains(places(problem), want) {
			t.Errorf("%s is not named: %+v", want, problem.Errors)
		}
	}
}

// A hopeless body is not explained without end.
func TestExplanationsAreBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const lines, most = 90, 20
	line := `{"sku":"","quantity":0,"unit_amount":-1}`
	body := changed(t, theOrder, `{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}`, strings.Repeat(line+",", lines-1)+line)
	problem := s.place(t, newKeyText(), body).problem(t, http.StatusBadRequest, "invalid-request")
	if len(problem.Errors) != most {
		t.Errorf("%d places, want %d", len(problem.Errors), most)
	}
}

func places(p api.Problem) []string {
	var list []string
	for _, e := range p.Errors {
		switch {
		case e.Header != "":
			list = append(list, "header "+e.Header)
		case e.Parameter != "":
			list = append(list, "parameter "+e.Parameter)
		case e.Pointer != "":
			list = append(list, "pointer "+e.Pointer)
		default:
			list = append(list, "body")
		}
	}
	return list
}

// checkRefusal holds a problem against what is wanted, the place that it names included.
func (a answer) checkRefusal(t *testing.T, status int, slug, place string) {
	t.Helper()
	problem := a.problem(t, status, slug)
	if got := places(problem); place == "" && len(got) > 0 || place != "" && !slices.Contains(got, place) {
		t.Errorf("%s names %q, want %q", slug, got, place)
	}
}
