package httpapi

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
)

// Keys are kept for weeks: a request must have the fingerprint tomorrow that it has today.
func TestFingerprintsStay(t *testing.T) {
	t.Parallel()
	const head = `{"currency":"EUR","amount":3998,"items":[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}],`
	for body, want := range map[string]string{
		head + `"payment":{"provider":"stripe","method":"pm_card_visa","capture":"automatic"},"customer":{"reference":"customer-4711"}}`: "7ac62996c1774a3be1ad475088c525f2c5c201494dd0ecca3ff1eaa675b214bb",
		head + `"payment":{"provider":"stripe","method":"pm_card_visa"}}`:                                                                "018bf603bcfeb6c3c5e257f550b2da7c99d552bdf0ece1a379f464c3e3ebfe7f",
		head + `"payment":{"provider":"stripe","method":"pm_card_visa","on_decline":"roll_back"}}`:                                       "018bf603bcfeb6c3c5e257f550b2da7c99d552bdf0ece1a379f464c3e3ebfe7f",
	} {
		if got := orderFingerprint(decodedBody[api.OrderRequest](t, body)); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s\nhas %x, want %s", body, got, want)
		}
	}
}

// Each field that means the intent makes another fingerprint, and no two operations share one.
func TestFingerprintsDiffer(t *testing.T) {
	t.Parallel()
	const head = `{"currency":"EUR","amount":1,"items":[{"sku":"A","quantity":1,"unit_amount":1}],"payment":`
	one, two := uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"), uuid.MustParse("8c4b5f0e-2a36-5d51-8e0f-61b7d9a3c250")
	seen := map[idempotency.Fingerprint]string{}
	add := func(what string, fingerprint idempotency.Fingerprint) {
		if other, taken := seen[fingerprint]; taken {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[fingerprint] = what
	}
	for _, payment := range []string{
		`{"provider":"a","method":"x"}`, `{"provider":"a","method":"x","capture":"manual"}`, `{"provider":"a","method":"x","on_decline":"await"}`,
		`{"provider":"a","method_data":{"x":"y"}}`, `{"provider":"a","method_data":{"x":"z"}}`, `{"provider":"a","method":"{\"x\":\"y\"}"}`,
	} {
		add("order "+payment, orderFingerprint(decodedBody[api.OrderRequest](t, head+payment+"}")))
	}
	for _, body := range []string{
		`{}`, `{"details":{"a":"b"}}`, `{"details":{"a":"c"}}`, `{"payment":{"method":"x"}}`, `{"payment":{"provider":"a","method":"x"}}`,
		`{"payment":{"method_data":{"a":"b"}}}`,
	} {
		add("continue "+body, continueFingerprint(one, decodedBody[api.ContinueRequest](t, body)))
	}
	add("continue of another order", continueFingerprint(two, api.ContinueRequest{}))
	add("capture", captureFingerprint(one, 0, true))
	add("capture that is not the last", captureFingerprint(one, 0, false))
	add("capture of a part", captureFingerprint(one, 1, true))
	add("capture of another order", captureFingerprint(two, 0, true))
	add("cancel", cancelFingerprint(one))
	add("cancel of another order", cancelFingerprint(two))
	add("refund", refundFingerprint(one, api.RefundRequest{}))
	add("refund of a part", refundFingerprint(one, api.RefundRequest{Amount: 1}))
	add("refund with a reason", refundFingerprint(one, api.RefundRequest{Reason: "1"}))
	add("refund of another order", refundFingerprint(two, api.RefundRequest{}))
	if a, b := `{"payment":{"method":"x","return_url":"https://a.example"}}`, `{"payment":{"method":"x"}}`; continueFingerprint(one,
		decodedBody[api.ContinueRequest](t, a)) != continueFingerprint(one, decodedBody[api.ContinueRequest](t, b)) {
		t.Error("the return URL counts")
	}
}

func decodedBody[T any](t *testing.T, body string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
