package raftnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// ST-07: the log and the term were lost, the snapshots were not.
func TestSnapshotsThatTheTermStoreDoesNotKnowAreRefused(t *testing.T) {
	dir := t.TempDir()
	n, _ := openSingle(t, Config{DataDir: dir}, nil)
	if _, err := n.Propose(testContext(t), command("r1")); err != nil {
		t.Fatal(err)
	}
	if err := n.Snapshot(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{boltFile, walFolder} {
		if err := os.RemoveAll(filepath.Join(dir, raftFolder, lost)); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir}, nil)
	if err == nil || !strings.Contains(err.Error(), "do not belong together") {
		t.Errorf("got %v, want a refusal that names both", err)
	}
}

// ST-05: a damaged file gives one line and no panic.
func TestADamagedStoreIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, damage := range []func(whole []byte) []byte{
		func(whole []byte) []byte { return []byte("not a database") },
		func(whole []byte) []byte { return whole[:len(whole)/3] },
		func(whole []byte) []byte {
			for i := range whole {
				whole[i] ^= byte(i*7 + 1)
			}
			return whole
		},
	} {
		dir := t.TempDir()
		n, _ := openSingle(t, Config{DataDir: dir}, nil)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, raftFolder, boltFile)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openLoopback(t, Config{ID: "m1", DataDir: dir}, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	}
}

// selfSigned returns a certificate for 127.0.0.1 that both ends trust.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
}

func TestMastersTalkOverMutualTLSAndToNobodyElse(t *testing.T) {
	log, _ := newLog(t)
	cfg := selfSigned(t)
	open := func(id string, cfg *tls.Config) *helloStream {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := newHelloStream(NewTCPStream(listener, "", StreamTLS{Server: cfg, Client: cfg}), model.MasterID(id), ourCluster(), log)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b, plain := open("m1", cfg), open("m2", cfg), open("m3", nil)
	conn, err := a.Dial(routeTo("m2", b.Addr().String()), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	if _, err := io.ReadFull(accepted, got); err != nil || got[0] != 'x' {
		t.Errorf("first byte: got %q, %v", got, err)
	}
	if _, err := plain.Dial(routeTo("m2", b.Addr().String()), 5*time.Second); err == nil {
		t.Error("a master without TLS got through")
	}
}
