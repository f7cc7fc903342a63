package gossip

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

func TestASilentNodeFailsInTimeAndRejoinsAfterTheHeal(t *testing.T) {
	inPool(t, clusterA, []string{"a", "b", "c"}, func(t *testing.T, p *simPool) {
		start := time.Now()
		p.net.Isolate("c")
		waitStatus(t, 5*time.Second, p.nodes["a"], "c", StatusFailed)
		waitStatus(t, 5*time.Second, p.nodes["b"], "c", StatusFailed)
		t.Logf("failure seen by both after %v", time.Since(start))
		waitStatus(t, time.Minute, p.nodes["c"], "a", StatusFailed)
		start = time.Now()
		p.net.Heal()
		p.waitAll(RejoinInterval+5*time.Second, StatusAlive, "a", "b", "c")
		t.Logf("one pool again after %v", time.Since(start))
	})
}

func TestGO05ACrashedMachineIsAliveOnAnotherAddressInTime(t *testing.T) {
	inPool(t, clusterA, []string{"a", "b", "c"}, func(t *testing.T, p *simPool) {
		p.net.Isolate("c")
		p.net.Crash("c")
		p.nodes["c"].stop()
		time.Sleep(2 * time.Second)
		start := time.Now()
		p.start("c", "new-home")
		want := net.JoinHostPort(p.net.Host("new-home").IP().String(), strconv.Itoa(simPort))
		for _, viewer := range []string{"a", "b"} {
			eventually(t, 33*time.Second, viewer+" sees c alive at "+want, func() bool {
				for _, m := range p.nodes[viewer].Members() {
					if m.ID == "c" && m.Status == StatusAlive && m.SerfAddr == want {
						return true
					}
				}
				return false
			}, func() any { return p.nodes[viewer].Members() })
		}
		t.Logf("alive on the new address for all after %v", time.Since(start))
	})
}

// The old address is dead after less than 2 s, may be replaced after
// DeadNodeReclaimTime, and the master asks for that once a second.
func TestGO05AMasterThatReturnsOnAnotherAddressAtOnceIsAliveWithinFiveSeconds(t *testing.T) {
	inPool(t, clusterA, []string{"a", "b", "c"}, func(t *testing.T, p *simPool) {
		p.role = RoleMaster
		p.net.Isolate("c")
		p.net.Crash("c")
		p.nodes["c"].stop()
		start := time.Now()
		p.start("c", "new-home")
		for _, viewer := range []string{"a", "b"} {
			eventually(t, 5*time.Second, viewer+" sees c alive on its new address", func() bool {
				return slices.ContainsFunc(p.nodes[viewer].Members(), func(m Member) bool {
					return m.ID == "c" && m.Status == StatusAlive && m.SerfAddr == p.addr("new-home")
				})
			}, func() any { return p.nodes[viewer].Members() })
		}
		t.Logf("alive on the new address for all after %v", time.Since(start))
	})
}

func TestGO04PartsOfASplitPoolFindEachOtherAfterALongTime(t *testing.T) {
	inPool(t, clusterA, []string{"a", "b", "c", "d"}, func(t *testing.T, p *simPool) {
		p.net.Split([]string{"a", "b"}, []string{"c", "d"})
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff(map[string]Status{
			"a": StatusAlive, "b": StatusAlive, "c": StatusFailed, "d": StatusFailed,
		}, seen(p.nodes["a"].Gossip)); diff != "" {
			t.Errorf("view of a during the split (-want +got):\n%s", diff)
		}
		p.net.Heal()
		p.waitAll(RejoinInterval+5*time.Second, StatusAlive, "a", "b", "c", "d")
	})
}

// changes counts the failures that a node reports during a time.
func changes(n *node, d time.Duration) int {
	deadline := time.After(d)
	failures := 0
	for {
		select {
		case ev := <-n.Events():
			if ev.Kind == MemberFailed {
				failures++
			}
		case <-deadline:
			return failures
		}
	}
}

func TestABadNetworkMakesNobodyFail(t *testing.T) {
	tests := map[string]func(n *simnet.Network){
		"one direction between two nodes is cut": func(n *simnet.Network) { n.CutOneWay("a", "b") },
		"two nodes cannot reach each other":      func(n *simnet.Network) { n.Partition("a", "b") },
		"a firewall drops all datagrams":         func(n *simnet.Network) { n.SetDatagramLoss(1) },
		"one datagram in ten is lost":            func(n *simnet.Network) { n.SetDatagramLoss(0.1) },
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			inPool(t, clusterA, []string{"a", "b", "c", "d"}, func(t *testing.T, p *simPool) {
				fault(p.net)
				if got := changes(p.nodes["c"], time.Minute); got > 0 {
					t.Errorf("failures seen by c: got %d, want 0", got)
				}
			})
		})
	}
}

// same compares members, by id, with what a node knows.
func same(t *testing.T, what string, g *Gossip, got map[string]Member) {
	t.Helper()
	want := map[string]Member{}
	for _, m := range g.Members() {
		want[m.ID] = m
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestMastersThatFindTheirClusterOneAfterTheOtherStayTogether(t *testing.T) {
	inPool(t, model.ClusterIdentity{}, []string{"a", "b", "c"}, func(t *testing.T, p *simPool) {
		for id, n := range p.nodes {
			tags := n.cfg.Tags
			tags.Cluster = clusterA
			if err := n.SetTags(tags); err != nil {
				t.Fatalf("tags of %s: %v", id, err)
			}
			time.Sleep(3 * time.Second)
			p.waitAll(time.Second, StatusAlive, "a", "b", "c")
		}
		for _, m := range p.nodes["a"].Members() {
			if m.Tags.Cluster != clusterA {
				t.Errorf("cluster of %s as a sees it: got %v, want %v", m.ID, m.Tags.Cluster, clusterA)
			}
		}
	})
}

func TestMembersMetBeforeTheClusterWasKnownAreLeftOutOnceTheyAreForeign(t *testing.T) {
	for name, order := range map[string][]string{"this node first": {"a", "b"}, "the other first": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			clusters := map[string]model.ClusterIdentity{"a": clusterA, "b": clusterB}
			inPool(t, model.ClusterIdentity{}, []string{"a", "b"}, func(t *testing.T, p *simPool) {
				for _, id := range order {
					tags := p.nodes[id].cfg.Tags
					tags.Cluster = clusters[id]
					if err := p.nodes[id].SetTags(tags); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * time.Second)
				}
				for id, n := range p.nodes {
					if diff := cmp.Diff(map[string]Status{id: StatusAlive}, seen(n.Gossip)); diff != "" {
						t.Errorf("members of %s (-want +got):\n%s", id, diff)
					}
				}
			})
		})
	}
}
