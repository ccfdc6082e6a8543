package sandbox

import (
	"encoding/hex"
	"testing"
)

// TestAdyenKnownSignature is the example that Adyen publishes with its libraries.
func TestAdyenKnownSignature(t *testing.T) {
	t.Parallel()
	key, err := hex.DecodeString("44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")
	if err != nil {
		t.Fatal(err)
	}
	item := adyenItem{
		PSPReference: "7914073381342284", MerchantAccountCode: "TestMerchant", MerchantReference: "TestPayment-1407325143704",
		Amount: adyenAmount{Currency: "EUR", Value: 1130}, EventCode: "AUTHORISATION", Success: "true",
	}
	if got, want := signAdyen(item, key), "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="; got != want {
		t.Errorf("signature is %s, want %s", got, want)
	}
}
