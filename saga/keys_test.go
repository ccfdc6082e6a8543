package saga

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// keyVectors is testdata/keys.json: what other languages derive identifiers by.
type keyVectors struct {
	SagaKeyNamespace string      `json:"saga_key_namespace"`
	PayPalNamespace  string      `json:"paypal_namespace"`
	Vectors          []keyVector `json:"vectors"`
}

type keyVector struct {
	Account              string   `json:"account"`
	Endpoint             string   `json:"endpoint"`
	Key                  string   `json:"key"`
	Generation           int      `json:"generation"`
	Step                 StepName `json:"step"`
	Attempt              int      `json:"attempt"`
	SagaKey              string   `json:"saga_key"`
	SubKey               string   `json:"sub_key"`
	StripeIdempotencyKey string   `json:"stripe_idempotency_key"`
	AdyenReference       string   `json:"adyen_reference"`
	PayPalRequestID      string   `json:"paypal_request_id"`
}

func readVectors(t *testing.T) keyVectors {
	t.Helper()
	content, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors keyVectors
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Vectors) < 12 {
		t.Fatalf("keys.json holds %d vectors, want at least 12", len(vectors.Vectors))
	}
	return vectors
}

// These values are at providers already: a change of any of them would charge somebody twice.
func TestIdentifiersArePublishedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Vectors {
		sagaKey := Key(v.Account, v.Endpoint, v.Key, v.Generation)
		subKey := SubKey(sagaKey, v.Step, v.Attempt)
		for _, derived := range []struct{ name, got, want string }{
			{"saga key", sagaKey.String(), v.SagaKey},
			{"sub-key", string(subKey), v.SubKey},
			{"Stripe's key", subKey.StripeIdempotencyKey(), v.StripeIdempotencyKey},
			{"Adyen's reference", subKey.AdyenReference(), v.AdyenReference},
			{"PayPal's request id", subKey.PayPalRequestID(), v.PayPalRequestID},
		} {
			if derived.got != derived.want {
				t.Errorf("%s of %.40s/%s/%d: got %s, want %s", derived.name, v.Key, v.Step, v.Attempt, derived.got, derived.want)
			}
		}
	}
}

// The recipe in keys.json, followed by hand, gives its vectors.
func TestPublishedRecipeGivesItsVectors(t *testing.T) {
	t.Parallel()
	file := readVectors(t)
	for _, v := range file.Vectors {
		generation := strconv.Itoa(v.Generation)
		name := fmt.Sprintf("%d:%s,%d:%s,%d:%s,%d:%s,", len(v.Account), v.Account, len(v.Endpoint), v.Endpoint,
			len(v.Key), v.Key, len(generation), generation)
		sagaKey := uuidV5(t, file.SagaKeyNamespace, name)
		subKey := sagaKey + "_" + string(v.Step)
		if v.Attempt > 1 {
			subKey += fmt.Sprintf("_%d", v.Attempt)
		}
		if sagaKey != v.SagaKey || subKey != v.SubKey || uuidV5(t, file.PayPalNamespace, subKey) != v.PayPalRequestID {
			t.Errorf("the recipe gives %s and %s; the vector says %s and %s", sagaKey, subKey, v.SagaKey, v.SubKey)
		}
	}
}

// uuidV5 is RFC 9562, section 5.5, in a few lines.
func uuidV5(t *testing.T, namespace, name string) string {
	t.Helper()
	space, err := hex.DecodeString(strings.ReplaceAll(namespace, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(append(space, name...))
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func TestPublishedVectorsShareNoIdentifier(t *testing.T) {
	t.Parallel()
	subKeys, requests := map[string]bool{}, map[string]bool{}
	for _, v := range readVectors(t).Vectors {
		if subKeys[v.SubKey] || requests[v.PayPalRequestID] {
			t.Errorf("the identifiers of %.40s/%s/%d are another vector's too", v.Key, v.Step, v.Attempt)
		}
		subKeys[v.SubKey], requests[v.PayPalRequestID] = true, true
	}
}

// keyInput is everything that an identifier is a function of.
type keyInput struct {
	Account, Endpoint, Key string
	Generation             int
	Step                   StepName
	Attempt                int
}

// drawKeyInput draws from few and colliding parts, so that inputs which run together when joined carelessly do come up.
func drawKeyInput(t *rapid.T, label string) keyInput {
	part := rapid.StringMatching(`[a1:,_]{0,4}`)
	steps := []StepName{StepReserve, StepRelease, StepCharge, StepContinue, StepCapture, StepVoid, StepRefund, StepConfirm}
	return keyInput{
		Account: part.Draw(t, label+" account"), Endpoint: part.Draw(t, label+" endpoint"), Key: part.Draw(t, label+" key"),
		Generation: rapid.IntRange(1, 12).Draw(t, label+" generation"),
		Step:       rapid.SampledFrom(steps).Draw(t, label+" step"),
		Attempt:    rapid.IntRange(1, 12).Draw(t, label+" attempt"),
	}
}

func TestDifferentInputsShareNoIdentifier(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := drawKeyInput(t, "one"), drawKeyInput(t, "other")
		first := SubKey(Key(one.Account, one.Endpoint, one.Key, one.Generation), one.Step, one.Attempt)
		second := SubKey(Key(other.Account, other.Endpoint, other.Key, other.Generation), other.Step, other.Attempt)
		if (one == other) != (first == second) {
			t.Fatalf("%+v has %s, %+v has %s", one, first, other, second)
		}
		if (first == second) != (first.PayPalRequestID() == second.PayPalRequestID()) {
			t.Fatalf("PayPal's ids of %s and %s do not tell them apart", first, second)
		}
	})
}

// Cutting a text in other places is the way in which joined parts collide.
func TestCuttingATextElsewhereGivesAnotherKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a1:,]{2,12}`).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
		other := rapid.IntRange(cut+1, len(text)).Draw(t, "other cut")
		if Key(text[:cut], text[cut:], "k", 1) == Key(text[:other], text[other:], "k", 1) {
			t.Fatalf("%q cut at %d and at %d gives one key", text, cut, other)
		}
	})
}

func TestSubKeysFitEveryProvider(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawKeyInput(t, "input")
		in.Attempt = rapid.IntRange(1, 1<<31-1).Draw(t, "any attempt")
		key := SubKey(Key(in.Account, in.Endpoint, in.Key, in.Generation), in.Step, in.Attempt)
		if len(key) > 64 { // Adyen's Idempotency-Key
			t.Fatalf("sub-key %s has %d characters", key, len(key))
		}
		if strings.ContainsAny(string(key), `:\`) { // Adyen joins fields with it when it signs
			t.Fatalf("sub-key %s has a character that Adyen's signature cannot take", key)
		}
		if len(key.PayPalRequestID()) > 38 {
			t.Fatalf("PayPal's id %s is too long", key.PayPalRequestID())
		}
	})
}
