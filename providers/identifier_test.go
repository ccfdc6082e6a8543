package providers_test

import (
	"testing"

	"paysaga/providers"
)

func TestSagaKeyOfASubKey(t *testing.T) {
	t.Parallel()
	const key = "5b2c1d7e-0f3a-5c4d-8e9f-a0b1c2d3e4f5"
	for text, want := range map[providers.SubKey]bool{
		key + "_charge": true, key + "_refund_2": true,
		key: false, key + "_": false, key + "-charge": false, "order-7_charge": false, "": false,
		"5B2C1D7E-0F3A-5C4D-8E9F-A0B1C2D3E4F5_charge": false, "5b2c1d7e00f3a05c4d08e9f0a0b1c2d3e4f5_charge": false,
	} {
		got, ok := text.SagaKey()
		if ok != want || ok && got.String() != key {
			t.Errorf("%q: %s, %t", text, got, ok)
		}
	}
}
