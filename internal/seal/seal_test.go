package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/internal/seal"
)

func newRing(t *testing.T, keys ...string) *seal.Ring {
	t.Helper()
	ring, err := seal.NewRing(strings.Join(keys, ","))
	if err != nil {
		t.Fatalf("new ring: %v", err)
	}
	return ring
}

func TestSealedOpensWithTheSameContextOnly(t *testing.T) {
	t.Parallel()
	ring := newRing(t, seal.GenerateKey("k1"))

	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		context := rapid.SliceOf(rapid.Byte()).Draw(t, "context")
		other := rapid.SliceOf(rapid.Byte()).Filter(func(other []byte) bool {
			return string(other) != string(context)
		}).Draw(t, "other context")

		sealed, err := ring.Seal(plain, context)
		if err != nil {
			t.Fatalf("seal: %v", err)
		}
		opened, err := ring.Open(sealed, context)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if string(opened) != string(plain) {
			t.Errorf("opened %x, sealed %x", opened, plain)
		}
		if _, err := ring.Open(sealed, other); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("open with another context: got %v, want ErrDamaged", err)
		}
	})
}

func TestAnyChangeIsNoticed(t *testing.T) {
	t.Parallel()
	ring := newRing(t, seal.GenerateKey("k1"), seal.GenerateKey("k2"), seal.GenerateKey("k"))
	context := []byte("account/endpoint/key")

	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := ring.Seal(plain, context)
		if err != nil {
			t.Fatalf("seal: %v", err)
		}
		position := rapid.IntRange(0, len(sealed)-1).Draw(t, "position")
		sealed[position] ^= rapid.ByteRange(1, 255).Draw(t, "difference")
		requireRefused(t, ring, sealed, context)
	})
}

func TestEveryBitIsGuarded(t *testing.T) {
	t.Parallel()
	ring := newRing(t, seal.GenerateKey("k1"), seal.GenerateKey("k2"), seal.GenerateKey("k"))
	context := []byte("account/endpoint/key")
	sealed, err := ring.Seal([]byte(`{"status":"confirmed"}`), context)
	if err != nil {
		t.Fatalf("seal: %v", err)
	}

	for position := range sealed {
		for bit := range 8 {
			changed := append([]byte(nil), sealed...)
			changed[position] ^= 1 << bit
			requireRefused(t, ring, changed, context)
		}
	}
	for length := range sealed {
		requireRefused(t, ring, sealed[:length], context)
	}
	requireRefused(t, ring, append(append([]byte(nil), sealed...), 0), context)
}

func requireRefused(t rapid.TB, ring *seal.Ring, sealed, context []byte) {
	t.Helper()
	opened, err := ring.Open(sealed, context)
	if !errors.Is(err, seal.ErrDamaged) && !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("open changed message %x: got error %v, want ErrDamaged or ErrUnknownKey", sealed, err)
	}
	if opened != nil {
		t.Errorf("open changed message %x: got %x, want nothing", sealed, opened)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	oldKey, newKey := seal.GenerateKey("2026"), seal.GenerateKey("2027")
	before, during, after := newRing(t, oldKey), newRing(t, newKey, oldKey), newRing(t, newKey)
	plain, context := []byte("answer"), []byte("row 1")

	sealedBefore, err := before.Seal(plain, context)
	if err != nil {
		t.Fatalf("seal before the rotation: %v", err)
	}
	sealedDuring, err := during.Seal(plain, context)
	if err != nil {
		t.Fatalf("seal during the rotation: %v", err)
	}

	for _, test := range []struct {
		name   string
		ring   *seal.Ring
		sealed []byte
		want   error
	}{
		{"the old key still opens", during, sealedBefore, nil},
		{"the new key seals", after, sealedDuring, nil},
		{"the old key does not open what the new one sealed", before, sealedDuring, seal.ErrUnknownKey},
		{"a key taken out no longer opens", after, sealedBefore, seal.ErrUnknownKey},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opened, err := test.ring.Open(test.sealed, context)
			if !errors.Is(err, test.want) {
				t.Fatalf("open: got error %v, want %v", err, test.want)
			}
			if test.want == nil && string(opened) != string(plain) {
				t.Errorf("opened %q, want %q", opened, plain)
			}
		})
	}
}

