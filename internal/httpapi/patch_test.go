package httpapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

// patching is the usual request that changes an order's notes.
func (s *shop) patching(key, location, metadata string) request {
	r := s.asking(key, location, `{"metadata":`+metadata+`}`)
	r.method = http.MethodPatch
	return r
}

func (s *shop) patch(t *testing.T, location, metadata string) answer {
	t.Helper()
	return s.send(t, s.patching(newKeyText(), location, metadata))
}

// RFC 7396, one patch after the other.
func TestPatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed := s.place(t, newKeyText(), theOrder)
	before, location := placed.order(t, http.StatusCreated), placed.header.Get("Location")
	for _, c := range []struct {
		patch string
		want  api.Metadata
	}{
		{`{"parcel":"0034"}`, api.Metadata{"cart": "c-9", "parcel": "0034"}},
		{`{"cart":null,"more":""}`, api.Metadata{"parcel": "0034", "more": ""}},
		{`{"parcel":"0035","nothing":null}`, api.Metadata{"parcel": "0035", "more": ""}},
		{`{"parcel":null,"more":null}`, nil},
		{`{"ключ":"значение"}`, api.Metadata{"ключ": "значение"}},
	} {
		patched := s.patch(t, location, c.patch)
		order := patched.order(t, http.StatusOK)
		if diff := cmp.Diff(c.want, order.Metadata); diff != "" && len(c.want)+len(order.Metadata) > 0 {
			t.Errorf("after %s (-want +got):\n%s", c.patch, diff)
		}
		if patched.body != s.get(t, location).body {
			t.Errorf("the answer is not the order:\n%s\n%s", patched.body, s.get(t, location).body)
		}
		if !order.UpdatedAt.After(before.UpdatedAt) {
			t.Errorf("updated at %s, before at %s", order.UpdatedAt, before.UpdatedAt)
		}
		before.Metadata, before.UpdatedAt = order.Metadata, order.UpdatedAt
		if diff := cmp.Diff(before, order); diff != "" {
			t.Errorf("more than the notes was changed (-before +after):\n%s", diff)
		}
	}
	if charge := s.onlyCharge(t); charge.Calls != 1 {
		t.Errorf("charge %+v", charge)
	}
}

// A patch takes one commit, and none where it is refused. A refused one leaves the key free.
func TestBadPatches(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	key := newKeyText()
	long, many := strings.Repeat("n", 51), make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf(`"n%d":"v"`, i)
	}
	s.unchanged(t, func() {
		for metadata, place := range map[string]string{
			`{}`:                "pointer /metadata",
			`null`:              "pointer /metadata",
			`"text"`:            "pointer /metadata",
			`{"a":1}`:           "pointer /metadata/a",
			`{"a":{"b":"c"}}`:   "pointer /metadata/a",
			`{"a":"b","a":"c"}`: "pointer /metadata/a",
			`{"a":"` + strings.Repeat("v", 501) + `"}`: "pointer /metadata/a",
			`{"` + long + `":"v"}`:                     "pointer /metadata/" + long,
			`{"a":"\u0000"}`:                           "pointer /metadata/a",
			`{` + strings.Join(many, ",") + `}`:        "pointer /metadata", // with the one that is there: 51
			`{"a":"b"},"amount":1`:                     "pointer /amount",
		} {
			s.send(t, s.patching(key, location, metadata)).checkRefusal(t, http.StatusBadRequest, "invalid-request", place)
		}
	})
	writes := s.writes(t)
	s.send(t, s.patching(key, location, `{"cart":null,`+strings.Join(many, ",")+`}`)).order(t, http.StatusOK) // 50 stay
	if got := s.writes(t) - writes; got != 1 {
		t.Errorf("a patch takes %d commits, want 1", got)
	}
}

// Patches of one order at once: each is applied to what the others made of it, and none is lost.
func TestPatchesAtOnce(t *testing.T) {
	t.Parallel()
	const patches = 8
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	requests, pending := make([]request, patches), make([]<-chan answer, patches)
	for i := range patches {
		requests[i] = s.patching(newKeyText(), location, fmt.Sprintf(`{"note-%d":"%d"}`, i, i))
		pending[i] = s.sending(t, requests[i])
	}
	want := api.Metadata{"cart": "c-9"}
	for i, p := range pending {
		got := receive(t, "an answer", p)
		s.check(t, requests[i], got)
		order := got.order(t, http.StatusOK)
		note := "note-" + strconv.Itoa(i)
		if order.Metadata[note] != strconv.Itoa(i) {
			t.Errorf("the answer does not have %s: %v", note, order.Metadata)
		}
		want[note] = strconv.Itoa(i)
		sameAnswer(t, got, s.send(t, requests[i])) // the order as it was answered then
	}
	if diff := cmp.Diff(want, s.orderNow(t, location).Metadata); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// The same patch many times at once is one patch.
func TestSamePatchAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	r := s.patching(newKeyText(), location, `{"a":"b"}`)
	writes := s.writes(t)
	var pending [crowd]<-chan answer
	for i := range pending {
		pending[i] = s.sending(t, r)
	}
	fresh := 0
	for _, p := range pending {
		got := receive(t, "an answer", p)
		if s.check(t, r, got); got.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
		got.order(t, http.StatusOK)
	}
	if got := s.writes(t) - writes; fresh != 1 || got != 1 {
		t.Errorf("%d answers that are no replays, %d commits; want one", fresh, got)
	}
}

// Notes may be changed at any time, and what drives the order meanwhile leaves them.
func TestPatchWhileThePaymentRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	location := "/v1/orders/" + query[string](t, s, `SELECT id::text FROM orders`)
	s.patch(t, location, `{"cart":null,"while":"charging"}`).order(t, http.StatusOK)
	held.release()
	placed := receive(t, "the answer", first)
	s.check(t, r, placed)
	placed.order(t, http.StatusCreated)
	order := s.orderNow(t, location)
	if diff := cmp.Diff(api.Metadata{"while": "charging"}, order.Metadata); diff != "" || order.Status != api.OrderStatusConfirmed {
		t.Errorf("order is %s, notes (-want +got):\n%s", order.Status, diff)
	}
}
