package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// environment is the variables that are set, without those whose value is empty.
type environment map[string]string

func loadEnvironment(environ []string) environment {
	variables := make(environment, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = strings.TrimSpace(value) // A secret that is read from a file often ends with a newline.
		if variables[name] == "" {
			delete(variables, name)
		}
	}
	return variables
}

func (e environment) config() (Config, error) {
	var (
		c        Config
		problems []error
	)
	broken := make(map[string]bool)
	if problem := readKeysFile(e); problem != nil {
		broken[encryptionKeysName] = true
		problems = append(problems, problem)
	}
	for _, s := range allSettings() {
		if broken[s.Name] {
			continue
		}
		if problem := s.read(e, &c); problem != nil {
			broken[s.Name] = true
			problems = append(problems, problem)
		}
	}
	for _, rule := range contradictions() {
		if slices.ContainsFunc(rule.needs, func(name string) bool { return broken[name] }) {
			continue
		}
		if problem := rule.check(e, c); problem != nil {
			problems = append(problems, problem)
		}
	}
	for _, problem := range e.unknownVariables() {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return c, nil
}

// read puts the setting's value, or its default, into the configuration.
func (s setting) read(e environment, c *Config) *SettingError {
	value, set := e[s.Name]
	if !set && s.Required {
		return problemf(s.Name, "is not set; it is written like %s", s.Example)
	}
	if !set {
		value = s.Default
	}
	if value == "" {
		return nil
	}
	if err := s.parse(c, value); err != nil {
		return problemf(e.source(s.Name), "%s", err)
	}
	return nil
}

// source is the variable that a value came from: the encryption keys may be in a file.
func (e environment) source(name string) string {
	if name == encryptionKeysName && e[encryptionKeysFileName] != "" {
		return encryptionKeysFileName
	}
	return name
}

// ownPrefix starts the name of every variable that is paysaga's alone.
const ownPrefix = "PAYSAGA_"

// testPrefix starts the variables that only the tests read, such as PAYSAGA_TEST_DATABASE_URL.
const testPrefix = ownPrefix + "TEST_"

// ServerVariable and APIKeyVariable tell the commands that ask an API which one, and with which key. `paysaga serve` has no
// use for them and does not mind them.
const (
	ServerVariable = ownPrefix + "SERVER"
	APIKeyVariable = ownPrefix + "API_KEY"
	// OtherAPIKeyVariable is another account's, for `paysaga contract`.
	OtherAPIKeyVariable = ownPrefix + "OTHER_API_KEY"
)

// serviceLink is the shape of variables that Kubernetes sets in every container for a service that is called paysaga or
// paysaga-something: PAYSAGA_SERVICE_HOST, PAYSAGA_PORT, PAYSAGA_PORT_8080_TCP_ADDR. Nobody mistyped those.
var serviceLink = regexp.MustCompile(
	`^PAYSAGA(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// unknownVariables finds mistyped names, which would otherwise leave a default standing without a word.
func (e environment) unknownVariables() []*SettingError {
	settings := allSettings()
	known := make([]string, len(settings))
	for i, s := range settings {
		known[i] = s.Name
	}
	var unknown []string
	for name := range e {
		own := strings.HasPrefix(name, ownPrefix) && !strings.HasPrefix(name, testPrefix) &&
			name != ServerVariable && name != APIKeyVariable && name != OtherAPIKeyVariable
		if own && !slices.Contains(known, name) && !serviceLink.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	problems := make([]*SettingError, len(unknown))
	for i, name := range unknown {
		problems[i] = problemf(name, "is no setting of paysaga; did you mean %s?", nearest(name, known))
	}
	return problems
}

// nearest is the candidate that takes the fewest edits; of several, the first.
func nearest(name string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int { return editDistance(name, a) - editDistance(name, b) })
}

// maxComparedLength bounds the work that one name costs; no setting is half as long.
const maxComparedLength = 64

// editDistance is Levenshtein's: how many insertions, deletions and replacements of a byte make a into b.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), maxComparedLength)], b[:min(len(b), maxComparedLength)]
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			replaced := previous[j]
			if a[i] != b[j] {
				replaced++
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, replaced)
		}
		previous = current
	}
	return previous[len(b)]
}