// Resealed, a message needs the first key alone. Which key has sealed it shows in its first bytes.
func TestReseal(t *testing.T) {
	t.Parallel()
	oldKey, newKey := seal.GenerateKey("2026"), seal.GenerateKey("2027")
	ring := newRing(t, newKey, oldKey)
	if diff := cmp.Diff([]string{"2027", "2026"}, ring.KeyIDs()); diff != "" {
		t.Errorf("key ids (-want +got):\n%s", diff)
	}
	plain, context := []byte("answer"), []byte("row 1")
	sealed, err := newRing(t, oldKey).Seal(plain, context)
	if err != nil {
		t.Fatal(err)
	}
	requireKeyID(t, sealed, "2026")
	if _, err := ring.Reseal(sealed, []byte("row 2")); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("reseal in another context: got %v, want ErrDamaged", err)
	}
	if _, err := newRing(t, newKey).Reseal(sealed, context); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("reseal without the old key: got %v, want ErrUnknownKey", err)
	}
	again, err := ring.Reseal(sealed, context)
	if err != nil {
		t.Fatal(err)
	}
	requireKeyID(t, again, "2027")
	if !bytes.HasPrefix(again, ring.Header()) || bytes.HasPrefix(sealed, ring.Header()) {
		t.Error("the header does not tell what the first key has sealed")
	}
	if opened, err := newRing(t, newKey).Open(again, context); err != nil || !bytes.Equal(opened, plain) {
		t.Errorf("opened %q, %v", opened, err)
	}
}

// requireKeyID reads the id from a whole message, and from its beginning alone.
func requireKeyID(t *testing.T, sealed []byte, want string) {
	t.Helper()
	for _, part := range [][]byte{sealed, sealed[:min(len(sealed), seal.MaxHeaderLength)]} {
		if id, err := seal.KeyID(part); err != nil || id != want {
			t.Errorf("key id %q, %v; want %q", id, err, want)
		}
	}
	if _, err := seal.KeyID([]byte("no message")); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("key id of no message: %v", err)
	}
}

func TestSameKeyIDWithAnotherKeyIsDamage(t *testing.T) {
	t.Parallel()
	sealed, err := newRing(t, seal.GenerateKey("k1")).Seal([]byte("answer"), nil)
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	if _, err := newRing(t, seal.GenerateKey("k1")).Open(sealed, nil); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("open: got %v, want ErrDamaged", err)
	}
}

func TestSealHidesAndNeverRepeats(t *testing.T) {
	t.Parallel()
	ring := newRing(t, seal.GenerateKey("k1"))
	plain := []byte("a body that must not be readable")

	seen := make(map[string]bool)
	for range 100 {
		sealed, err := ring.Seal(plain, nil)
		if err != nil {
			t.Fatalf("seal: %v", err)
		}
		if bytes.Contains(sealed, plain) {
			t.Fatal("the sealed message holds the plain text")
		}
		if seen[string(sealed)] {
			t.Fatal("two sealed messages are equal")
		}
		seen[string(sealed)] = true
	}
}

func TestSealBoundsTheMessage(t *testing.T) {
	t.Parallel()
	ring := newRing(t, seal.GenerateKey("k1"))
	if _, err := ring.Seal(make([]byte, seal.MaxPlainLength), nil); err != nil {
		t.Errorf("seal the longest message: %v", err)
	}
	if _, err := ring.Seal(make([]byte, seal.MaxPlainLength+1), nil); !errors.Is(err, seal.ErrTooLong) {
		t.Errorf("seal one byte more: got %v, want ErrTooLong", err)
	}
}

