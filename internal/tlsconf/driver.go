package tlsconf

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// RoleDriver is the role in the certificate of an attempt of a driver in cluster
// mode. No authority issues it: worker and masters know the secret of the attempt,
// and its key follows from that (ADR 0041). It is taken by a config of Drivers
// only.
const RoleDriver Role = "driver"

// ErrUnknownDriver is wrapped by the refusal of a certificate that claims to be of
// a driver.
var ErrUnknownDriver = errors.New("certificate of an unknown driver")

// driverKeyInfo separates the key from anything else that may ever be derived from
// the same secret.
const driverKeyInfo = "hearth driver certificate, P-256, v1"

// driverKey derives the key of a driver from its secret: the first of the outputs
// of HKDF-SHA256 (RFC 5869), taken 32 bytes at a time, that is a scalar of P-256.
func driverKey(secret string) (*ecdsa.PrivateKey, error) {
	const scalar, tries = 32, 4 // one of 2^32 outputs is none
	if secret == "" {
		return nil, errors.New("there is no secret")
	}
	stream, err := hkdf.Key(sha256.New, []byte(secret), nil, driverKeyInfo, scalar*tries)
	if err != nil {
		return nil, err
	}
	for ; len(stream) >= scalar; stream = stream[scalar:] {
		if _, err := ecdh.P256().NewPrivateKey(stream[:scalar]); err == nil {
			return ecdsa.ParseRawPrivateKey(elliptic.P256(), stream[:scalar])
		}
	}
	return nil, errors.New("no key follows from the secret")
}

// DriverPair makes the certificate and the key with which an attempt of a driver
// proves to the masters of a cluster that it is that. name says which one it is:
// see model.DriverRefName. Who holds the secret can make the pair, nobody else.
func DriverPair(cluster, name, secret string) (certPEM, keyPEM []byte, err error) {
	id := Identity{Cluster: cluster, Role: RoleDriver, Name: name}
	fail := func(err error) ([]byte, []byte, error) {
		return nil, nil, fmt.Errorf("make the certificate of %s: %w", id, err)
	}
	if err := id.ValidatePeer(); err != nil {
		return fail(err)
	}
	key, err := driverKey(secret)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{id.URI()},
		// It is good for as long as its attempt is: nobody looks at dates.
		NotBefore: now.Add(-ephemeralLifetime), NotAfter: now.Add(ephemeralLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fail(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// Drivers returns a copy of a listener's config that also lets in attempts of
// drivers in cluster mode; nil stays nil. secretOf tells the secret of the attempt
// of that name, while it is known; it is called in handshakes, from many goroutines.
// What an attempt may do, and whether it is still the present one, is decided for
// each call.
func Drivers(cfg *tls.Config, secretOf func(name string) (secret string, ok bool)) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	inner := c.VerifyConnection
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if id, err := RoleOf(cs); err == nil && id.Role == RoleDriver {
			return verifyDriver(cs.PeerCertificates[0], id, Own(cfg), secretOf)
		}
		if inner == nil {
			return ErrNoCertificate
		}
		return inner(cs)
	}
	return c
}

// verifyDriver compares the key of a certificate with the one that follows from
// the secret of the attempt it names. The handshake has proved that the peer has
// the key.
func verifyDriver(leaf *x509.Certificate, id Identity, own *x509.Certificate, secretOf func(string) (string, bool)) error {
	if own == nil {
		return fmt.Errorf("verify driver: %w: %s", ErrUnknownDriver, id)
	}
	here, err := IdentityOf(own)
	if err != nil {
		return fmt.Errorf("verify driver: %w", err)
	}
	if id.Cluster != here.Cluster {
		return fmt.Errorf("verify driver: %w: %s, this is %s", ErrWrongCluster, id, here)
	}
	secret, ok := secretOf(id.Name)
	if !ok {
		return fmt.Errorf("verify driver: %w: %s is no attempt that this master knows", ErrUnknownDriver, id)
	}
	key, err := driverKey(secret)
	if err != nil {
		return fmt.Errorf("verify driver: %w: %s: %w", ErrUnknownDriver, id, err)
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return fmt.Errorf("verify driver: %w: %s shows the key of somebody else", ErrUnknownDriver, id)
	}
	return nil
}

// Authorities returns the certificates of the authorities that are trusted now, in
// PEM form: what a client of this cluster needs as its ca_file. They are no secret.
// Nil for a nil Source.
func (s *Source) Authorities() []byte {
	if s == nil {
		return nil
	}
	var out []byte
	for _, a := range s.state.Load().authorities {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Raw})...)
	}
	return out
}
