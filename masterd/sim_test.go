package masterd

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/rpc"
)

// simSeeds is how many seeds each simulated scenario runs with.
func simSeeds(t *testing.T) int {
	t.Helper()
	v := os.Getenv("HEARTH_SIM_SEEDS")
	if v == "" {
		return 3
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("HEARTH_SIM_SEEDS=%q: want a number from 1", v)
	}
	return n
}

// simCluster is masters over a simulated network in virtual time, with
// production timeouts and stores on disk, for scenarios that have to reach into
// a master. All others are in internal/testcluster, which this package's own
// tests cannot import.
type simCluster struct {
	t    *testing.T
	rnd  *rand.Rand
	net  *simnet.Network
	dirs []string
	log  hclog.Logger
	ms   []*simMaster
	// deps changes what the masters are handed; nil = nothing.
	deps func(n int, d *Deps)
	// conf changes their configuration; nil = nothing.
	conf func(*Config)
}

type simMaster struct {
	*Master
	host   string
	cancel context.CancelFunc
	done   chan error
	fails  bool // it is meant to end with an error
}

// simulate runs a scenario once per seed, each in a bubble of its own.
func simulate(t *testing.T, scenario func(t *testing.T, c *simCluster)) {
	t.Helper()
	for seed := range simSeeds(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { simulateSeed(t, int64(seed), scenario) })
	}
}

// simulateLeaving is simulate for scenarios after which goroutines of a library
// remain that nothing can end: leaves is what they run, as a stack names it.
// Any other that remains fails the test, as in simulate.
func simulateLeaving(t *testing.T, leaves []string, scenario func(t *testing.T, c *simCluster)) {
	t.Helper()
	for seed := range simSeeds(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					if other := othersInBubbles(leaves); len(other) > 0 || !strings.Contains(fmt.Sprint(p), "blocked goroutines remain") {
						t.Logf("of %d goroutines that remain the first is:\n%s", len(other), strings.Join(other[:min(1, len(other))], ""))
						panic(p)
					}
				}
			}()
			simulateSeed(t, int64(seed), scenario)
		})
	}
}

// othersInBubbles are the stacks of goroutines in bubbles that do not stand in
// one of these functions.
func othersInBubbles(functions []string) []string {
	buf := make([]byte, 16<<20)
	var other []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		head, frames, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "synctest bubble") && !slices.ContainsFunc(functions, func(f string) bool { return strings.HasPrefix(frames, f+"(") }) {
			other = append(other, stack)
		}
	}
	return other
}

// simulateSeed runs a scenario once.
func simulateSeed(t *testing.T, seed int64, scenario func(t *testing.T, c *simCluster)) {
	t.Helper()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewSource(seed))
		c := &simCluster{t: t, rnd: rnd, net: simnet.New(rand.New(rand.NewSource(seed))), dirs: dirs, log: testLogger(t)}
		scenario(t, c)
		c.stop()
		// Timers of the libraries run out in virtual time.
		time.Sleep(2 * time.Minute)
	})
}

func hostName(n int) string { return fmt.Sprintf("m%d", n+1) }

// addr is the address of master n: names would be resolved by the system,
// which lives outside the bubble.
func (c *simCluster) addr(n int) string { return c.net.Host(hostName(n)).IP().String() }

// start begins master n; every master has the full list of seeds.
func (c *simCluster) start(n int) *simMaster {
	c.t.Helper()
	host := c.net.Host(hostName(n))
	var join []string
	for i := range c.dirs {
		join = append(join, c.addr(i)+":7072")
	}
	deps := Deps{Logger: c.log, Network: host}
	if c.deps != nil {
		c.deps(n, &deps)
	}
	conf := Config{
		DataDir: c.dirs[n], Bind: c.addr(n), Join: join, BootstrapExpect: len(c.dirs),
		GRPCPort: 7070, RaftPort: 7071, SerfPort: 7072, HTTPPort: 8080,
	}
	if c.conf != nil {
		c.conf(&conf)
	}
	m, err := New(conf, deps)
	if err != nil {
		c.t.Fatalf("start %s: %v", hostName(n), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sm := &simMaster{Master: m, host: hostName(n), cancel: cancel, done: make(chan error, 1)}
	go func() { sm.done <- m.Run(ctx) }()
	c.ms = append(c.ms, sm)
	return sm
}

func (c *simCluster) stop() {
	for _, m := range c.ms {
		m.cancel()
	}
	for _, m := range c.ms {
		if err := <-m.done; (err != nil) != m.fails {
			c.t.Errorf("master %s: %v", m.host, err)
		}
	}
}

// until polls in virtual time.
func (c *simCluster) until(what string, limit time.Duration, ok func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		err := ok()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			c.t.Fatalf("%s within %s: %v", what, limit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *simCluster) leader(except ...*simMaster) (*simMaster, error) {
	for _, m := range c.ms {
		skip := false
		for _, x := range except {
			skip = skip || x == m
		}
		if !skip && m.leading.Load() != nil {
			return m, nil
		}
	}
	return nil, errors.New("nobody leads")
}

// client talks to the cluster from a host of its own.
func (c *simCluster) client(masters ...*simMaster) *client.Client {
	c.t.Helper()
	var addrs []string
	for _, m := range masters {
		addrs = append(addrs, m.GRPCAddr())
	}
	cl, err := client.New(client.Config{Masters: addrs, Dialer: rpc.DialFunc(c.net.Host("client").Dial)})
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// settled waits for one leader and one cluster id on all masters.
func (c *simCluster) settled(limit time.Duration) (*simMaster, time.Duration) {
	c.t.Helper()
	var leader *simMaster
	took := c.until("one cluster with a leader", limit, func() (err error) {
		if leader, err = c.leader(); err != nil {
			return err
		}
		for _, m := range c.ms {
			if m.id.Settled() != leader.id.Settled() {
				return fmt.Errorf("%s belongs to %s", m.host, m.id.Settled())
			}
		}
		servers, _, err := leader.node.Servers()
		if err != nil {
			return err
		}
		if len(servers) != len(c.dirs) {
			return fmt.Errorf("%d servers", len(servers))
		}
		return nil
	})
	return leader, took
}

// agree waits until all masters stand at one index with one hash.
func (c *simCluster) agree() {
	c.t.Helper()
	c.until("equal state hashes", 30*time.Second, func() error {
		index, hash := c.ms[0].StateHash()
		for _, m := range c.ms[1:] {
			if i, h := m.StateHash(); i != index || h != hash {
				return fmt.Errorf("%s is at %d %s, %s at %d %s", c.ms[0].host, index, hash, m.host, i, h)
			}
		}
		return nil
	})
}
