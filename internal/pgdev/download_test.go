//go:build unix

package pgdev

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

func TestFailedDownloadLeavesNothing(t *testing.T) {
	t.Parallel()
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	cache := t.TempDir()
	err := fetch(t.Context(), empty.URL, embeddedpostgres.V17, cache, filepath.Join(cache, "target"))
	if err == nil {
		t.Error("a repository without the build gives no error")
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
