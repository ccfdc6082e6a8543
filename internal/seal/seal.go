package seal

import (
	"errors"
	"fmt"
)

// formatVersion opens every sealed message, so that another format can come beside this one. It may never be used anew.
const formatVersion = 1

// MaxPlainLength bounds one message, in bytes. Answers are a few KiB; a megabyte leaves room and still catches a mistake.
const MaxPlainLength = 1 << 20

var (
	// ErrUnknownKey tells that the message was sealed with a key that the ring does not hold, as after taking a key out too
	// early. Put it back and the message opens again.
	ErrUnknownKey = errors.New("sealed with an unknown key")
	// ErrDamaged tells that the message was changed, cut short, or sealed for another context.
	ErrDamaged = errors.New("sealed message is damaged")
	// ErrTooLong tells that the message is longer than MaxPlainLength.
	ErrTooLong = errors.New("message is too long to seal")
)

// Seal encrypts plain, which may be empty, with the ring's first key. The context is not kept in the result, but the same
// one must be given to Open: with the row's own key as context, a sealed answer cannot be moved to another row. The error
// is ErrTooLong or nil.
//
// The result is: version, 1 byte · length of the key id, 1 byte · key id · nonce, 12 bytes · ciphertext · tag, 16 bytes.
func (r *Ring) Seal(plain, context []byte) ([]byte, error) {
	if len(plain) > MaxPlainLength {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLong, len(plain), MaxPlainLength)
	}
	header := r.Header()
	aead := r.keys[r.ids[0]]
	return aead.Seal(header, nil, plain, additionalData(header, context)), nil //nolint:gosec // G407: this AEAD draws the nonce itself
}

// Header is how everything begins that the ring's first key has sealed, and nothing else does.
func (r *Ring) Header() []byte {
	id := r.ids[0]
	return append([]byte{formatVersion, byte(len(id))}, id...) //nolint:gosec // G115: at most maxKeyIDLength
}

// Reseal opens a message and seals it with the ring's first key. The errors are those of Open.
func (r *Ring) Reseal(sealed, context []byte) ([]byte, error) {
	plain, err := r.Open(sealed, context)
	if err != nil {
		return nil, err
	}
	return r.Seal(plain, context)
}

// MaxHeaderLength is how many of a message's first bytes KeyID needs at most.
const MaxHeaderLength = 2 + maxKeyIDLength

// KeyID tells which key has sealed a message, of which the beginning is enough. Nothing of it is verified. The error is ErrDamaged.
func KeyID(sealed []byte) (string, error) {
	id, _, _, err := split(sealed)
	return id, err
}

// Open decrypts what Seal made, given the same context. The error is ErrUnknownKey, ErrDamaged or nil.
func (r *Ring) Open(sealed, context []byte) ([]byte, error) {
	id, header, ciphertext, err := split(sealed)
	if err != nil {
		return nil, err
	}
	aead, known := r.keys[id]
	if !known {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKey, id)
	}
	plain, err := aead.Open(nil, nil, ciphertext, additionalData(header, context))
	if err != nil {
		return nil, ErrDamaged // GCM tells nothing more, on purpose.
	}
	return plain, nil
}

// split takes a sealed message apart. Nothing in it can be trusted yet.
func split(sealed []byte) (id string, header, ciphertext []byte, err error) {
	const fixedLength = 2 // the version and the id's length
	if len(sealed) < fixedLength || sealed[0] != formatVersion {
		return "", nil, nil, fmt.Errorf("%w: not of a known format", ErrDamaged)
	}
	headerLength := fixedLength + int(sealed[1])
	if len(sealed) < headerLength || !validKeyID(string(sealed[fixedLength:headerLength])) {
		return "", nil, nil, fmt.Errorf("%w: no key id", ErrDamaged)
	}
	return string(sealed[fixedLength:headerLength]), sealed[:headerLength], sealed[headerLength:], nil
}

// additionalData is what GCM authenticates besides the message. The header tells its own length, so that no two pairs of
// header and context come to the same bytes.
func additionalData(header, context []byte) []byte {
	data := make([]byte, 0, len(header)+len(context))
	data = append(data, header...)
	return append(data, context...)
}
