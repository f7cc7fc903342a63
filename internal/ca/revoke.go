package ca

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/internal/tlsconf"
)

const (
	// issuedFile has a line for each certificate that was signed, so that one can
	// be revoked whose holder's directory is not at hand.
	issuedFile = "issued.jsonl"
	crlBlock   = "X509 CRL"
	// maxIssuedLine bounds a line of issuedFile.
	maxIssuedLine = 4096
)

// ErrUnknownCertificate is wrapped when nothing was issued that is to be revoked.
var ErrUnknownCertificate = errors.New("no such certificate was issued here")

// Issued is one certificate that this authority has signed.
type Issued struct {
	Identity string    `json:"identity"` // hearth://CLUSTER/ROLE/NAME
	Serial   string    `json:"serial"`   // hexadecimal
	Issuer   string    `json:"issuer"`   // key id of the authority that signed it, hexadecimal
	Until    time.Time `json:"valid_until"`
}

func issuedOf(c *x509.Certificate) Issued {
	i := Issued{Serial: c.SerialNumber.Text(16), Issuer: hex.EncodeToString(c.AuthorityKeyId), Until: c.NotAfter}
	if len(c.URIs) == 1 {
		i.Identity = c.URIs[0].String()
	}
	return i
}

// note writes down that a certificate was signed, before anybody gets it.
func (a *Authority) note(c *x509.Certificate) error {
	line, err := json.Marshal(issuedOf(c))
	if err != nil {
		return fmt.Errorf("note the certificate: %w", err)
	}
	f, err := os.OpenFile(a.path(issuedFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, datadir.FileMode)
	if err != nil {
		return fmt.Errorf("note the certificate: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("note the certificate in %s: %w", a.path(issuedFile), err)
	}
	return nil
}

// issued lists what was signed.
func (a *Authority) issued() ([]Issued, error) {
	f, err := os.Open(a.path(issuedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was issued: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	var out []Issued
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxIssuedLine)
	for lines.Scan() {
		var i Issued
		if err := json.Unmarshal(lines.Bytes(), &i); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", a.path(issuedFile), len(out)+1, err)
		}
		out = append(out, i)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path(issuedFile), err)
	}
	return out, nil
}

// Revoke takes certificates back and returns them. Each of what names some: the
// directory or file that holds one; ROLE/NAME for all that were issued to that
// holder and have not ended; or the serial number, in hexadecimal. Members refuse
// them once RevokedFile of this directory lies beside their ca.pem; it is copied
// by Issue and Renew too. Revoking twice is no error.
func (a *Authority) Revoke(what ...string) ([]Issued, error) {
	var all []Issued
	for _, w := range what {
		found, err := a.find(w)
		if err != nil {
			return nil, fmt.Errorf("revoke %s: %w", w, err)
		}
		all = append(all, found...)
	}
	byIssuer := make(map[string][]*big.Int)
	for _, i := range all {
		serial, ok := new(big.Int).SetString(i.Serial, 16)
		if !ok {
			return nil, fmt.Errorf("revoke %s: serial number %q: must be hexadecimal", i.Identity, i.Serial)
		}
		byIssuer[i.Issuer] = append(byIssuer[i.Issuer], serial)
	}
	if err := a.revoke(byIssuer); err != nil {
		return nil, fmt.Errorf("revoke certificates: %w", err)
	}
	return all, nil
}

func (a *Authority) find(what string) ([]Issued, error) {
	path := what
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			path = filepath.Join(path, NodeCertFile)
		}
		certs, err := readCerts(path)
		if err != nil {
			return nil, err
		}
		if certs[0].IsCA {
			return nil, fmt.Errorf("%s: an authority is exchanged, not revoked: hearth ca rotate", path)
		}
		return []Issued{issuedOf(certs[0])}, nil
	}
	list, err := a.issued()
	if err != nil {
		return nil, err
	}
	role, name, named := strings.Cut(what, "/")
	identity := tlsconf.Identity{Cluster: a.cluster, Role: tlsconf.Role(role), Name: name}.String()
	var out []Issued
	for _, i := range list {
		if named && i.Identity == identity && a.now().Before(i.Until) || !named && i.Serial == strings.ToLower(what) {
			out = append(out, i)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: want a directory or file with one, ROLE/NAME, or a serial number of %s", ErrUnknownCertificate, a.path(issuedFile))
	}
	return out, nil
}

