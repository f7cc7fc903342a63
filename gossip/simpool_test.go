package gossip

import (
	"fmt"
	"maps"
	"math/rand"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

var _ Transport = (*simnet.Host)(nil)

const simPort = 7072

// envFull asks for the full counts and times of the field reports, where they take more than moments.
const envFull = "HEARTH_SIM_FULL"

// full chooses between what a report asks for and what every run of the tests can afford.
func full[T any](asked, afforded T) T {
	if os.Getenv(envFull) != "" {
		return asked
	}
	return afforded
}

// simPool is a pool of nodes on a simulated network in a bubble; a node has the id and host name of its name.
type simPool struct {
	t       *testing.T
	net     *simnet.Network
	rnd     *rand.Rand
	cluster model.ClusterIdentity
	seeds   []string
	nodes   map[string]*node
	logger  func(id string) hclog.Logger // nil = quiet
	role    Role                         // of nodes that are started; "" = worker

	mu    sync.Mutex
	heard []heardEvent
}

// heardEvent is one event at one node.
type heardEvent struct {
	at     time.Time
	viewer string
	Event
}

// inBubble runs test in virtual time with a network and no nodes. The first three names are the seeds of all.
func inBubble(t *testing.T, seed int64, names []string, test func(t *testing.T, p *simPool)) {
	t.Helper()
	if raceDetector {
		// Minutes of virtual time are millions of short goroutines, and the
		// detector's own table of their stacks has crashed (a SIGSEGV in
		// StackDepot, Go 1.26.8). The tests on loopback run under it.
		t.Skip("virtual time outgrows the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewSource(seed))
		p := &simPool{t: t, net: simnet.New(rnd), rnd: rand.New(rand.NewSource(seed)), cluster: clusterA, nodes: map[string]*node{}}
		for _, name := range names[:min(3, len(names))] {
			p.seeds = append(p.seeds, p.addr(name))
		}
		test(t, p)
		for _, n := range p.nodes {
			n.stop()
		}
		time.Sleep(time.Minute) // the libraries' last timers
	})
}

// inPool runs test in virtual time with nodes of these names, all seeds of each other, once they see each other.
func inPool(t *testing.T, cluster model.ClusterIdentity, names []string, test func(t *testing.T, p *simPool)) {
	t.Helper()
	inBubble(t, 7, names, func(t *testing.T, p *simPool) {
		p.cluster, p.seeds = cluster, nil
		for _, name := range names {
			p.seeds = append(p.seeds, p.addr(name))
		}
		for _, name := range names {
			p.start(name, name)
		}
		p.waitAll(10*time.Second, StatusAlive, names...)
		test(t, p)
	})
}

// names makes n names.
func simNames(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("n%02d", i))
	}
	return out
}

func (p *simPool) addr(host string) string {
	return net.JoinHostPort(p.net.Host(host).IP().String(), strconv.Itoa(simPort))
}

// start runs the node called id on a host.
func (p *simPool) start(id, host string) {
	p.t.Helper()
	cfg := worker(id, p.cluster, p.seeds...)
	cfg.BindHost, cfg.BindPort = "", simPort
	cfg.Transport = p.net.Host(host)
	cfg.Rand = rand.New(rand.NewSource(p.rnd.Int63()))
	if p.role == RoleMaster {
		cfg.Tags.Role, cfg.Tags.RaftAddr, cfg.Tags.Incarnation = RoleMaster, "127.0.0.1:7071", 0
	}
	if p.logger != nil {
		cfg.Logger = p.logger(id)
	}
	p.nodes[id] = start(p.t, cfg)
}

// record starts to keep what the nodes that run now say.
func (p *simPool) record() {
	for id, n := range p.nodes {
		go func() {
			for ev := range n.Events() {
				p.mu.Lock()
				p.heard = append(p.heard, heardEvent{time.Now(), id, ev})
				p.mu.Unlock()
			}
		}()
	}
}

// told takes what was recorded.
func (p *simPool) told() []heardEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.heard
	p.heard = nil
	return out
}

// crash ends a node as kill -9 does.
func (p *simPool) crash(id string) {
	p.net.Crash(id)
	p.nodes[id].stop()
	delete(p.nodes, id)
}

// comeBack starts a crashed node again where it was.
func (p *simPool) comeBack(id string) {
	p.net.Restart(id)
	p.start(id, id)
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

// whole waits until each node sees all nodes alive and nobody else, and returns how long that took.
func (p *simPool) whole(limit time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	ids := slices.Sorted(maps.Keys(p.nodes))
	for _, viewer := range ids {
		eventually(p.t, limit-time.Since(began), viewer+" sees all alive", func() bool {
			got := seen(p.nodes[viewer].Gossip)
			for _, id := range ids {
				if got[id] != StatusAlive {
					return false
				}
			}
			return len(got) == len(ids)
		}, func() any { return seen(p.nodes[viewer].Gossip) })
	}
	return time.Since(began)
}
