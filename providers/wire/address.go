package wire

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// CheckBaseURL tells whether calls that move money may go to an API at this address. Plain http is for hosts that plain allows. The
// error says what is wrong and does not repeat the address: it may hold a password.
func CheckBaseURL(base string, plain func(host string) bool) error {
	parsed, err := url.Parse(base)
	switch {
	case err != nil || parsed.Hostname() == "":
		return errors.New("the base URL is no absolute URL")
	case parsed.User != nil:
		return errors.New("the base URL must not hold a user or password")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return errors.New("the base URL must not have a query or fragment")
	case parsed.Scheme == "https", parsed.Scheme == "http" && plain(parsed.Hostname()):
		return nil
	case parsed.Scheme == "http":
		return errors.New("the base URL must be https: plain http would show a key that moves money to the network")
	default:
		return errors.New("the base URL must begin with https://")
	}
}

// IsNearby tells a loopback address, or a host name of one label such as a container's, which is in no public DNS. Where a key does not
// show whether it moves real money, its host has to.
func IsNearby(host string) bool {
	if address := net.ParseIP(host); address != nil {
		return address.IsLoopback()
	}
	return host != "" && !strings.ContainsAny(host, ".:") // a colon: an address with a zone
}
