package config

import "log/slog"

// redacted stands for a secret wherever it would be printed.
const redacted = "[redacted]"

// Secret is a value that must not be printed: fmt, slog and encoding/json all show a placeholder. Reveal gives the value.
type Secret string

// Reveal gives the value itself, for the one place that has to use it.
func (s Secret) Reveal() string { return string(s) }

// String hides the value from fmt.
func (Secret) String() string { return redacted }

// GoString hides the value from fmt's %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the value from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the value from encoding/json and other encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
