package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paysaga/internal/config"
	"paysaga/internal/seal"
)

// A command that works on the database alone asks for no provider's settings, and minds none.
func TestLoadParts(t *testing.T) {
	t.Parallel()
	const database = "DATABASE_URL=postgres://localhost/paysaga"
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(seal.GenerateKey("k9")), 0o600); err != nil {
		t.Fatal(err)
	}
	upkeep, err := config.LoadUpkeep([]string{database, "PAYSAGA_EXPIRED_KEYS=reject", "PAYSAGA_ENCRYPTION_KEYS=unreadable"})
	if err != nil || upkeep.Retention != 30*24*time.Hour || upkeep.Idempotency.ExpiredKeys != "reject" || upkeep.DatabaseURL.Reveal() == "" {
		t.Errorf("upkeep: %+v, %v", upkeep, err)
	}
	sealing, err := config.LoadSealing([]string{database, "PAYSAGA_ENCRYPTION_KEYS_FILE=" + file, "PAYSAGA_RETENTION=long"})
	if err != nil || sealing.EncryptionKeys.KeyIDs()[0] != "k9" {
		t.Errorf("sealing: %v", err)
	}
	for want, load := range map[string]func() (config.Config, error){
		"PAYSAGA_RETENTION": func() (config.Config, error) {
			return config.LoadUpkeep([]string{database, "PAYSAGA_RETENTION=long"})
		},
		"DATABASE_URL": func() (config.Config, error) { return config.LoadUpkeep(nil) },
		"PAYSAGA_ENCRYPTION_KEYS": func() (config.Config, error) {
			return config.LoadSealing([]string{database})
		},
		"PAYSAGA_ENCRYPTION_KEYS_FILE": func() (config.Config, error) {
			return config.LoadSealing([]string{database, "PAYSAGA_ENCRYPTION_KEYS_FILE=/nowhere"})
		},
	} {
		if _, err := load(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want one about %s", err, want)
		}
	}
}
