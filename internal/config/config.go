// Package config reads paysaga's settings from the environment and refuses those that are missing or contradict each
// other: all of them at once, one line each, which names the variable and what to do.
//
// It only reads and checks. It opens no connection, no file but one that a setting names, and never repeats a secret's value. The table in
// settings.go is the one place where a setting is named, described and given its default.
package config

import (
	"log/slog"
	"time"

	"paysaga/internal/seal"
)

// Config is what `paysaga serve` runs with. Every field is filled, except those whose comment says otherwise.
type Config struct {
	DatabaseURL Secret // how to reach PostgreSQL, a URL or "key=value" pairs; it may hold a password
	Addr        string // host:port to listen on; port 0 picks a free one

	Lease            time.Duration // how long a claim on a saga holds unless it is renewed
	CallTimeout      time.Duration // the longest wait for one provider call
	RecoveryInterval time.Duration // how often the recovery worker looks for sagas that nobody drives
	AwaitDeadline    time.Duration // how long an order waits for its customer
	NoticeWait       time.Duration // how long a charge of unknown outcome waits for its notice where nobody can ask
	DrainTimeout     time.Duration // how long a stopping server lets running orders finish
	Retention        time.Duration // how long a key keeps its answer

	Idempotency    Idempotency
	UpkeepInterval time.Duration // how often expired keys and answers are cleaned up
	Reconcile      Reconcile

	MaxBody        int64      // the longest request body, in bytes
	EncryptionKeys *seal.Ring // seals the answers kept under keys

	Stripe Stripe // of the three, those that are configured
	Adyen  Adyen
	PayPal PayPal

	LogFormat LogFormat
	LogLevel  slog.Level
}

// LogFormat is how log records are written.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text" // for people
	LogJSON LogFormat = "json" // one object a line, for collectors
)

// Load reads the settings of `paysaga serve` from environ, whose entries are "NAME=value" as in os.Environ; of a name that
// comes twice the last counts, and an empty value is the same as none. The error joins one *SettingError for each thing that is
// wrong, in the order of the settings table.
func Load(environ []string) (Config, error) {
	return loadEnvironment(environ).config()
}

// LoadDatabaseURL reads DATABASE_URL alone, for the commands that need nothing but the database. The error is a *SettingError.
func LoadDatabaseURL(environ []string) (Secret, error) {
	var c Config
	if problem := databaseURLSetting().read(loadEnvironment(environ), &c); problem != nil {
		return "", problem
	}
	return c.DatabaseURL, nil
}
