package masterd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// testCertificates writes an authority and one certificate for loopback that
// serves both ends, and loads them.
func testCertificates(t *testing.T) *tlsconf.Source {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caKey, leafKey := key(), key()
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	src, err := tlsconf.Load(tlsconf.Files{
		CAFile: write("ca.pem", "CERTIFICATE", caDER), CertFile: write("cert.pem", "CERTIFICATE", leafDER), KeyFile: write("key.pem", "PRIVATE KEY", keyDER),
	})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestMastersTalkOverMutualTLS(t *testing.T) {
	src := testCertificates(t)
	secure := func(d *Deps) { d.ServerTLS, d.ClientTLS = src.Server(), src.Client() }
	first := startMaster(t, t.TempDir(), nil, 2, secure)
	second := startMaster(t, t.TempDir(), []string{first.SerfAddr()}, 2, secure)
	for _, m := range []*testMaster{first, second} {
		select {
		case <-m.Ready():
		case <-time.After(testPatience):
			t.Fatalf("master %s is not ready after %s", m.ID(), testPatience)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	for _, m := range []*testMaster{first, second} {
		c, err := client.New(client.Config{Masters: []string{m.GRPCAddr()}, TLS: src.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RegisterApp(ctx, sleeper("secure")); err != nil {
			t.Errorf("register through %s: %v", m.ID(), err)
		}
		_ = c.Close()
	}
	plain := newClient(t, first)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := plain.Status(short); err == nil {
		t.Error("a client without a certificate was answered")
	}
	sameHashes(t, []*testMaster{first, second})
}
