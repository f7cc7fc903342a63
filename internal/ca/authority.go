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
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// Files of an authority's directory.
const (
	BundleFile    = "ca.pem"
	KeyFile       = "ca-key.pem"
	GossipKeyFile = "gossip.key"
	nextKeyFile   = "ca-next-key.pem"
	oldKeyFile    = "ca-old-key.pem"
)

// Life times of certificates.
const (
	DefaultAuthorityLifetime = 10 * 365 * 24 * time.Hour
	DefaultLifetime          = 365 * 24 * time.Hour
	MinLifetime              = 10 * time.Second
	MaxLifetime              = 50 * 365 * 24 * time.Hour
	// maxBackdate is how far before its making a certificate begins, so that
	// clocks which go a little late accept it at once; at most a tenth of its life.
	maxBackdate = 5 * time.Minute
)

// ErrExists is wrapped when a file is there already: nothing is overwritten.
var ErrExists = errors.New("it is there already and is not overwritten")

// Authority is an opened directory. It is not safe for concurrent use.
type Authority struct {
	dir     string
	cluster string
	bundle  []*x509.Certificate // trusted, the newest first
	signer  *x509.Certificate
	key     *ecdsa.PrivateKey
	now     func() time.Time
}

// Init makes an authority for a cluster in dir, with a key for gossip. The
// directory is made if need be; one that holds an authority is an error.
func Init(dir, cluster string, lifetime time.Duration) (*Authority, error) {
	id := tlsconf.Identity{Cluster: cluster, Role: tlsconf.RoleMaster, Name: "x"}
	if err := errors.Join(id.Validate(), checkLifetime(lifetime)); err != nil {
		return nil, fmt.Errorf("make authority: %w: %w", model.ErrInvalid, err)
	}
	if err := datadir.Prepare(dir); err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	if err := absent(dir, BundleFile, KeyFile, GossipKeyFile, nextKeyFile, oldKeyFile); err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	a := &Authority{dir: dir, cluster: cluster, now: time.Now}
	cert, key, err := a.newRoot(lifetime)
	if err != nil {
		return nil, err
	}
	a.bundle, a.signer, a.key = []*x509.Certificate{cert}, cert, key
	gossip, err := NewGossipKey()
	if err != nil {
		return nil, err
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	// The certificate comes last: without it the directory is no authority.
	for _, f := range []struct {
		name string
		text []byte
	}{{KeyFile, keyText}, {GossipKeyFile, []byte(gossip + "\n")}, {BundleFile, encodeCerts(a.bundle)}} {
		if err := writeNew(filepath.Join(dir, f.name), f.text); err != nil {
			return nil, fmt.Errorf("make authority: %w", err)
		}
	}
	return a, nil
}

// newRoot makes a self-signed certificate. The cluster's name is its
// organisation; issuing reads it from there.
func (a *Authority) newRoot(lifetime time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of the authority: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{a.cluster}, CommonName: fmt.Sprintf("hearth authority of %s, %s", a.cluster, now.UTC().Format(time.DateOnly))},
		NotBefore:    now.Add(-backdate(lifetime)), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	return cert, key, nil
}

// Open reads an authority's directory. It is refused if others can write there
// or read the key.
func Open(dir string) (*Authority, error) {
	if err := datadir.Check(dir); err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	bundle, err := readCerts(filepath.Join(dir, BundleFile))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: make one with hearth ca init %s", err, dir)
		}
		return nil, fmt.Errorf("open authority: %w", err)
	}
	key, err := readKey(filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	a := &Authority{dir: dir, bundle: bundle, key: key, now: time.Now}
	for _, c := range bundle {
		if key.PublicKey.Equal(c.PublicKey) {
			a.signer = c
		}
	}
	switch {
	case a.signer == nil:
		return nil, fmt.Errorf("open authority: %s: must be the key of a certificate in %s", filepath.Join(dir, KeyFile), BundleFile)
	case !a.signer.IsCA || len(a.signer.Subject.Organization) != 1:
		return nil, fmt.Errorf("open authority: %s: must be made by hearth ca init: it names no cluster", filepath.Join(dir, BundleFile))
	}
	a.cluster = a.signer.Subject.Organization[0]
	return a, nil
}

// Cluster is the name that the authority was made for.
func (a *Authority) Cluster() string { return a.cluster }

// Bundle returns the certificates that members of the cluster trust.
func (a *Authority) Bundle() []*x509.Certificate { return a.bundle }

func checkLifetime(d time.Duration) error {
	if d < MinLifetime || d > MaxLifetime {
		return fmt.Errorf("life time %s: must be between %s and %d days", d, MinLifetime, int(MaxLifetime.Hours()/24))
	}
	return nil
}

func backdate(lifetime time.Duration) time.Duration { return min(maxBackdate, lifetime/10) }

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil // positive
}

// absent returns an error if one of the files is in dir.
func absent(dir string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			return fmt.Errorf("%s: %w", path, ErrExists)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for %s: %w", path, err)
		}
	}
	return nil
}
