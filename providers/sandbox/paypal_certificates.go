package sandbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"time"
)

const (
	certificatePath = "/v1/notifications/certs/CERT-sandbox"
	// certificateName is the subject of PayPal's own certificate for webhooks.
	certificateName = "messageverificationcerts.paypal.com"
	rsaBits         = 2048
)

// authority is the sandbox's own chain of certificates: root, intermediate, and the one that signs webhooks. It is made when
// it is first needed, as keys take a moment, and anew with each start: nobody should come to trust it.
type authority struct {
	once   sync.Once
	err    error
	root   []byte // PEM
	served []byte // PEM: the signing certificate and the intermediate, as PayPal serves them
	key    *rsa.PrivateKey
}

// found makes the chain.
func (y *authority) found() error {
	y.once.Do(func() { y.err = y.make() })
	return y.err
}

func (y *authority) make() error {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make root key: %w", err)
	}
	middleKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make intermediate key: %w", err)
	}
	y.key, err = rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return fmt.Errorf("make signing key: %w", err)
	}
	root := certificateTemplate(1, "paysaga sandbox root", true)
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return fmt.Errorf("make root certificate: %w", err)
	}
	middle := certificateTemplate(2, "paysaga sandbox intermediate", true)
	middleDER, err := x509.CreateCertificate(rand.Reader, middle, root, middleKey.Public(), rootKey)
	if err != nil {
		return fmt.Errorf("make intermediate certificate: %w", err)
	}
	leaf := certificateTemplate(3, certificateName, false)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, middle, crypto.PublicKey(&y.key.PublicKey), middleKey)
	if err != nil {
		return fmt.Errorf("make signing certificate: %w", err)
	}
	y.root = certificatePEM(rootDER)
	y.served = append(certificatePEM(leafDER), certificatePEM(middleDER)...)
	return nil
}

// certificateTemplate is valid for any clock that a test may have, the sandbox's own included.
func certificateTemplate(serial int64, name string, authority bool) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"paysaga sandbox"}},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC),
		BasicConstraintsValid: true, IsCA: authority, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if authority {
		template.KeyUsage = x509.KeyUsageCertSign
		return template
	}
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return template
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// showRootCertificate is GET /_sandbox/paypal-root.pem.
func (s *Server) showRootCertificate(w http.ResponseWriter, _ *http.Request) {
	s.sendCertificate(w, func() []byte { return s.authority.root })
}

func (s *Server) sendCertificate(w http.ResponseWriter, certificate func() []byte) {
	if err := s.authority.found(); err != nil {
		s.refuse(w, http.StatusInternalServerError, err)
		return
	}
	given := answer{status: http.StatusOK, body: certificate()}
	if err := given.with("Content-Type", "application/x-pem-file").writeTo(w); err != nil {
		s.log.Debug("certificate not delivered", "error", err)
	}
}

// uuidText is a random UUID.
func uuidText() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails; it ends the program instead
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
