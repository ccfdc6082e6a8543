package pgdev

import "strings"

// installAdvice says how to install PostgreSQL on a system: by Go's name of it, and on Linux its os-release file.
func installAdvice(goos, osRelease string) string {
	if goos == "darwin" {
		return "Install it with `brew install postgresql@17` or as Postgres.app"
	}
	for _, system := range systemNames(osRelease) {
		switch system {
		case "debian", "ubuntu":
			return "Install it with `apt-get install postgresql` (as root)"
		case "fedora", "rhel", "centos":
			return "Install it with `dnf install postgresql-server` (as root)"
		case "suse", "opensuse":
			return "Install it with `zypper install postgresql-server` (as root)"
		case "alpine":
			return "Install it with `apk add postgresql` (as root)"
		case "arch":
			return "Install it with `pacman -S postgresql` (as root)"
		}
	}
	return "Install PostgreSQL's server package"
}

// systemNames are the system's own name and then those that it says it is like.
func systemNames(osRelease string) []string {
	var own string
	var like []string
	for line := range strings.Lines(osRelease) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); name {
		case "ID":
			own = value
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append([]string{own}, like...)
}
