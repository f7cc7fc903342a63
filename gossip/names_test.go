package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
)

// knows is a LookupFunc that knows these names.
func knows(names map[string]string) LookupFunc {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if ip, ok := names[host]; ok {
			return []netip.Addr{netip.MustParseAddr(ip)}, nil
		}
		return nil, fmt.Errorf("lookup %s: no such host", host)
	}
}

// A member behind a bridge advertises a name that exists only outside (UX-10): it starts, who can resolve the name sends
// there, and who cannot says so within 5 s.
func TestUX10ANameThatAMemberAdvertisesIsResolvedByItsPeersAndNotByItself(t *testing.T) {
	inside := worker("inside", clusterA)
	inside.AdvertiseHost, inside.Tags.GRPCAddr = "inside.example", "inside.example:7073"
	inside.Lookup = knows(nil)
	b := start(t, inside)

	able := worker("able", clusterA, b.LocalAddr())
	able.Lookup = knows(map[string]string{"inside.example": "127.0.0.7"})
	unable := worker("unable", clusterA, b.LocalAddr())
	unable.Lookup = knows(nil)
	a, c := start(t, able), start(t, unable)

	want := []Unresolved{{ID: "inside", Role: RoleWorker, Host: "inside.example", Err: "lookup inside.example: no such host"}}
	eventually(t, 5*time.Second, "the peer that cannot resolve the name reports it",
		func() bool { return cmp.Equal(c.Unresolved(), want) }, func() any { return c.Unresolved() })
	told := memberlist.Address{Name: "inside", Addr: "172.31.0.2:7074"}
	eventually(t, 5*time.Second, "the peer that can resolve the name sends there",
		func() bool { return a.names.find(told) == "127.0.0.7:7074" }, func() any { return a.names.find(told) })
	if got := a.Unresolved(); len(got) > 0 {
		t.Errorf("the peer that can resolve it reports %v", got)
	}
	if got := c.names.find(told); got != told.Addr {
		t.Errorf("who cannot resolve it sends to %s, want what gossip tells, %s", got, told.Addr)
	}
	_, port, err := net.SplitHostPort(b.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	if want := "inside.example:" + port; b.AdvertiseAddr() != want {
		t.Errorf("it advertises %s, want %s", b.AdvertiseAddr(), want)
	}
	for _, m := range a.Members() {
		if want := "inside.example:" + port; m.ID == "inside" && m.SerfAddr != want {
			t.Errorf("its peers know it at %s, want %s", m.SerfAddr, want)
		}
	}
}

// A name that means the address that gossip tells changes nothing, and one that is lost keeps its address.
func TestUX10ANameKeepsItsAddressWhileItsLookUpFails(t *testing.T) {
	known := map[string]string{"b.example": "10.9.0.2"}
	n := newNames(worker("a", clusterA).Logger, knows(known))
	b := located{told: netip.MustParseAddr("10.9.0.2"), Member: Member{ID: "b", Status: StatusAlive, Tags: Tags{GRPCAddr: "b.example:7073"}}}
	told := memberlist.Address{Name: "b", Addr: "10.9.0.2:7074"}
	step := func(what, want string, failing int) {
		t.Helper()
		b.Tags.Incarnation++ // due again
		n.look(t.Context(), []located{b})
		if got := n.find(told); got != want || len(n.unresolved()) != failing {
			t.Errorf("%s: it is at %s, want %s; unresolved %v, want %d", what, got, want, n.unresolved(), failing)
		}
	}
	step("the same address", "10.9.0.2:7074", 0)
	known["b.example"] = "10.78.0.2"
	step("another address", "10.78.0.2:7074", 0)
	delete(known, "b.example")
	step("a look-up that fails", "10.78.0.2:7074", 1)
	b.Status = StatusFailed
	step("a member that failed, and its name went with it", "10.78.0.2:7074", 0)
}
