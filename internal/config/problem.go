package config

import "fmt"

// SettingError is one thing that is wrong with the settings. It never holds the value of a secret.
type SettingError struct {
	Name string // the variable to mend
	Text string // what is wrong and what to do, one line
}

// Error gives the one line that an operator reads.
func (p *SettingError) Error() string { return p.Name + ": " + p.Text }

func problemf(name, format string, arguments ...any) *SettingError {
	return &SettingError{Name: name, Text: fmt.Sprintf(format, arguments...)}
}
