package rpc

import (
	"context"
	"errors"
	"testing"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// An attempt of a driver acts in the name of whoever submitted it, and the log says
// which attempt it was, also through a standby. The token that lies about on its
// worker is an operator's, and it does not become one by that.
func TestADriverActsForWhoeverSubmittedItWhateverTokenItShows(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	f, last := caught()
	const name = "driver-20261130061500-0003.2"
	policy := func() *people {
		out := newPeople(t, true)
		out.drivers = map[string]string{name: "ann"}
		return out
	}
	led, standby := p.issue(tlsconf.RoleMaster, "m1"), p.issue(tlsconf.RoleMaster, "m2")
	replaced := policy()
	leader, _ := serve(t, ServerConfig{TLS: tlsconf.Drivers(led.Server(), attempts), Leader: ready(), Access: replaced}, allServices(f))
	via, _ := serve(t, ServerConfig{
		TLS: tlsconf.Drivers(standby.Server(), attempts), ForwardTLS: standby.Client(), Leader: leaderAt(leader.Addr().String()), Access: policy(),
	}, allServices(&fakeServices{}))
	self := p.driver(name, name)
	for _, s := range []*Server{leader, via} {
		conn := dial(t, s.Addr().String(), DialConfig{TLS: self.Client(), Token: bearerFor(t, "operator"), Principal: "root"})
		if err := ClusterClient(conn).KillApp(testContext(t), CallInfo{RequestID: "r-1"}, "app-1", ""); err != nil {
			t.Fatal(err)
		}
		want := CallInfo{RequestID: "r-1", Principal: "ann", Credential: "driver-20261130061500-0003/2", From: "127.0.0.1", OwnOnly: true}
		if got := last(); got != want {
			t.Errorf("the leader saw %+v, want %+v", got, want)
		}
		if err := ClusterClient(conn).SetSettings(testContext(t), CallInfo{RequestID: "r-2"}, nil); !errors.Is(err, model.ErrRefused) {
			t.Errorf("with an operator's token it may change settings: %v", err)
		}
	}
	// The leader knows first that another attempt has followed.
	replaced.mu.Lock()
	replaced.drivers = nil
	replaced.mu.Unlock()
	conn := dial(t, via.Addr().String(), DialConfig{TLS: self.Client()})
	if err := ClusterClient(conn).KillApp(testContext(t), CallInfo{RequestID: "r-3"}, "app-1", ""); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("the leader takes an attempt that only the standby takes for the present one: %v", err)
	}
	lines := replaced.noted()
	if l := lines[len(lines)-1]; l.Credential != "driver-20261130061500-0003/2" || l.Outcome != model.AuditRefused {
		t.Errorf("the trail has %+v", l)
	}
}

func TestAServerWithoutAPolicyKnowsNoDrivers(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	s, _ := serve(t, ServerConfig{TLS: tlsconf.Drivers(p.issue(tlsconf.RoleMaster, "m1").Server(), attempts)}, allServices(&fakeServices{}))
	conn := dial(t, s.Addr().String(), DialConfig{TLS: p.driver("driver-20261130061500-0003.2", "driver-20261130061500-0003.2").Client()})
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	if _, err := ClusterClient(conn).Apps(ctx, AppsRequest{}); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("it is served: %v", err)
	}
}
