package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hearthd/hearth/internal/datadir"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "PRIVATE KEY"
	// maxPEMBytes bounds what is read of a file, maxCerts the certificates in it.
	maxPEMBytes = 1 << 20
	maxCerts    = 64
	// gossipKeyBytes makes AES-256.
	gossipKeyBytes = 32
)

// NewGossipKey makes a key for gossip, in base64 as its file has it.
func NewGossipKey() (string, error) {
	key := make([]byte, gossipKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make gossip key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(key), nil
}

func encodeCerts(certs []*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c.Raw}))
	}
	return b.Bytes()
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// read returns a regular file of bounded size.
func read(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxPEMBytes {
		return nil, 0, fmt.Errorf("%s: must be a regular file of at most %d bytes", path, maxPEMBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read: %w", err)
	}
	return text, info.Mode().Perm(), nil
}

// readCerts returns the certificates of a file, at least one.
func readCerts(path string) ([]*x509.Certificate, error) {
	text, _, err := read(path)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != certBlock {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", path, len(out)+1, err)
		}
		if out = append(out, cert); len(out) > maxCerts {
			return nil, fmt.Errorf("%s: must hold at most %d certificates", path, maxCerts)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: must hold at least one certificate in PEM form", path)
	}
	return out, nil
}

// readKey reads a key that only its user can read.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	text, mode, err := read(path)
	if err != nil {
		return nil, err
	}
	if mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: must be readable by its user only (mode %04o): chmod 600 %s, and take the key for known to others", path, mode, path)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("%s: must be a private key in PEM form", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: must be a key made by hearth ca, it is a %T", path, key)
	}
	return ec, nil
}

// writeNew writes a file that must not be there, whatever the umask.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, datadir.FileMode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(datadir.FileMode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
