package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paysaga/internal/config"
)

func TestIdempotencySettingsRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"PAYSAGA_IDEMPOTENCY_MODE=off", "must be enforce or log_only"},
		{"PAYSAGA_MISSING_KEY=ignore", "must be refuse or proceed"},
		{"PAYSAGA_MISMATCH_STATUS=400", "must be 422 or 409"},
		{"PAYSAGA_EXPIRED_KEYS=old", "must be new or reject"},
		{"PAYSAGA_NEW_KEYS_PER_MINUTE=-1", "from 0, for no limit, to 60000"},
		{"PAYSAGA_NEW_KEYS_PER_MINUTE=60001", "from 0, for no limit, to 60000"},
		{"PAYSAGA_NEW_KEYS_PER_MINUTE=1e3", "from 0, for no limit, to 60000"},
		{"PAYSAGA_DIGEST_ONLY=POST /v1/orders", "whose answers must be kept"},
		{"PAYSAGA_DIGEST_ONLY=PATCH /v1/orders/{id},", "whose answers must be kept"},
		{"PAYSAGA_UPKEEP_INTERVAL=25h", "between 10ms and 24h"},
	} {
		t.Run(c[0], func(t *testing.T) {
			t.Parallel()
			requireRefused(t, with(c[0]), c[1])
		})
	}
}

func TestEncryptionKeysFromAFile(t *testing.T) {
	t.Parallel()
	const fromFile = "PAYSAGA_ENCRYPTION_KEYS="
	second := "k2:" + strings.Replace(encryptionKey, encryptionKey[:1], "Q", 1)
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "PAYSAGA_ENCRYPTION_KEYS_FILE=" + path
	}
	for name, content := range map[string]string{
		"one": "k1:" + encryptionKey, "one and a newline": "k1:" + encryptionKey + "\n",
		"two lines": "k1:" + encryptionKey + "\r\n" + second + "\r\n", "commas": " k1:" + encryptionKey + ", " + second + "\n",
	} {
		c, err := config.Load(with(fromFile, write(content)))
		if err != nil || c.EncryptionKeys == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"both":       {with(write("k1:" + encryptionKey)), "keep one of them"},
		"no file":    {with(fromFile, "PAYSAGA_ENCRYPTION_KEYS_FILE="+filepath.Join(t.TempDir(), "none")), "no such file"},
		"a folder":   {with(fromFile, "PAYSAGA_ENCRYPTION_KEYS_FILE="+t.TempDir()), "cannot be read"},
		"empty":      {with(fromFile, write("\n")), "empty file"},
		"too long":   {with(fromFile, write(strings.Repeat("k", 1<<17))), "too long"},
		"endless":    {with(fromFile, "PAYSAGA_ENCRYPTION_KEYS_FILE=/dev/zero"), "too long"},
		"no keys":    {with(fromFile, write("what is this")), "PAYSAGA_ENCRYPTION_KEYS_FILE: holds"},
		"a bare key": {with(fromFile, write(encryptionKey)), "PAYSAGA_ENCRYPTION_KEYS_FILE: holds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, c.environ, c.want)
		})
	}
}
