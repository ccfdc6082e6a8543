package serverlog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/serverlog"
)

func TestFinder(t *testing.T) {
	t.Parallel()
	var log recorder
	finder := serverlog.NewFinder(&log)
	parts := []string{
		"panic: no JSON\n{\"msg\":\"star", "ting\",\"url\":\"http://wrong\"}\n{\"msg\":\"listening\",\"ur",
		"l\":\"http://127.0.0.1:1\"}\n{\"msg\":\"listening\",", "\"url\":\"http://late\"}\n",
	}
	for _, part := range parts {
		if _, err := finder.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := <-finder.Found, "http://127.0.0.1:1"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if diff := cmp.Diff(strings.Join(parts, ""), string(log)); diff != "" {
		t.Errorf("the log was not passed on as it came (-want +got):\n%s", diff)
	}
}

// recorder keeps what is written.
type recorder []byte

func (r *recorder) Write(p []byte) (int, error) {
	*r = append(*r, p...)
	return len(p), nil
}
