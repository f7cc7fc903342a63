package tlsconf

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// RevokedFile lies beside ca_file and holds the lists of revoked certificates of
// the authorities in it, in PEM form (RFC 5280, section 5); without the file
// nothing is revoked. It is followed like the other files.
const RevokedFile = "revoked.pem"

// crlBlock is what a list is called in a PEM file.
const crlBlock = "X509 CRL"

// revoked holds what is revoked, by certificateKey.
type revoked map[string]struct{}

// certificateKey names a certificate as a list does: by who signed it, and its
// serial number there.
func certificateKey(issuer []byte, serial interface{ String() string }) string {
	return string(issuer) + "\x00" + serial.String()
}

func (r revoked) has(cert *x509.Certificate) bool {
	_, ok := r[certificateKey(cert.RawIssuer, cert.SerialNumber)]
	return ok
}

// revokedPath is where the lists of an authority's file are.
func revokedPath(caFile string) string { return filepath.Join(filepath.Dir(caFile), RevokedFile) }

// readRevoked reads the lists beside caFile. Each must be signed by an authority
// in that: anybody could write another one.
func readRevoked(caFile string, authorities []*x509.Certificate) (revoked, error) {
	path := revokedPath(caFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no file is no list
	}
	text, err := readFile("list of revoked certificates", path)
	if err != nil {
		return nil, err
	}
	out := make(revoked)
	lists := 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != crlBlock {
			return nil, fmt.Errorf("%s: must hold lists of revoked certificates made by hearth ca revoke, it holds a %q", path, clip(block.Type))
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: must hold lists of revoked certificates made by hearth ca revoke: %w", path, err)
		}
		if !slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return list.CheckSignatureFrom(a) == nil }) {
			return nil, fmt.Errorf("%s: a list must be signed by an authority in ca_file %s, it is by %q", path, caFile, clip(list.Issuer.CommonName))
		}
		lists++
		for _, e := range list.RevokedCertificateEntries {
			out[certificateKey(list.RawIssuer, e.SerialNumber)] = struct{}{}
		}
	}
	if lists == 0 {
		return nil, fmt.Errorf("%s: must hold lists of revoked certificates made by hearth ca revoke, it holds none", path)
	}
	return out, nil
}
