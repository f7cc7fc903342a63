package gossip

import (
	"math/rand"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

var _ Transport = (*simnet.Host)(nil)

const simPort = 7072

// simPool is a pool of nodes on a simulated network in a bubble; node i has the id and host name of its letter.
type simPool struct {
	t       *testing.T
	net     *simnet.Network
	cluster model.ClusterIdentity
	seeds   []string
	nodes   map[string]*node
}

// inPool runs test in virtual time with nodes of these names, all seeds of each other, once they see each other.
func inPool(t *testing.T, cluster model.ClusterIdentity, names []string, test func(t *testing.T, p *simPool)) {
	t.Helper()
	if raceDetector {
		// Minutes of virtual time are millions of short goroutines, and the
		// detector's own table of their stacks has crashed (a SIGSEGV in
		// StackDepot, Go 1.26.8). The tests on loopback run under it.
		t.Skip("virtual time outgrows the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		p := &simPool{
			t: t, net: simnet.New(rand.New(rand.NewSource(7))), cluster: cluster, nodes: map[string]*node{},
		}
		for _, name := range names {
			p.seeds = append(p.seeds, net.JoinHostPort(p.net.Host(name).IP().String(), strconv.Itoa(simPort)))
		}
		for _, name := range names {
			p.start(name, name)
		}
		p.waitAll(10*time.Second, StatusAlive, names...)
		test(t, p)
		for _, n := range p.nodes {
			n.stop()
		}
		time.Sleep(time.Minute) // the libraries' last timers
	})
}

// start runs the node called id on a host.
func (p *simPool) start(id, host string) {
	p.t.Helper()
	cfg := worker(id, p.cluster, p.seeds...)
	cfg.BindHost, cfg.BindPort = "", simPort
	cfg.Transport = p.net.Host(host)
	cfg.Rand = rand.New(rand.NewSource(int64(len(p.nodes))))
	p.nodes[id] = start(p.t, cfg)
}

// waitAll waits until each of the nodes sees all of these nodes in a status.
func (p *simPool) waitAll(limit time.Duration, want Status, ids ...string) {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for _, viewer := range ids {
		for _, id := range ids {
			waitStatus(p.t, time.Until(deadline), p.nodes[viewer], id, want)
		}
	}
}

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

func TestACrashedMachineReturnsOnAnotherAddress(t *testing.T) {
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

func TestPartsOfASplitPoolFindEachOtherAfterALongTime(t *testing.T) {
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

func TestABlockedReaderNeverBlocksGossip(t *testing.T) {
	inPool(t, clusterA, []string{"a", "b", "c"}, func(t *testing.T, p *simPool) {
		const updates = 1000
		tags := p.nodes["b"].cfg.Tags
		for i := range updates { // nobody reads the events of a
			tags.Incarnation = uint64(i + 2)
			if err := p.nodes["b"].SetTags(tags); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for _, viewer := range []string{"b", "c"} {
			if got := seen(p.nodes[viewer].Gossip)["a"]; got != StatusAlive {
				t.Errorf("%s thinks a is %s, want %s", viewer, got, StatusAlive)
			}
		}
		latest := map[string]Member{}
		for done := false; !done; {
			select {
			case ev := <-p.nodes["a"].Events():
				if ev.Kind == MemberFailed {
					t.Errorf("false failure of %s", ev.Member.ID)
				}
				latest[ev.Member.ID] = ev.Member
			case <-time.After(time.Second):
				done = true
			}
		}
		want := map[string]Member{}
		for _, m := range p.nodes["a"].Members() {
			want[m.ID] = m
		}
		if diff := cmp.Diff(want, latest); diff != "" {
			t.Errorf("what the events said at last, against Members (-want +got):\n%s", diff)
		}
	})
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
