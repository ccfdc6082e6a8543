package sandbox_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

// storm makes many payments and gives the references of their webhooks in the order of their arrival.
func storm(t *testing.T, more string) (references []string, status sandbox.WebhookStatus) {
	t.Helper()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.listen(t, s, "adyen", more)
	for i := range 60 {
		body := strings.Replace(adyenOrder("APPROVED", ""), "ref-1", fmt.Sprint("ref-", i), 1)
		b.adyen(t, "/payments", fmt.Sprint("k-", i), body).want(t, 200)
	}
	for b.Webhooks()[1].Waiting > 0 { // a machine under load may have let a delivery run into its timeout; it ends with the retries
		b.flush(t)
	}
	for _, each := range s.all() {
		_, after, _ := strings.Cut(string(each.body), `"merchantReference":"`)
		reference, _, _ := strings.Cut(after, `"`)
		references = append(references, reference)
	}
	return references, b.Webhooks()[1]
}

func TestWebhooksAreDoubledAndReorderedBySeed(t *testing.T) {
	t.Parallel()
	plain, _ := storm(t, "")
	if len(plain) != 60 || plain[0] != "ref-0" || plain[59] != "ref-59" {
		t.Fatalf("without mischief: %v", plain)
	}
	if doubled, _ := storm(t, `,"duplicates":2`); len(doubled) != 180 {
		t.Errorf("%d arrived of 3 x 60", len(doubled))
	}
	if half, _ := storm(t, `,"duplicates":0.5,"seed":3`); len(half) < 75 || len(half) > 105 { // 90 expected, deviation 4
		t.Errorf("%d arrived of 1.5 x 60", len(half))
	}
	shuffled, _ := storm(t, `,"reorder":true,"seed":1`)
	if slices.Equal(shuffled, plain) || len(shuffled) != 60 {
		t.Errorf("not reordered: %v", shuffled)
	}
}

func TestWebhooksAreLostBySeed(t *testing.T) {
	t.Parallel()
	lossy, status := storm(t, `,"loss":0.3,"seed":7`)
	if len(lossy)+status.Lost != 60 || status.Lost < 8 || status.Lost > 28 || status.Delivered != len(lossy) { // 18 expected, deviation 3.5
		t.Errorf("%d arrived, status %+v", len(lossy), status)
	}
	again, _ := storm(t, `,"loss":0.3,"seed":7`)
	other, _ := storm(t, `,"loss":0.3,"seed":8`)
	for _, each := range [][]string{lossy, again, other} {
		slices.Sort(each)
	}
	if diff := cmp.Diff(lossy, again); diff != "" || slices.Equal(lossy, other) {
		t.Errorf("the seed does not decide which are lost:\n%s", diff)
	}
}

func TestWebhooksComeByThemselvesAndAreRepeated(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.refusals = 2
	b := newBench(t, sandbox.Options{Webhooks: map[string]sandbox.WebhookTarget{"adyen": {URL: s.url, Secrets: []string{adyenHMACKey}}}})
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200)
	<-s.arrived
	if got := s.events(t); !slices.Equal(got, []string{"AUTHORISATION true"}) {
		t.Errorf("events are %v", got)
	}
}

func TestSlowModificationsAreAnnouncedWhenDone(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.control(t, "/settings", `{"settle_after_ms":60000}`, http.StatusOK)
	b.listen(t, s, "adyen", "")
	psp := text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).json(t), "pspReference")
	b.adyen(t, "/payments/"+psp+"/reversals", "k2", `{"merchantAccount":"Shop"}`).want(t, 201)
	b.flush(t)
	if got := s.events(t); !slices.Equal(got, []string{"AUTHORISATION true"}) {
		t.Errorf("events are %v", got)
	}
	b.AdvanceClock(60_000_000_000)
	b.flush(t)
	if got := s.events(t); !slices.Equal(got, []string{"AUTHORISATION true", "CANCEL_OR_REFUND true"}) {
		t.Errorf("events are %v", got)
	}
}

func TestWebhookSettingsAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for _, body := range []string{
		`{`, `{"provider":"klarna"}`, `{"provider":"stripe","duplicates":-1}`, `{"provider":"stripe","duplicates":11}`,
		`{"provider":"stripe","loss":1.1}`, `{"provider":"stripe","delay_ms":60001}`, `{"provider":"stripe","extra":1}`,
		`{"provider":"stripe","url":"http://127.0.0.1:1/"}`, `{"provider":"stripe","secrets":["whsec_1"]}`,
		`{"provider":"stripe","url":"http://192.0.2.1/","secrets":["whsec_1"]}`, `{"provider":"stripe","url":"http://shop.example/","secrets":["whsec_1"]}`,
		`{"provider":"stripe","url":"file:///etc/passwd","secrets":["whsec_1"]}`, `{"provider":"stripe","url":"http://[::ffff:192.0.2.1]/","secrets":["x"]}`,
		`{"provider":"adyen","url":"http://127.0.0.1:1/","secrets":["no hex"]}`, `{"provider":"paypal","url":"http://127.0.0.1:1/"}`,
	} {
		b.control(t, "/webhooks", body, http.StatusBadRequest)
	}
	shown := b.control(t, "/webhooks", `{"provider":"adyen","url":"http://localhost:1/","secrets":["`+adyenHMACKey+`"],"loss":1}`, http.StatusOK)
	if strings.Contains(shown.body, adyenHMACKey) || !strings.Contains(shown.body, "http://localhost:1/") {
		t.Errorf("shown as %s", shown.body)
	}
	b.control(t, "/webhooks", `{"reorder":true,"seed":5}`, http.StatusOK)
	for _, each := range b.Webhooks() {
		if !each.Reorder || each.Seed != 5 || each.Loss != 0 {
			t.Errorf("set for all: %+v", each)
		}
	}
	far := map[string]sandbox.WebhookTarget{"stripe": {URL: "https://shop.example/", Secrets: []string{"whsec_1"}}}
	if (sandbox.Options{Webhooks: far}).Validate() == nil || (sandbox.Options{Webhooks: far, WebhooksAnywhere: true}).Validate() != nil {
		t.Error("a target on another machine is to be allowed on request only")
	}
}
