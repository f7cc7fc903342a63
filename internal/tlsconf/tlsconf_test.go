package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority signs certificates of one test cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

// write issues a master's certificate for a host and writes all three files to dir.
func (a *authority) write(t *testing.T, dir, host string, notAfter time.Time) Files {
	t.Helper()
	return a.issue(t, dir, host, Identity{"prod", RoleMaster, host}, time.Now().Add(-time.Hour), notAfter)
}

// issue issues any certificate and writes all three files to dir.
func (a *authority) issue(t *testing.T, dir, host string, id Identity, notBefore, notAfter time.Time) Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: notBefore, NotAfter: notAfter,
		URIs:        []*url.URL{id.URI()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := Files{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePEM(t, f.CAFile, "CERTIFICATE", a.cert.Raw)
	writePEM(t, f.CertFile, "CERTIFICATE", der)
	writePEM(t, f.KeyFile, "PRIVATE KEY", keyDER)
	return f
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, f Files) *Source {
	t.Helper()
	s, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connect returns both ends of a TCP connection with a deadline. A net.Pipe has
// no buffer: two ends that both write an alert would wait for each other.
func connect(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if a, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, conn := range []net.Conn{a, b} {
		if err := conn.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// shake makes one connection and returns the errors of both ends. In TLS 1.3 the
// client is done before the server has seen its certificate, so the client also
// reads one byte.
func shake(t *testing.T, server, client *tls.Config, name string) (serverErr, clientErr error) {
	t.Helper()
	a, b := connect(t)
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(a, server)
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		done <- errors.Join(err, a.Close())
	}()
	client = client.Clone()
	client.ServerName = name
	conn := tls.Client(b, client)
	clientErr = conn.Handshake()
	if clientErr == nil {
		_, clientErr = io.ReadFull(conn, make([]byte, 1))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return <-done, clientErr
}

func TestBothEndsOfOneClusterTrustEachOther(t *testing.T) {
	ca := newAuthority(t, "one")
	server := load(t, ca.write(t, t.TempDir(), "m1", time.Now().Add(time.Hour)))
	client := load(t, ca.write(t, t.TempDir(), "w1", time.Now().Add(time.Hour)))
	if sErr, cErr := shake(t, server.Server(), client.Client(), "m1"); sErr != nil || cErr != nil {
		t.Errorf("got server error %v and client error %v, want none", sErr, cErr)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	hour := time.Now().Add(time.Hour)
	server := load(t, one.write(t, t.TempDir(), "m1", hour))
	friend := load(t, one.write(t, t.TempDir(), "w1", hour))
	stranger := load(t, two.write(t, t.TempDir(), "w1", hour))
	trusting := friend.Client()
	trusting.GetClientCertificate = nil
	old := friend.Client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	forged := stranger.Client()
	forged.VerifyConnection = nil
	for _, test := range []struct {
		name   string
		client *tls.Config
		host   string
		want   string // in either error
	}{
		{"a server of another authority", stranger.Client(), "m1", "unknown authority"},
		{"a server with another name", friend.Client(), "m2", "m2"},
		{"a server when no name was given", friend.Client(), "", "no server name"},
		{"a client of another authority", forged, "m1", "unknown authority"},
		{"a client without a certificate", trusting, "m1", "certificate"},
		{"an old version of TLS", old, "m1", "version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sErr, cErr := shake(t, server.Server(), test.client, test.host)
			if err := errors.Join(sErr, cErr); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got server error %v and client error %v, want one with %q", sErr, cErr, test.want)
			}
		})
	}
}

func TestReloadTakesNewFilesAndKeepsOldOnesOnAnError(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	hour := time.Now().Add(time.Hour)
	dir := t.TempDir()
	files := one.write(t, dir, "m1", hour)
	s := load(t, files)
	server, client := s.Server(), s.Client()

	two.write(t, dir, "m2", hour)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if sErr, cErr := shake(t, server, client, "m2"); sErr != nil || cErr != nil {
		t.Errorf("after a reload: got server error %v and client error %v, want none", sErr, cErr)
	}

	if err := os.WriteFile(files.CertFile, []byte("half a certi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), files.CertFile) {
		t.Errorf("got error %v, want one that names %s", err, files.CertFile)
	}
	if sErr, cErr := shake(t, server, client, "m2"); sErr != nil || cErr != nil {
		t.Errorf("after a failed reload: got server error %v and client error %v, want none", sErr, cErr)
	}
}

func TestErrorsNameTheFileAndTheRule(t *testing.T) {
	ca := newAuthority(t, "one")
	good := ca.write(t, t.TempDir(), "m1", time.Now().Add(time.Hour))
	other := ca.write(t, t.TempDir(), "m1", time.Now().Add(time.Hour))
	expired := ca.write(t, t.TempDir(), "m1", time.Now().Add(-time.Minute))
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open-key.pem")
	key, err := os.ReadFile(good.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		files Files
		want  []string
	}{
		{"a key that others can read", Files{good.CAFile, good.CertFile, open}, []string{"key_file " + open, "mode 0640", "chmod 600 " + open}},
		{"a missing file", Files{filepath.Join(dir, "no"), good.CertFile, good.KeyFile}, []string{"ca_file: must be a readable file", filepath.Join(dir, "no")}},
		{"all files missing are reported at once", Files{CAFile: filepath.Join(dir, "no")}, []string{"ca_file: must be", "cert_file: must be set", "key_file: must be set"}},
		{"an authority without a certificate", Files{empty, good.CertFile, good.KeyFile}, []string{"ca_file " + empty, "at least one certificate"}},
		{"the key of another certificate", Files{good.CAFile, good.CertFile, other.KeyFile}, []string{good.CertFile, other.KeyFile, "its private key"}},
		{"a certificate that has ended", expired, []string{"cert_file " + expired.CertFile, "must be valid now"}},
		{"a directory", Files{dir, good.CertFile, good.KeyFile}, []string{"ca_file " + dir, "regular file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(test.files)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestNoFilesMeanNoTLS(t *testing.T) {
	s, err := Load(Files{})
	if err != nil || s != nil {
		t.Fatalf("got %v and error %v, want nil and none", s, err)
	}
	if s.Server() != nil || s.Client() != nil || s.Reload() != nil {
		t.Error("the methods of a nil source must return nil")
	}
}
