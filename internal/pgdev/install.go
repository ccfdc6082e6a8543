package pgdev

import (
	"fmt"
	"strings"
)

// installAdvice says how to install PostgreSQL on a system: by Go's name of it, and on Linux its os-release file.
func installAdvice(goos, osRelease string) string {
	if goos == "darwin" {
		return "Install it with `brew install postgresql@17` or as Postgres.app"
	}
	commands := map[string]string{
		"debian": "apt-get install postgresql", "ubuntu": "apt-get install postgresql",
		"fedora": "dnf install postgresql-server", "rhel": "dnf install postgresql-server",
		"centos": "dnf install postgresql-server",
		"alpine": "apk add postgresql",
		"arch":   "pacman -S postgresql",
		"suse":   "zypper install postgresql-server", "opensuse": "zypper install postgresql-server",
	}
	for _, system := range systemNames(osRelease) {
		if command, ok := commands[system]; ok {
			return fmt.Sprintf("Install it with `%s` (as root)", command)
		}
	}
	return "Install PostgreSQL's server package"
}

// systemNames are the system's own name and then those that it says it is like.
func systemNames(osRelease string) []string {
	var own, like []string
	for line := range strings.Lines(osRelease) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); name {
		case "ID":
			own = []string{value}
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append(own, like...)
}
