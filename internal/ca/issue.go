package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// Files of a node's directory, beside BundleFile and GossipKeyFile.
const (
	NodeCertFile = "cert.pem"
	NodeKeyFile  = "key.pem"
)

// maxSANs bounds the hosts of one certificate.
const maxSANs = 64

// hostName is what a DNS name in a certificate looks like; a leading "*." is
// not offered: a certificate is for one process.
var hostName = regexp.MustCompile(`^([a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.)*[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$`)

// Request says whom a certificate is for.
type Request struct {
	Role tlsconf.Role
	Name string
	// SANs are the hosts and addresses under which others dial the holder. A
	// master and a worker need one; a client, whom nobody dials, may have none.
	SANs     []string
	Lifetime time.Duration
}

// Issue makes a key and a certificate and writes them to the node's directory
// out, with the authorities to trust and, unless for a client, the key of
// gossip. out is made if need be; nothing in it is overwritten.
func (a *Authority) Issue(out string, req Request) (*x509.Certificate, error) {
	what := fmt.Sprintf("issue certificate for %s %s", req.Role, req.Name)
	hosts, addrs, err := a.check(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := datadir.Prepare(out); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := absent(out, BundleFile, NodeCertFile, NodeKeyFile, GossipKeyFile); err != nil {
		return nil, fmt.Errorf("%s: %w; hearth ca renew replaces a certificate", what, err)
	}
	cert, key, err := a.sign(req, hosts, addrs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if req.Role != tlsconf.RoleClient {
		if err := a.copyGossipKey(out); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := a.write(out, cert, key); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return cert, nil
}

// Renew makes a new key and certificate like the ones in a node's directory,
// and replaces them and the authorities to trust. A lifetime of zero is that of
// the certificate there. The gossip key is left alone: it is exchanged while the
// cluster runs.
func (a *Authority) Renew(dir string, lifetime time.Duration) (*x509.Certificate, error) {
	what := "renew certificate in " + dir
	if err := datadir.Check(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	certs, err := readCerts(filepath.Join(dir, NodeCertFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	old := certs[0]
	id, err := tlsconf.IdentityOf(old)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if id.Cluster != a.cluster {
		return nil, fmt.Errorf("%s: it is of cluster %s, this authority is of %s", what, id.Cluster, a.cluster)
	}
	req := Request{Role: id.Role, Name: id.Name, SANs: slices.Clone(old.DNSNames), Lifetime: lifetime}
	for _, ip := range old.IPAddresses {
		req.SANs = append(req.SANs, ip.String())
	}
	if req.Lifetime == 0 {
		// What was asked for, without the part before its making.
		req.Lifetime = old.NotAfter.Sub(old.NotBefore)
		req.Lifetime = (req.Lifetime - min(maxBackdate, req.Lifetime/11)).Round(time.Second)
	}
	hosts, addrs, err := a.check(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	cert, key, err := a.sign(req, hosts, addrs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := a.write(dir, cert, key); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return cert, nil
}

// check reports everything that is wrong with a request.
func (a *Authority) check(req Request) (hosts []string, addrs []net.IP, err error) {
	id := tlsconf.Identity{Cluster: a.cluster, Role: req.Role, Name: req.Name}
	errs := []error{id.Validate(), checkLifetime(req.Lifetime)}
	if len(req.SANs) == 0 && (req.Role == tlsconf.RoleMaster || req.Role == tlsconf.RoleWorker) {
		errs = append(errs, fmt.Errorf("a %s is dialled by others: name the hosts and addresses for that (--san)", req.Role))
	}
	if len(req.SANs) > maxSANs {
		errs = append(errs, fmt.Errorf("%d hosts: must be at most %d", len(req.SANs), maxSANs))
	}
	for _, san := range req.SANs {
		switch ip := net.ParseIP(san); {
		case ip != nil && ip.IsUnspecified():
			errs = append(errs, fmt.Errorf("host %q: must be an address that others dial", san))
		case ip != nil:
			addrs = append(addrs, ip)
		case len(san) <= 253 && hostName.MatchString(san):
			hosts = append(hosts, san)
		default:
			errs = append(errs, fmt.Errorf("host %q: must be a host name or an IP address, without port", san))
		}
	}
	if end := a.now().Add(req.Lifetime); end.After(a.signer.NotAfter) {
		errs = append(errs, fmt.Errorf("life time %s: must end before the authority does, on %s: ask for less, or exchange the authority (hearth ca rotate start)", req.Lifetime, a.signer.NotAfter.UTC().Format(time.RFC3339)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", model.ErrInvalid, err)
	}
	return hosts, addrs, nil
}

// sign makes the key and the certificate of a checked request.
func (a *Authority) sign(req Request, hosts []string, addrs []net.IP) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if req.Role != tlsconf.RoleClient {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	id := tlsconf.Identity{Cluster: a.cluster, Role: req.Role, Name: req.Name}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{a.cluster}, OrganizationalUnit: []string{string(req.Role)}, CommonName: req.Name},
		NotBefore:    now.Add(-backdate(req.Lifetime)), NotAfter: now.Add(req.Lifetime),
		DNSNames: hosts, IPAddresses: addrs, URIs: []*url.URL{id.URI()},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           usage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.signer, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("read what was signed: %w", err)
	}
	if err := a.note(cert); err != nil {
		return nil, nil, err
	}
	return cert, key, nil
}

// write puts the files of a node in place. Whoever reads between two of
// them finds a pair that does not fit, and reads again: see tlsconf.Source.Watch.
func (a *Authority) write(dir string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	keyText, err := encodeKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(dir, BundleFile), encodeCerts(a.bundle), datadir.FileMode),
		atomicfile.Write(filepath.Join(dir, NodeKeyFile), keyText, datadir.FileMode),
		atomicfile.Write(filepath.Join(dir, NodeCertFile), encodeCerts([]*x509.Certificate{cert}), datadir.FileMode),
		a.copyRevoked(dir),
	)
}

// copyGossipKey gives a member the key of gossip, if the authority keeps one.
func (a *Authority) copyGossipKey(out string) error {
	text, err := os.ReadFile(filepath.Join(a.dir, GossipKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy gossip key: %w", err)
	}
	return writeNew(filepath.Join(out, GossipKeyFile), text)
}
