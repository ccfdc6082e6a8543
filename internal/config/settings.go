package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Setting describes one variable of the environment, for documentation.
type Setting struct {
	Name        string
	Default     string // empty when there is none
	Description string
	Example     string // how to write it, where that is not plain
	Required    bool   // `paysaga serve` does not start without it
	Secret      bool   // its value is never printed
}

// Settings lists all settings in the order of the documentation.
func Settings() []Setting {
	settings := allSettings()
	list := make([]Setting, len(settings))
	for i, s := range settings {
		list[i] = s.Setting
	}
	return list
}

// Table gives all settings as a Markdown table.
func Table() string {
	var table strings.Builder
	table.WriteString("| Variable | Default | What it sets |\n|---|---|---|\n")
	for _, s := range Settings() {
		byDefault := "none"
		if s.Default != "" {
			byDefault = "`" + s.Default + "`"
		}
		description := s.Description
		if s.Example != "" {
			description += " Such as `" + s.Example + "`."
		}
		if s.Required {
			description += " Required."
		}
		if s.Secret {
			description += " Secret."
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", s.Name, byDefault, description)
	}
	return table.String()
}

// setting is a Setting and the way its value gets into a Config.
type setting struct {
	Setting

	parse func(c *Config, value string) error
}

// Bounds of the durations. The lower ones let tests be quick; the upper ones catch a wrong unit.
const (
	minLease = 100 * time.Millisecond
	// maxLease: an order whose server died waits this long for another one, and its customer with it.
	maxLease = 10 * time.Minute

	minCallTimeout = 100 * time.Millisecond
	// maxCallTimeout: stripe-go itself gives up after 80 s; nothing is known that answers after that.
	maxCallTimeout = 2 * time.Minute

	minRecoveryInterval = 10 * time.Millisecond
	maxRecoveryInterval = time.Minute // an abandoned order is not left longer than it takes a customer to call

	minAwaitDeadline = time.Second
	maxAwaitDeadline = 7 * 24 * time.Hour // Stripe cancels an uncaptured payment after 7 days

	minNoticeWait = time.Second
	maxNoticeWait = 24 * time.Hour // Adyen's notices that were refused come for a month, and stock is not held that long

	minDrainTimeout = 100 * time.Millisecond
	maxDrainTimeout = 10 * time.Minute // no supervisor waits longer before it kills

	// minRetention is the shortest memory that clients may count on, as it is Stripe's promise, which they know. Each provider
	// that is on asks for its own memory besides (see memories).
	minRetention = 24 * time.Hour
	maxRetention = 366 * 24 * time.Hour // answers hold customers' data, and are not kept for ever
)

// Bounds of a request body, in bytes. The longest order that the API accepts is some tens of KiB.
const (
	minMaxBody = 1 << 10
	maxMaxBody = 1 << 20
)

// allSettings is the one table of all settings.
func allSettings() []setting {
	return slices.Concat(
		connectionSettings(), stripeSettings(), adyenSettings(), paypalSettings(), timeSettings(), idempotencySettings(),
		reconcileSettings(), logSettings(),
	)
}

// Names that more than one place needs.
const (
	callTimeoutName   = "PAYSAGA_CALL_TIMEOUT"
	drainTimeoutName  = "PAYSAGA_DRAIN_TIMEOUT"
	awaitDeadlineName = "PAYSAGA_AWAIT_DEADLINE"
	retentionName     = "PAYSAGA_RETENTION"
)

func databaseURLSetting() setting {
	return setting{Setting{ //nolint:gosec // G101: the password in the example is the word "password"
		Name: "DATABASE_URL", Required: true, Secret: true,
		Description: "Where PostgreSQL is, version 14 or newer.",
		Example:     "postgres://user:password@host:5432/database",
	}, func(c *Config, value string) error { return parseDatabaseURL(&c.DatabaseURL, value) }}
}

func connectionSettings() []setting {
	return []setting{
		databaseURLSetting(),
		{Setting{
			Name: encryptionKeysName, Required: true, Secret: true,
			Description: "The keys that seal the kept answers, `id:key[,id:key…]`, each key 32 random bytes in base64. " +
				"The first one seals, all of them open.",
			Example: "k1:$(openssl rand -base64 32)",
		}, func(c *Config, value string) error { return parseEncryptionKeys(&c.EncryptionKeys, value) }},
		{Setting{
			Name:        encryptionKeysFileName,
			Description: "A file with the encryption keys, one a line or with commas between, instead of `PAYSAGA_ENCRYPTION_KEYS`.",
		}, func(*Config, string) error { return nil }}, // read before all others: see readKeysFile
		{Setting{
			Name: "PAYSAGA_ADDR", Default: "127.0.0.1:8080",
			Description: "Host and port to listen on. Port 0 picks a free one.",
		}, func(c *Config, value string) error { return parseAddr(&c.Addr, value) }},
		{Setting{
			Name: "PAYSAGA_MAX_BODY", Default: "65536",
			Description: "The longest request body, in bytes: 1024 to 1048576.",
		}, func(c *Config, value string) error { return parseBytes(&c.MaxBody, value, minMaxBody, maxMaxBody) }},
	}
}

func timeSettings() []setting {
	return []setting{
		durationSetting("PAYSAGA_LEASE", "30s", minLease, maxLease,
			"How long a server's claim on a saga holds unless it is renewed, which happens at a third of it.",
			func(c *Config) *time.Duration { return &c.Lease }),
		durationSetting(callTimeoutName, "20s", minCallTimeout, maxCallTimeout,
			"The longest wait for one provider call. After it the outcome counts as unknown.",
			func(c *Config) *time.Duration { return &c.CallTimeout }),
		durationSetting("PAYSAGA_RECOVERY_INTERVAL", "1s", minRecoveryInterval, maxRecoveryInterval,
			"How often to look for sagas that nobody drives.",
			func(c *Config) *time.Duration { return &c.RecoveryInterval }),
		durationSetting(awaitDeadlineName, "30m", minAwaitDeadline, maxAwaitDeadline,
			"How long an order waits for its customer. A provider that is still processing is waited for seven days.",
			func(c *Config) *time.Duration { return &c.AwaitDeadline }),
		durationSetting("PAYSAGA_NOTICE_WAIT", "5m", minNoticeWait, maxNoticeWait,
			"How long a charge of unknown outcome waits for its webhook where nobody can ask, at Adyen; then it is undone.",
			func(c *Config) *time.Duration { return &c.NoticeWait }),
		durationSetting(drainTimeoutName, "25s", minDrainTimeout, maxDrainTimeout,
			"How long a stopping server lets running orders finish. Not shorter than a provider call.",
			func(c *Config) *time.Duration { return &c.DrainTimeout }),
		durationSetting(retentionName, "720h", minRetention, maxRetention,
			"How long an idempotency key keeps its answer. Not shorter than the providers that are on remember theirs.",
			func(c *Config) *time.Duration { return &c.Retention }),
	}
}

func logSettings() []setting {
	return []setting{
		{Setting{
			Name: "PAYSAGA_LOG_FORMAT", Default: "text",
			Description: "`text` for people, `json` for collectors.",
		}, func(c *Config, value string) error { return parseLogFormat(&c.LogFormat, value) }},
		{Setting{
			Name: "PAYSAGA_LOG_LEVEL", Default: "info",
			Description: "`debug`, `info`, `warn` or `error`.",
		}, func(c *Config, value string) error { return parseLogLevel(&c.LogLevel, value) }},
	}
}

func durationSetting(
	name, byDefault string, shortest, longest time.Duration, description string, field func(*Config) *time.Duration,
) setting {
	return setting{
		Setting{
			Name: name, Default: byDefault,
			Description: fmt.Sprintf("%s %s to %s.", description, brief(shortest), brief(longest)),
		},
		func(c *Config, value string) error { return parseDuration(field(c), value, shortest, longest) },
	}
}
