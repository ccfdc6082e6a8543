package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestBoundedBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		size int
		want error
	}{{0, nil}, {1, nil}, {99, nil}, {100, nil}, {101, ErrBodyTooLarge}, {5000, ErrBodyTooLarge}}
	for _, test := range tests {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "data with EOF": iotest.DataErrReader,
		} {
			inner := io.NopCloser(wrap(bytes.NewReader(make([]byte, test.size))))
			read, err := io.ReadAll(&boundedBody{body: inner, left: 100})
			if !errors.Is(err, test.want) || test.want == nil && len(read) != test.size {
				t.Errorf("%s, %d bytes: read %d, %v", name, test.size, len(read), err)
			}
		}
	}
}
