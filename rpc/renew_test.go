package rpc

import (
	"context"
	"errors"
	"math/rand"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// Certificates that live for a minute and are renewed after half of that, for
// half an hour: no call fails that nobody repeats, those under way included, and
// each connection ends with the certificate it was made with (SE-09).
func TestSimSE09NoCallNoticesThatCertificatesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Minute
		network := simnet.New(rand.New(rand.NewSource(1)))
		m1 := network.Host("m1")
		authority, err := ca.Init(filepath.Join(t.TempDir(), "ca"), "prod", ca.DefaultAuthorityLifetime)
		if err != nil {
			t.Fatal(err)
		}
		var dirs []string
		issue := func(role tlsconf.Role, name string) *tlsconf.Source {
			dir := filepath.Join(t.TempDir(), name)
			if _, err := authority.Issue(dir, ca.Request{Role: role, Name: name, Lifetime: life, SANs: []string{m1.IP().String()}}); err != nil {
				t.Fatal(err)
			}
			src, err := tlsconf.Load(tlsconf.Files{CAFile: filepath.Join(dir, ca.BundleFile), CertFile: filepath.Join(dir, ca.NodeCertFile), KeyFile: filepath.Join(dir, ca.NodeKeyFile)})
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, dir)
			return src
		}
		server, user := issue(tlsconf.RoleMaster, "m1"), issue(tlsconf.RoleClient, "alice")
		lis, err := m1.Listen(net.JoinHostPort(m1.IP().String(), "7070"))
		if err != nil {
			t.Fatal(err)
		}
		fake := &fakeServices{waitApp: func(ctx context.Context, _ WaitAppRequest) (model.AppView, error) {
			select {
			case <-time.After(7 * time.Second):
				return model.AppView{}, nil
			case <-ctx.Done():
				return model.AppView{}, ctx.Err()
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		s := NewServer(ServerConfig{Listener: lis, TLS: server.Server(), Leader: ready()}, allServices(fake))
		go func() { ended <- s.Run(ctx) }()
		var dials atomic.Int64
		conn, err := Dial(lis.Addr().String(), DialConfig{TLS: user.Client(), Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			dials.Add(1)
			return network.Host("client").Dial(ctx, addr)
		}})
		if err != nil {
			t.Fatal(err)
		}
		client := ClusterClient(conn)
		began, calls := time.Now(), 0
		long := make(chan error, 1)
		wait := func() {
			_, err := client.WaitApp(ctx, WaitAppRequest{App: "app-1"})
			long <- err
		}
		go wait()
		reload := func(src *tlsconf.Source) {
			if err := src.Reload(); err != nil {
				t.Error(err)
			}
		}
		for round := 1; time.Since(began) < 30*time.Minute; calls++ {
			if time.Since(began) > time.Duration(round)*life/2 {
				round++
				for _, dir := range dirs {
					if _, err := authority.Renew(dir, life); err != nil {
						t.Fatal(err)
					}
				}
				// The files are looked at every so often, not by both at once.
				first, second := server, user
				if round%2 == 0 {
					first, second = user, server
				}
				reload(first)
				time.AfterFunc(tlsconf.WatchInterval, func() { reload(second) })
			}
			select {
			case err := <-long:
				if err != nil {
					t.Fatalf("a long call: after %s: %v", time.Since(began), err)
				}
				go wait()
			default:
			}
			if _, err := client.Staleness(ctx); err != nil {
				t.Fatalf("call %d, after %s: %v", calls, time.Since(began), err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if got := dials.Load(); got < 55 || got > 130 {
			t.Errorf("connections made: got %d, want one or two for each of 60 renewals", got)
		}
		time.Sleep(tlsconf.WatchInterval)
		cancel()
		<-long
		if err := errors.Join(conn.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
}