// revoke adds serial numbers, by the name of who signed them, to the lists.
func (a *Authority) revoke(byIssuer map[string][]*big.Int) error {
	lists, err := a.lists()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, authority := range a.bundle {
		id := hex.EncodeToString(authority.SubjectKeyId)
		old, add := lists[id], byIssuer[id]
		delete(byIssuer, id)
		if len(add) == 0 {
			if old != nil {
				text.Write(pem.EncodeToMemory(&pem.Block{Type: crlBlock, Bytes: old.Raw}))
			}
			continue
		}
		der, err := a.signList(authority, old, add)
		if err != nil {
			return err
		}
		text.Write(pem.EncodeToMemory(&pem.Block{Type: crlBlock, Bytes: der}))
	}
	for issuer := range byIssuer {
		return fmt.Errorf("%w: the authority with the key %s, which signed it, is not in %s", ErrUnknownCertificate, issuer, a.path(BundleFile))
	}
	if err := atomicfile.Write(a.path(tlsconf.RevokedFile), text.Bytes(), datadir.FileMode); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}

// signList makes the list of one authority with more entries than the old one.
func (a *Authority) signList(authority *x509.Certificate, old *x509.RevocationList, add []*big.Int) ([]byte, error) {
	key, err := a.keyOf(authority)
	if err != nil {
		return nil, err
	}
	now := a.now()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now, NextUpdate: authority.NotAfter}
	if old != nil {
		list.Number = new(big.Int).Add(old.Number, big.NewInt(1))
		list.RevokedCertificateEntries = old.RevokedCertificateEntries
	}
	for _, serial := range add {
		if !slices.ContainsFunc(list.RevokedCertificateEntries, func(e x509.RevocationListEntry) bool { return e.SerialNumber.Cmp(serial) == 0 }) {
			list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: serial, RevocationTime: now})
		}
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, authority, key)
	if err != nil {
		return nil, fmt.Errorf("sign the list: %w", err)
	}
	return der, nil
}

// keyOf returns the key of an authority in the bundle: during an exchange there
// are two.
func (a *Authority) keyOf(authority *x509.Certificate) (*ecdsa.PrivateKey, error) {
	if a.key.PublicKey.Equal(authority.PublicKey) {
		return a.key, nil
	}
	for _, name := range []string{oldKeyFile, nextKeyFile} {
		key, err := readKey(a.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if key.PublicKey.Equal(authority.PublicKey) {
			return key, nil
		}
	}
	return nil, fmt.Errorf("%s: its key must be in %s", authority.Subject.CommonName, a.dir)
}

// lists reads the present lists by who signed them.
func (a *Authority) lists() (map[string]*x509.RevocationList, error) {
	out := make(map[string]*x509.RevocationList)
	path := a.path(tlsconf.RevokedFile)
	text, _, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out, nil
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[hex.EncodeToString(list.AuthorityKeyId)] = list
	}
}

// forgetRevoked drops the lists of authorities that are trusted no more.
func (a *Authority) forgetRevoked() error {
	lists, err := a.lists()
	if err != nil {
		return err
	}
	for _, authority := range a.bundle {
		if lists[hex.EncodeToString(authority.SubjectKeyId)] != nil {
			return a.revoke(nil)
		}
	}
	return removeIfThere(a.path(tlsconf.RevokedFile))
}

// copyRevoked gives a node the lists.
func (a *Authority) copyRevoked(out string) error {
	text, _, err := read(a.path(tlsconf.RevokedFile))
	to := filepath.Join(out, tlsconf.RevokedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return removeIfThere(to)
	}
	if err != nil {
		return fmt.Errorf("copy the list of revoked certificates: %w", err)
	}
	return atomicfile.Write(to, text, datadir.FileMode)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
