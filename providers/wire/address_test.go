package wire_test

import (
	"testing"

	"paysaga/providers/wire"
)

func TestCheckBaseURL(t *testing.T) {
	t.Parallel()
	for base, fine := range map[string]bool{
		"https://api.example.com": true, "https://api.example.com/v71": true, "http://127.0.0.1:9090": true, "http://[::1]:9090": true,
		"http://sandbox:9090": true, "": false, "api.example.com": false, "ftp://api.example.com": false, "http://api.example.com": false,
		"http://10.0.0.1": false, "http://[fe80::1%25eth0]:9090": false, "https://user:secret@api.example.com": false,
		"https://api.example.com?a=b": false, "https://api.example.com#a": false, "https://%zz": false,
	} {
		if err := wire.CheckBaseURL(base, wire.IsNearby); (err == nil) != fine {
			t.Errorf("%q: %v", base, err)
		}
	}
}
