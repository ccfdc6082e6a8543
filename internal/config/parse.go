package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"paysaga/internal/seal"
)

// What can be wrong with one value. Those about secrets, and about URLs, which may hold a password, do not repeat it.
var (
	errDatabaseURL = errors.New("is no PostgreSQL address; write it as postgres://user:password@host:5432/database")
	errAddr        = errors.New("is no address to listen on; write it as host:port, such as 127.0.0.1:8080")
	errBaseURL     = errors.New("is no base URL; write it as https://host or https://host/path, without user, query or fragment")
	errBool        = errors.New("must be true or false")
	errLogFormat   = errors.New("must be text or json")
	errLogLevel    = errors.New("must be debug, info, warn or error")
	errNoDuration  = errors.New("is no duration; write a number and its unit, such as 500ms, 30s or 720h")
	errNoNumber    = errors.New("is no number of bytes; write digits only, such as 65536")
)

// boundsError tells that a value is outside what is sensible.
type boundsError struct{ value, lowest, highest string }

func (e *boundsError) Error() string {
	return fmt.Sprintf("is %s; it must be between %s and %s", e.value, e.lowest, e.highest)
}

// parseDatabaseURL knows PostgreSQL's two forms by sight. The driver reads them properly when it connects.
func parseDatabaseURL(field *Secret, value string) error {
	scheme, _, isURL := strings.Cut(value, "://")
	if isURL && scheme != "postgres" && scheme != "postgresql" {
		return errDatabaseURL
	}
	if _, err := url.Parse(value); isURL && err != nil {
		return errDatabaseURL
	}
	if !isURL && !strings.Contains(value, "=") {
		return errDatabaseURL
	}
	*field = Secret(value)
	return nil
}

func parseEncryptionKeys(field **seal.Ring, value string) error {
	ring, err := seal.NewRing(value)
	if err != nil {
		return fmt.Errorf("holds %w", err)
	}
	*field = ring
	return nil
}

func parseAddr(field *string, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return errAddr
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errAddr
	}
	*field = value
	return nil
}

func parseBaseURL(field *string, value string) error {
	base, err := url.Parse(value)
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Hostname() == "" {
		return errBaseURL
	}
	if base.User != nil || strings.ContainsAny(value, "?#") {
		return errBaseURL
	}
	*field = strings.TrimRight(base.String(), "/")
	return nil
}

func parseDuration(field *time.Duration, value string, shortest, longest time.Duration) error {
	duration, err := time.ParseDuration(value)
	if err != nil {
		return errNoDuration
	}
	if duration < shortest || duration > longest {
		return &boundsError{value: brief(duration), lowest: brief(shortest), highest: brief(longest)}
	}
	*field = duration
	return nil
}

func parseBytes(field *int64, value string, lowest, highest int64) error {
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errNoNumber
	}
	if number < lowest || number > highest {
		return &boundsError{
			value: value, lowest: strconv.FormatInt(lowest, 10), highest: strconv.FormatInt(highest, 10),
		}
	}
	*field = number
	return nil
}

func parseBool(field *bool, value string) error {
	switch value {
	case "true":
		*field = true
	case "false":
		*field = false
	default:
		return errBool
	}
	return nil
}

func parseLogFormat(field *LogFormat, value string) error {
	switch format := LogFormat(value); format {
	case LogText, LogJSON:
		*field = format
		return nil
	default:
		return errLogFormat
	}
}

func parseLogLevel(field *slog.Level, value string) error {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(value, level.String()) {
			*field = level
			return nil
		}
	}
	return errLogLevel
}

// brief writes a duration without the zeros that String adds, "10m" for "10m0s".
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
