package ca

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// standing is a connection between a master, who follows it, and a worker.
type standing struct {
	t        *testing.T
	a        *Authority
	master   *tlsconf.Source
	masterAt string
	workerAt string
	near     net.Conn // the worker's end
	ended    chan time.Time
}

// stand connects, in a bubble; both ends wait for what never comes.
func stand(t *testing.T, lifetime time.Duration) *standing {
	t.Helper()
	s := &standing{t: t, a: newAuthority(t), ended: make(chan time.Time, 1)}
	dir := func(role tlsconf.Role, name string) string {
		out := filepath.Join(t.TempDir(), name)
		if _, err := s.a.Issue(out, Request{Role: role, Name: name, Lifetime: lifetime, SANs: []string{"m1"}}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	s.masterAt, s.workerAt = dir(tlsconf.RoleMaster, "m1"), dir(tlsconf.RoleWorker, "w1")
	s.master = load(t, s.masterAt)
	network := simnet.New(rand.New(rand.NewSource(1)))
	m1 := network.Host("m1")
	lis, err := m1.Listen(net.JoinHostPort(m1.IP().String(), "7070"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.master.Server()
	accepted := make(chan struct{})
	go func() {
		raw, err := lis.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		conn := tls.Server(raw, cfg)
		if err := conn.Handshake(); err != nil {
			t.Error(err)
		}
		close(accepted)
		_, _ = io.Copy(io.Discard, tlsconf.Follow(conn, cfg, conn.ConnectionState))
		s.ended <- time.Now()
	}()
	raw, err := network.Host("w1").Dial(context.Background(), lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, tlsconf.ForHost(load(t, s.workerAt).Client(), "m1"))
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	<-accepted
	s.near = conn
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// lasts checks that the connection stands for so long.
func (s *standing) lasts(d time.Duration) {
	s.t.Helper()
	select {
	case <-s.ended:
		s.t.Fatalf("it ended within %s", d)
	case <-time.After(d):
	}
}

// ends checks that the connection ends within a time.
func (s *standing) ends(d time.Duration) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(d):
		s.t.Errorf("it stands after %s", d)
	}
	_ = s.near.Close()
}

func TestAStandingConnectionEndsWithTheCertificateOfThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stand(t, time.Minute)
		s.lasts(59 * time.Second)
		s.ends(tlsconf.FollowInterval*6/5 + time.Second)
	})
}

// The bytes of a connection in use are not cut in the middle as long as there is
// a pause.
func TestABusyConnectionEndsInAPauseOrAfterTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stand(t, time.Minute)
		stop, wrote := time.Now().Add(80*time.Second), make(chan struct{})
		go func() {
			defer close(wrote)
			for time.Now().Before(stop) {
				if _, err := s.near.Write([]byte{1}); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		s.lasts(60 * time.Second)
		s.ends(tlsconf.FollowInterval*6/5 + 3*time.Second)
		<-wrote
	})
}

func TestARevokedCertificateIsRefusedAndItsConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stand(t, time.Hour)
		s.lasts(time.Minute)
		if _, err := s.a.Revoke("worker/w1"); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(s.a.path(tlsconf.RevokedFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.masterAt, tlsconf.RevokedFile), list, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.master.Reload(); err != nil {
			t.Fatal(err)
		}
		s.ends(tlsconf.FollowInterval * 6 / 5)
		leaf, err := readCerts(filepath.Join(s.workerAt, NodeCertFile))
		if err != nil {
			t.Fatal(err)
		}
		verify := s.master.Server().VerifyConnection
		if err := verify(tls.ConnectionState{PeerCertificates: leaf}); !errors.Is(err, tlsconf.ErrRevoked) || !strings.Contains(err.Error(), "hearth://prod/worker/w1") {
			t.Errorf("a new connection: %v, want it refused as revoked", err)
		}
		if _, err := s.a.Renew(s.workerAt, 0); err != nil {
			t.Fatal(err)
		}
		if leaf, err = readCerts(filepath.Join(s.workerAt, NodeCertFile)); err != nil {
			t.Fatal(err)
		}
		if err := verify(tls.ConnectionState{PeerCertificates: leaf}); err != nil {
			t.Errorf("the certificate that was issued after it: %v", err)
		}
	})
}

