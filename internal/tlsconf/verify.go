package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Why a peer's certificate is refused. The errors that wrap these say which
// certificate it was, the rule, and what to do.
var (
	ErrNoCertificate    = errors.New("no certificate")
	ErrUnknownAuthority = errors.New("unknown authority")
	ErrExpired          = errors.New("certificate expired")
	ErrNotYetValid      = errors.New("certificate not valid yet")
	ErrWrongName        = errors.New("wrong host in certificate")
	ErrWrongUsage       = errors.New("certificate not for this use")
	ErrWrongCluster     = errors.New("certificate of another cluster")
	ErrWrongRole        = errors.New("certificate of another role")
	ErrRevoked          = errors.New("certificate revoked")
)

// Only returns a copy of a config of this package that accepts peers of some
// roles only; nil stays nil. A peer without a certificate, which a config of
// Optional lets in, passes.
func Only(cfg *tls.Config, roles ...Role) *tls.Config {
	return alsoVerify(cfg, func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return nil
		}
		id, err := RoleOf(cs)
		if err != nil {
			return err
		}
		if !slices.Contains(roles, id.Role) {
			return fmt.Errorf("%w: %s is a %s, only %s may be here", ErrWrongRole, id, id.Role, rolesText(roles))
		}
		return nil
	})
}

func rolesText(roles []Role) string {
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
	}
	return strings.Join(texts, " or ")
}

// alsoVerify returns a copy of cfg that asks one question more of each peer.
func alsoVerify(cfg *tls.Config, more func(tls.ConnectionState) error) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	inner := c.VerifyConnection
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if inner != nil {
			if err := inner(cs); err != nil {
				return err
			}
		}
		return more(cs)
	}
	return c
}

// Optional returns a copy of a listener's config that lets in peers without a
// certificate, and verifies those who show one as before; nil stays nil. What
// they may see is then decided for each request: see Demand.
func Optional(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	c.ClientAuth = tls.RequestClientCert
	if inner := c.VerifyConnection; inner != nil {
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			return inner(cs)
		}
	}
	return c
}

// ForHost returns a copy of a dialler's config that verifies this host. Callers
// that dial addresses need it: crypto/tls does not tell VerifyConnection an IP
// address, because none is sent as a server name. A ServerName that is already
// set stays.
func ForHost(cfg *tls.Config, host string) *tls.Config {
	c := cfg.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	if inner, name := c.VerifyConnection, c.ServerName; inner != nil {
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			cs.ServerName = name
			return inner(cs)
		}
	}
	return c
}

// verify is the verification of crypto/tls, against the authorities of the last
// reload, and that both ends are of one cluster. name is the host that the
// certificate must be for, empty for any.
func (s *Source) verify(chain []*x509.Certificate, name string, usage x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return ErrNoCertificate
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	m, now, leaf := s.state.Load(), s.now(), chain[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.pool, Intermediates: intermediates, DNSName: name, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return refusal(leaf, err, now)
	}
	if m.revoked.has(leaf) {
		return fmt.Errorf("%w: certificate of %s, number %x, is in the list of %s", ErrRevoked, holder(leaf), leaf.SerialNumber, RevokedFile)
	}
	id, err := IdentityOf(leaf)
	if err != nil {
		return err
	}
	if id.Role == RoleDriver {
		return fmt.Errorf("%w: %s: no authority issues that role", ErrWrongRole, id)
	}
	if id.Cluster != m.self.Cluster {
		return fmt.Errorf("%w: %s, this is %s", ErrWrongCluster, id, m.self)
	}
	return nil
}

// refusal says what crypto/x509 found in our words. The text holds no time of
// now: a log that says each thing once knows it again.
func refusal(leaf *x509.Certificate, err error, now time.Time) error {
	who := holder(leaf)
	var invalid x509.CertificateInvalidError
	var stranger x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &stranger):
		return fmt.Errorf("%w: certificate of %s is signed by %q, which is not in ca_file", ErrUnknownAuthority, who, clip(leaf.Issuer.CommonName))
	case errors.As(err, &host):
		return fmt.Errorf("%w: certificate of %s is for %s, not for %s: issue it with --san %s", ErrWrongName, who, sansText(leaf), clip(host.Host), clip(host.Host))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		end := invalid.Cert
		if end == nil {
			end = leaf
		}
		whose := "certificate of " + who
		if end.IsCA {
			whose = fmt.Sprintf("authority %q of %s", clip(end.Subject.CommonName), who)
		}
		if now.Before(end.NotBefore) {
			return fmt.Errorf("%w: %s begins on %s, which is to come by the clock here: compare the clocks", ErrNotYetValid, whose, stampText(end.NotBefore))
		}
		return fmt.Errorf("%w: %s ended on %s: renew it with hearth ca renew", ErrExpired, whose, stampText(end.NotAfter))
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w: certificate of %s lacks the extended key usage for this end of a connection", ErrWrongUsage, who)
	}
	return fmt.Errorf("certificate of %s: %w", who, err)
}

// holder names a certificate that may not be trusted.
func holder(leaf *x509.Certificate) string {
	if id, err := IdentityOf(leaf); err == nil {
		return id.String()
	}
	return fmt.Sprintf("%q", clip(leaf.Subject.CommonName))
}

// maxSANsShown bounds how much of a certificate is repeated in an error.
const maxSANsShown = 8

func sansText(leaf *x509.Certificate) string {
	sans := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		sans = append(sans, ip.String())
	}
	switch {
	case len(sans) == 0:
		return "no host"
	case len(sans) > maxSANsShown:
		sans = append(sans[:maxSANsShown], "…")
	}
	return clip(strings.Join(sans, ", "))
}