// knownKey is made for these tests alone: the bytes 0 to 31.
const knownKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func TestFormatStaysReadable(t *testing.T) {
	t.Parallel()
	// Sealed by the first version of this package. Whatever changes, rows like this one must open.
	const sealedThen = "AQJrMVASTSIFdg4ApsI65KPeBYwJu33wsFNO2a8bZaiCeUWdAxs8ND61yd2kmbG9oZ6rJ0o="
	sealed, err := base64.StdEncoding.DecodeString(sealedThen)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	opened, err := newRing(t, "k1:"+knownKey).Open(sealed, []byte("row 1"))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if diff := cmp.Diff("an answer of long ago", string(opened)); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
}

func TestNewRingRefuses(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	many := make([]string, 17)
	for i := range many {
		many[i] = seal.GenerateKey(fmt.Sprintf("k%d", i))
	}

	for _, test := range []struct{ name, spec, want string }{
		{"nothing", "", "key 1: has no id"},
		{"a bare key", knownKey, "key 1: has no id"},
		{"an empty id", ":" + knownKey, "key 1: the id must be"},
		{"an id with a space", "k 1:" + knownKey, "key 1: the id must be"},
		{"an id outside ASCII", "kä:" + knownKey, "key 1: the id must be"},
		{"an id of 33 characters", strings.Repeat("k", 33) + ":" + knownKey, "key 1: the id must be"},
		{"no key", "k1:", "key 1: the key must be"},
		{"no base64", "k1:" + strings.Repeat("!", 44), "key 1: the key must be"},
		{"hexadecimal", "k1:" + strings.Repeat("0f", 32), "key 1: the key must be"},
		{"31 bytes", "k1:" + encode(make([]byte, 31)), "key 1: the key must be"},
		{"33 bytes", "k1:" + encode(make([]byte, 33)), "key 1: the key must be"},
		{"trailing bits", "k1:" + strings.Replace(knownKey, "8=", "9=", 1), "key 1: the key must be"},
		{"all bytes zero", "k1:" + encode(make([]byte, 32)), "key 1: all bytes of the key are the same"},
		{"all bytes 0xff", "k1:" + strings.Repeat("/", 42) + "8=", "key 1: all bytes of the key are the same"},
		{"a trailing comma", "k1:" + knownKey + ",", "key 2: has no id"},
		{"a bad second key", "k1:" + knownKey + ",k2:short", "key 2: the key must be"},
		{"an id twice", "k1:" + knownKey + "," + seal.GenerateKey("k1"), `two keys have the id "k1"`},
		{"a key twice", "k1:" + knownKey + ",k2:" + knownKey, `"k1" and "k2" are the same key`},
		{"17 keys", strings.Join(many, ","), "17 keys, at most 16 are allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := seal.NewRing(test.spec)
			if !errors.Is(err, seal.ErrInvalidSpec) {
				t.Fatalf("got error %v, want ErrInvalidSpec", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want it to contain %q", err, test.want)
			}
			requireSilentOnKeys(t, err.Error(), test.spec)
		})
	}
}

// requireSilentOnKeys fails when the text repeats any eight characters of a key in the spec.
func requireSilentOnKeys(t *testing.T, text, spec string) {
	t.Helper()
	for entry := range strings.SplitSeq(spec, ",") {
		_, key, found := strings.Cut(entry, ":")
		if !found {
			key = entry
		}
		for start := 0; start+8 <= len(key); start++ {
			if strings.Contains(text, key[start:start+8]) {
				t.Fatalf("the error %q repeats a part of the key", text)
			}
		}
	}
}

func TestNewRingAcceptsSpacesBetweenKeys(t *testing.T) {
	t.Parallel()
	newRing(t, seal.GenerateKey("2026-11"), " "+seal.GenerateKey("2025.a_B")+"\n")
}

func TestRingPrintsNoKeys(t *testing.T) {
	t.Parallel()
	ring := newRing(t, "k1:"+knownKey, seal.GenerateKey("k2"))
	const want = `key ring of 2, sealing with "k1"`
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(verb, ring); got != want {
			t.Errorf("%s: got %q, want %q", verb, got, want)
		}
	}
}
