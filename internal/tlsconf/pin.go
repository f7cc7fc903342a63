package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ErrWrongPin is wrapped when a server shows another certificate than the one
// that was announced.
var ErrWrongPin = errors.New("not the certificate that was announced")

// ephemeralLifetime is as good as for ever: whoever pins a certificate trusts it
// because of its digest, for as long as the digest is in force, and looks at no
// date. So a wrong clock on one of the machines does not matter.
const ephemeralLifetime = 100 * 365 * 24 * time.Hour

// Ephemeral makes a key and a certificate that live in this process only, for
// one purpose. It returns the config of a listener that shows it, demands none
// from clients (they prove themselves otherwise), and the pin: the SHA-256 of
// the certificate in lower-case hex, which clients get on a way that is trusted
// (ADR 0027).
func Ephemeral(name string) (cfg *tls.Config, pin string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-ephemeralLifetime), NotAfter: now.Add(ephemeralLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		DynamicRecordSizingDisabled: true, // small first records are for browsers
		SessionTicketsDisabled:      true,
		Certificates:                []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, pinOf(der), nil
}

func pinOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Pinned returns the config of a client that accepts exactly the server whose
// certificate has this SHA-256, whatever its name and dates; nil for an empty
// pin. It shows no certificate.
func Pinned(pin string) *tls.Config {
	if pin == "" {
		return nil
	}
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		DynamicRecordSizingDisabled: true,
		// There is no authority to ask: VerifyConnection compares the digest.
		InsecureSkipVerify: true, //nolint:gosec // verified below
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return ErrNoCertificate
			}
			if got := pinOf(cs.PeerCertificates[0].Raw); subtle.ConstantTimeCompare([]byte(got), []byte(pin)) != 1 {
				return fmt.Errorf("%w: got SHA-256 %s, want %s: somebody else listens there", ErrWrongPin, got, clip(pin))
			}
			return nil
		},
	}
}
