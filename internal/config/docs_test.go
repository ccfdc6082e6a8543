package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/config"
)

// The page is written by hand around a table that is not: between these markers stands what config.Table gives.
const (
	settingsPage = "../../docs/settings.md"
	tableBegin   = "<!-- settings:begin -->\n"
	tableEnd     = "<!-- settings:end -->"
)

func TestSettingsPageHasTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	_, after, begun := strings.Cut(string(page), tableBegin)
	got, _, ended := strings.Cut(after, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no table between %q and %q", settingsPage, tableBegin, tableEnd)
	}
	if diff := cmp.Diff(config.Table(), got); diff != "" {
		t.Errorf("the table in %s is not the one of the code (-code +page):\n%s\nIt should be:\n%s", settingsPage, diff, config.Table())
	}
}
