package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Idempotency is what a house may choose about its keys. The words are those that package idempotency knows.
type Idempotency struct {
	Mode           string   // enforce, log_only
	MissingKey     string   // refuse, proceed
	MismatchStatus int      // 422, 409
	ExpiredKeys    string   // new, reject
	KeysPerMinute  int      // new keys of an account; 0 for any number
	DigestOnly     []string // endpoints whose answers are kept without their body
}

// DigestEndpoints are those that PAYSAGA_DIGEST_ONLY may name: their answers tell nothing that a client could not read from the order
// or the stock itself.
func DigestEndpoints() []string {
	return []string{"POST /v1/orders/{id}/cancel", "PATCH /v1/orders/{id}", "PUT /v1/stock/{sku}"}
}

const (
	keysPerMinuteName      = "PAYSAGA_NEW_KEYS_PER_MINUTE"
	upkeepIntervalName     = "PAYSAGA_UPKEEP_INTERVAL"
	encryptionKeysName     = "PAYSAGA_ENCRYPTION_KEYS"
	encryptionKeysFileName = "PAYSAGA_ENCRYPTION_KEYS_FILE"

	// maxKeysPerMinute: at one row for each account, a database does not count more.
	maxKeysPerMinute = 60_000

	minUpkeepInterval = 10 * time.Millisecond // for tests
	maxUpkeepInterval = 24 * time.Hour        // answers are made room for two weeks ahead
)

func idempotencySettings() []setting {
	return []setting{
		{Setting{
			Name: "PAYSAGA_IDEMPOTENCY_MODE", Default: "enforce",
			Description: "`enforce`, or `log_only` to carry every repeat out and only report what would have been blocked: " +
				"it protects from nothing, and is for the days before keys are enforced.",
		}, func(c *Config, value string) error {
			return parseWord(&c.Idempotency.Mode, value, "enforce", "log_only")
		}},
		{Setting{
			Name: "PAYSAGA_MISSING_KEY", Default: "refuse",
			Description: "`refuse` a request that needs a key and has none, or let it `proceed` unprotected; the answer then says so.",
		}, func(c *Config, value string) error {
			return parseWord(&c.Idempotency.MissingKey, value, "refuse", "proceed")
		}},
		{Setting{
			Name: "PAYSAGA_MISMATCH_STATUS", Default: "422",
			Description: "The status for a key that stands for another request: `422` or `409`.",
		}, func(c *Config, value string) error {
			var word string
			err := parseWord(&word, value, "422", "409")
			c.Idempotency.MismatchStatus, _ = strconv.Atoi(word)
			return err
		}},
		{Setting{
			Name: "PAYSAGA_EXPIRED_KEYS", Default: "new",
			Description: "What a key stands for that is used after its window: a `new` request, or nothing (`reject`, 410).",
		}, func(c *Config, value string) error {
			return parseWord(&c.Idempotency.ExpiredKeys, value, "new", "reject")
		}},
		{Setting{
			Name: keysPerMinuteName, Default: "100",
			Description: "How many new keys an account may begin in a minute, over all processes; 0 sets no limit. " +
				fmt.Sprintf("At most %d.", maxKeysPerMinute),
		}, func(c *Config, value string) error { return parseKeysPerMinute(&c.Idempotency.KeysPerMinute, value) }},
		{Setting{
			Name: "PAYSAGA_DIGEST_ONLY",
			Description: "Endpoints whose answers are kept without their body, as status, headers and SHA-256: a repeat gets no body. Of `" +
				strings.Join(DigestEndpoints(), "`, `") + "`, with commas between.",
		}, func(c *Config, value string) error { return parseDigestOnly(&c.Idempotency.DigestOnly, value) }},
		durationSetting(upkeepIntervalName, "10m", minUpkeepInterval, maxUpkeepInterval,
			"How often expired keys and answers are cleaned up, and room is made for those to come.",
			func(c *Config) *time.Duration { return &c.UpkeepInterval }),
	}
}

func parseWord(field *string, value string, words ...string) error {
	if !slices.Contains(words, value) {
		return fmt.Errorf("must be %s", strings.Join(words, " or "))
	}
	*field = value
	return nil
}

func parseKeysPerMinute(field *int, value string) error {
	number, err := strconv.Atoi(value)
	if err != nil || number < 0 || number > maxKeysPerMinute {
		return fmt.Errorf("must be a number from 0, for no limit, to %d", maxKeysPerMinute)
	}
	*field = number
	return nil
}

func parseDigestOnly(field *[]string, value string) error {
	for endpoint := range strings.SplitSeq(value, ",") {
		endpoint = strings.TrimSpace(endpoint)
		if !slices.Contains(DigestEndpoints(), endpoint) {
			return fmt.Errorf("names an endpoint whose answers must be kept; it may name %s", strings.Join(DigestEndpoints(), ", "))
		}
		*field = append(*field, endpoint)
	}
	return nil
}

// maxKeysFile bounds the file of the encryption keys, in bytes: sixteen of them take less than two KiB.
const maxKeysFile = 1 << 16

// readBounded reads a file whole, or none of it.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err //nolint:wrapcheck // told with its variable
	}
	defer file.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	if len(content) > maxKeysFile {
		return nil, errors.New("the file is too long")
	}
	return content, err //nolint:wrapcheck // told with its variable
}

// readKeysFile reads the encryption keys from the file that the environment names instead of them.
func readKeysFile(e environment) *SettingError {
	path, named := e[encryptionKeysFileName]
	if !named {
		return nil
	}
	if _, both := e[encryptionKeysName]; both {
		return problemf(encryptionKeysFileName, "is set beside %s; keep one of them", encryptionKeysName)
	}
	content, err := readBounded(path)
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		err = pathError.Err // without the path once more
	}
	if err != nil {
		return problemf(encryptionKeysFileName, "cannot be read: %s", err)
	}
	// One key a line reads better than one line of all.
	e[encryptionKeysName] = strings.Join(strings.Fields(strings.ReplaceAll(string(content), ",", " ")), ",")
	if e[encryptionKeysName] == "" {
		return problemf(encryptionKeysFileName, "names an empty file")
	}
	return nil
}
