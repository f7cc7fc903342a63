package masterd

import (
	"context"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/testca"
	"github.com/hearthd/hearth/internal/tlsconf"
)

func TestMastersTalkOverMutualTLS(t *testing.T) {
	authority := testca.New(t)
	src, user := authority.Source(t, tlsconf.RoleMaster, "m1"), authority.Source(t, tlsconf.RoleClient, "alice")
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
		c, err := client.New(client.Config{Masters: []string{m.GRPCAddr()}, TLS: user.Client()})
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
