package ca

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// Shown is one certificate for people and programs.
type Shown struct {
	File      string           `json:"file"`
	Authority bool             `json:"authority"`
	Identity  tlsconf.Identity `json:"-"` // zero for an authority
	Cluster   string           `json:"cluster"`
	Role      string           `json:"role"` // "" for an authority
	Name      string           `json:"name"`
	Hosts     []string         `json:"hosts"`
	From      time.Time        `json:"valid_from"`
	Until     time.Time        `json:"valid_until"`
	Issuer    string           `json:"issuer"`
	SHA256    string           `json:"sha256"`
}

// Show reads the certificates of a file, or those of an authority's or node's
// directory.
func Show(path string) ([]Shown, error) {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files = files[:0]
		for _, name := range []string{NodeCertFile, BundleFile} {
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == 0 {
			files = []string{filepath.Join(path, BundleFile)}
		}
	}
	var out []Shown
	for _, file := range files {
		certs, err := readCerts(file)
		if err != nil {
			return nil, err
		}
		for _, c := range certs {
			out = append(out, show(file, c))
		}
	}
	return out, nil
}

func show(file string, c *x509.Certificate) Shown {
	sum := sha256.Sum256(c.Raw)
	s := Shown{
		File: file, Authority: c.IsCA, Name: c.Subject.CommonName, Hosts: []string{}, From: c.NotBefore, Until: c.NotAfter,
		Issuer: c.Issuer.CommonName, SHA256: hex.EncodeToString(sum[:]),
	}
	s.Hosts = append(s.Hosts, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		s.Hosts = append(s.Hosts, ip.String())
	}
	if len(c.Subject.Organization) == 1 {
		s.Cluster = c.Subject.Organization[0]
	}
	if id, err := tlsconf.IdentityOf(c); err == nil {
		s.Identity, s.Cluster, s.Role, s.Name = id, id.Cluster, string(id.Role), id.Name
	}
	return s
}