func TestWhatIsToBeRevokedCanBeNamedInThreeWays(t *testing.T) {
	a := newAuthority(t)
	first, second := issue(t, a, tlsconf.RoleWorker, "w1"), issue(t, a, tlsconf.RoleWorker, "w2")
	serial := func(dir string) string {
		certs, err := readCerts(filepath.Join(dir, NodeCertFile))
		if err != nil {
			t.Fatal(err)
		}
		return certs[0].SerialNumber.Text(16)
	}
	old := serial(first)
	if _, err := a.Renew(first, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		want []string
	}{{"worker/w1", []string{old, serial(first)}}, {second, []string{serial(second)}}, {serial(second), []string{serial(second)}}} {
		got, err := a.Revoke(c.what)
		if err != nil {
			t.Fatal(err)
		}
		var serials []string
		for _, i := range got {
			serials = append(serials, i.Serial)
		}
		if strings.Join(serials, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: got %v, want %v", c.what, serials, c.want)
		}
	}
	for _, wrong := range []string{"worker/w3", "master/w1", "abc", a.path(BundleFile)} {
		if got, err := a.Revoke(wrong); err == nil {
			t.Errorf("%s: got %v, want an error", wrong, got)
		}
	}
	lists, err := a.lists()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(lists[hex.EncodeToString(a.signer.SubjectKeyId)].RevokedCertificateEntries); got != 3 {
		t.Errorf("revoked: got %d, want 3", got)
	}
}

// During an exchange there are two authorities, and each signs its own list.
func TestRevokingGoesOnDuringAnExchangeOfTheAuthority(t *testing.T) {
	a := newAuthority(t)
	node, gone := issue(t, a, tlsconf.RoleMaster, "m1"), issue(t, a, tlsconf.RoleWorker, "w1")
	late := ""
	for _, step := range []func() error{
		func() error { return a.StartRotation(DefaultAuthorityLifetime) },
		func() error { _, err := a.Revoke(gone); return err },
		a.SwitchRotation,
		func() error { late = issue(t, a, tlsconf.RoleWorker, "w2"); return nil },
		func() error { _, err := a.Revoke(late); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Renew(node, 0); err != nil {
			t.Fatal(err)
		}
		load(t, node)
	}
	refused := func(dir string) bool {
		certs, err := readCerts(filepath.Join(dir, NodeCertFile))
		if err != nil {
			t.Fatal(err)
		}
		err = load(t, node).Server().VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{certs[0]}})
		return errors.Is(err, tlsconf.ErrRevoked)
	}
	if !refused(gone) || !refused(late) {
		t.Errorf("refused: of the old authority %t, of the new one %t, want both", refused(gone), refused(late))
	}
	if err := a.FinishRotation(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(node, 0); err != nil {
		t.Fatal(err)
	}
	if !refused(late) {
		t.Error("the list of the new authority is lost")
	}
	lists, err := a.lists()
	if err != nil || len(lists) != 1 {
		t.Errorf("lists: got %d (%v), want that of the new authority", len(lists), err)
	}
}

func TestAListOfSomebodyElseIsNotTaken(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	node := issue(t, a, tlsconf.RoleMaster, "m1")
	if _, err := other.Revoke(issue(t, other, tlsconf.RoleMaster, "m1")); err != nil {
		t.Fatal(err)
	}
	source := load(t, node)
	for name, text := range map[string][]byte{"a list of another authority": nil, "no list": []byte("hello"), "certificates": encodeCerts(a.bundle)} {
		if text == nil {
			var err error
			if text, err = os.ReadFile(other.path(tlsconf.RevokedFile)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(node, tlsconf.RevokedFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := source.Reload(); err == nil || !strings.Contains(err.Error(), tlsconf.RevokedFile) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}
