package config

import (
	"errors"
	"slices"
)

// LoadUpkeep reads what upkeep needs: DatabaseURL, Retention, Idempotency.ExpiredKeys and UpkeepInterval.
func LoadUpkeep(environ []string) (Config, error) {
	return loadEnvironment(environ).part("DATABASE_URL", retentionName, "PAYSAGA_EXPIRED_KEYS", upkeepIntervalName)
}

// LoadSealing reads what is needed to seal and open: DatabaseURL and EncryptionKeys.
func LoadSealing(environ []string) (Config, error) {
	e := loadEnvironment(environ)
	if problem := readKeysFile(e); problem != nil {
		return Config{}, problem
	}
	return e.part("DATABASE_URL", encryptionKeysName)
}

// part reads some settings and looks at no others, so that a command which works on the database alone needs no provider's.
func (e environment) part(names ...string) (Config, error) {
	var c Config
	var problems []error
	for _, s := range allSettings() {
		if !slices.Contains(names, s.Name) {
			continue
		}
		if problem := s.read(e, &c); problem != nil {
			problems = append(problems, problem)
		}
	}
	return c, errors.Join(problems...)
}
