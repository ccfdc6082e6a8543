package paypal

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"paysaga/providers/wire"
)

const (
	// payPalDomain is where signing certificates may be and whose name they bear. The dot keeps "evilpaypal.com" out.
	payPalDomain = ".paypal.com"
	// maxChainBytes bounds a certificate file. PayPal's, with its chain, is about 6 KiB.
	maxChainBytes = 64 << 10
	// maxChainLength bounds the certificates in a file: a leaf and a few between it and a root.
	maxChainLength = 5
	// maxKept bounds the kept certificates. PayPal uses one or two at a time.
	maxKept = 16
	// keptFor is how long a certificate is used without asking for it again, so that one which PayPal withdraws does not serve for ever.
	keptFor = 24 * time.Hour
	// maxFetches bounds the fetches at once: anybody may send messages with made-up addresses, each of which costs one.
	maxFetches = 4
	// minKeyBits is what a signing key must have, as everywhere in the web's PKI.
	minKeyBits = 2048
)

var (
	payPalHostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.){1,5}paypal\.com(:443)?$`)
	pathForm       = regexp.MustCompile(`^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`)
)

var errNotFound = errors.New("no such certificate")

// certificates fetches the certificates with which PayPal signs, checks whose they are, and keeps them.
type certificates struct {
	http   *http.Client
	roots  *x509.CertPool // nil: the system's
	places []string       // allowed besides paypal.com, "host:port"
	turns  chan struct{}
	mutex  sync.Mutex
	kept   map[string]keptCertificate
}

type keptCertificate struct {
	key   *rsa.PublicKey
	until time.Time
}

func newCertificates(config Config) *certificates {
	return &certificates{
		http:   wire.Client(config.HTTPClient, maxChainBytes),
		roots:  config.Roots,
		places: slices.Clone(config.CertificateHosts),
		turns:  make(chan struct{}, maxFetches),
		kept:   make(map[string]keptCertificate),
	}
}

// key is the public key of the certificate at an address. Only a certificate that was found good is kept.
func (c *certificates) key(ctx context.Context, address string, now time.Time) (*rsa.PublicKey, error) {
	if !c.allowed(address) {
		return nil, fmt.Errorf("%w: the certificate is not at PayPal's", ErrSignature)
	}
	if key, ok := c.keptKey(address, now); ok {
		return key, nil
	}
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too many certificates are being fetched", ErrUnavailable)
	}
	if key, ok := c.keptKey(address, now); ok {
		return key, nil // another message brought it meanwhile
	}
	chain, err := c.fetch(ctx, address)
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("%w: there is no such certificate", ErrSignature)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the certificate cannot be fetched", ErrUnavailable)
	}
	key, until, err := c.check(chain, now)
	if err != nil {
		return nil, err
	}
	c.keep(address, keptCertificate{key: key, until: until}, now)
	return key, nil
}

// allowed tells whether a certificate may be fetched from an address: else anybody could sign, or make us call into our own
// network. The address must be written in the one plain way: no user, port, query, escape or upper case can hide another host.
func (c *certificates) allowed(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil || len(address) > 500 || parsed.Scheme+"://"+parsed.Host+parsed.Path != address || !pathForm.MatchString(parsed.Path) {
		return false
	}
	if slices.Contains(c.places, parsed.Host) {
		return parsed.Scheme == "https" || parsed.Scheme == "http" && wire.IsNearby(parsed.Hostname())
	}
	return parsed.Scheme == "https" && payPalHostForm.MatchString(parsed.Host)
}

func (c *certificates) keptKey(address string, now time.Time) (*rsa.PublicKey, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found, ok := c.kept[address]
	return found.key, ok && now.Before(found.until)
}

// keep makes room by what has run out, and then by anything: PayPal's own come back by themselves.
func (c *certificates) keep(address string, found keptCertificate, now time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for old, certificate := range c.kept {
		if len(c.kept) >= maxKept || !now.Before(certificate.until) {
			delete(c.kept, old)
		}
	}
	c.kept[address] = found
}

func (c *certificates) fetch(ctx context.Context, address string) ([]byte, error) {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for certificate: %w", err)
	}
	response, err := c.http.Do(asked)
	if err != nil {
		return nil, fmt.Errorf("fetch certificate: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // the body is read whole, or lost anyway
	switch {
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusBadRequest:
		return nil, errNotFound
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("fetch certificate: HTTP status %d", response.StatusCode)
	}
	chain, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return chain, nil
}

// check follows the chain to a root, and tells the leaf's key and how long it serves.
func (c *certificates) check(file []byte, now time.Time) (*rsa.PublicKey, time.Time, error) {
	chain, ok := readChain(file)
	if !ok {
		return nil, time.Time{}, fmt.Errorf("%w: the certificate cannot be read", ErrSignature)
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // it signs messages, for which there is no usage of its own
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: no root vouches for the certificate", ErrSignature)
	}
	// The system's roots vouch for the whole web; roots that were given vouch for what they were given for.
	if c.roots == nil && !bearsPayPalsName(leaf) {
		return nil, time.Time{}, fmt.Errorf("%w: the certificate is not PayPal's", ErrSignature)
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < minKeyBits {
		return nil, time.Time{}, fmt.Errorf("%w: the certificate has no RSA key of %d bits", ErrSignature, minKeyBits)
	}
	until := now.Add(keptFor)
	if leaf.NotAfter.Before(until) {
		until = leaf.NotAfter
	}
	return key, until, nil
}

// readChain reads a PEM file of a leaf and the certificates between it and a root.
func readChain(file []byte) ([]*x509.Certificate, bool) {
	var chain []*x509.Certificate
	for len(chain) < maxChainLength {
		block, rest := pem.Decode(file)
		if block == nil {
			break
		}
		file = rest
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			return nil, false
		}
		chain = append(chain, certificate)
	}
	return chain, len(chain) > 0
}

func bearsPayPalsName(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(append(slices.Clone(leaf.DNSNames), leaf.Subject.CommonName), func(name string) bool {
		return strings.HasSuffix(strings.ToLower(name), payPalDomain)
	})
}
