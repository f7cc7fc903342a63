package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Role says what the holder of a certificate is. It is what rules speak of; the
// name is for people and for the audit trail.
type Role string

// The roles of machines (ADR 0026).
const (
	RoleMaster Role = "master"
	RoleWorker Role = "worker"
	RoleClient Role = "client"
)

// Roles returns all roles, in the order of what they may do.
func Roles() []Role { return []Role{RoleMaster, RoleWorker, RoleClient} }

// identityScheme begins the URI that holds an identity in a certificate.
const identityScheme = "hearth"

// MaxIdentityPart bounds the cluster's and the holder's name, in bytes.
const MaxIdentityPart = 63

// ErrNoIdentity is wrapped by the errors about a certificate that names no
// cluster and role, or a connection without any certificate.
var ErrNoIdentity = errors.New("no hearth identity")

// identityPart is what a cluster or a holder may be called: what needs no
// escaping in a URI, a file name or a shell.
var identityPart = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Identity is what a certificate says about its holder. In the certificate it is
// the one URI hearth://CLUSTER/ROLE/NAME among the subject's alternative names.
// Cluster is the name that the authority was made with, not the id that a
// cluster gives itself when it is founded: certificates exist before that.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// String is the URI.
func (i Identity) String() string {
	return identityScheme + "://" + i.Cluster + "/" + string(i.Role) + "/" + i.Name
}

// URI is what goes into a certificate; i is valid.
func (i Identity) URI() *url.URL {
	return &url.URL{Scheme: identityScheme, Host: i.Cluster, Path: "/" + string(i.Role) + "/" + i.Name}
}

// Validate reports every part that breaks a rule of what an authority may issue.
func (i Identity) Validate() error { return i.validate(Roles()) }

// ValidatePeer is Validate for whoever may be at the other end of a connection to
// a master: an attempt of a driver too.
func (i Identity) ValidatePeer() error { return i.validate(append(Roles(), RoleDriver)) }

func (i Identity) validate(roles []Role) error {
	var errs []error
	for _, part := range []struct{ what, text string }{{"cluster", i.Cluster}, {"name", i.Name}} {
		if len(part.text) > MaxIdentityPart || !identityPart.MatchString(part.text) {
			errs = append(errs, fmt.Errorf("%s %q: must be 1 to %d letters, digits, '-', '.' and '_', and begin and end with a letter or digit", part.what, clip(part.text), MaxIdentityPart))
		}
	}
	if !slices.Contains(roles, i.Role) {
		errs = append(errs, fmt.Errorf("role %q: must be one of master, worker, client", clip(string(i.Role))))
	}
	return errors.Join(errs...)
}

// clip keeps a stranger's text in a message short.
func clip(s string) string {
	if len(s) > MaxIdentityPart {
		return s[:MaxIdentityPart] + "…"
	}
	return s
}

// RoleOf returns who is at the other end of a connection that this package's
// configs have verified. It does not verify: on a connection made without them
// it tells what the peer claims. Errors wrap ErrNoIdentity.
func RoleOf(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: the peer showed no certificate", ErrNoIdentity)
	}
	return IdentityOf(state.PeerCertificates[0])
}

// IdentityOf reads the identity in a certificate: exactly one URI of the scheme
// hearth. Errors wrap ErrNoIdentity.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == identityScheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Identity{}, fmt.Errorf("%w: certificate %q holds %d URIs hearth://CLUSTER/ROLE/NAME, want one; make it with hearth ca issue",
			ErrNoIdentity, clip(cert.Subject.CommonName), len(found))
	}
	u := found[0]
	role, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	id := Identity{Cluster: u.Host, Role: Role(role), Name: name}
	if err := id.ValidatePeer(); err != nil {
		return Identity{}, fmt.Errorf("%w: certificate %q has %q: %w", ErrNoIdentity, clip(cert.Subject.CommonName), clip(u.String()), err)
	}
	if u.String() != id.String() { // a port, a query, an escaped letter
		return Identity{}, fmt.Errorf("%w: certificate %q has %q: want hearth://CLUSTER/ROLE/NAME and nothing else", ErrNoIdentity, clip(cert.Subject.CommonName), clip(u.String()))
	}
	return id, nil
}
