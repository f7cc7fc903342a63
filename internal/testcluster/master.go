package testcluster

import (
	"context"
	"fmt"
	"testing/synctest"

	"github.com/hearthd/hearth/masterd"
)

// Ports of the processes.
const (
	masterGRPC = 7070
	masterRaft = 7071
	masterSerf = 7072
	masterHTTP = 8080
	workerGRPC = 7073
	workerSerf = 7074
	workerHTTP = 8081
)

// Master is one master through all its starts. The embedded one is the present start, or the last one.
type Master struct {
	*masterd.Master
	// Host is its name in the network.
	Host string

	dir  string
	proc *process // nil while it is down
}

// Up says whether it was started and neither stopped nor killed since.
func (m *Master) Up() bool { return m.proc != nil }

// StartMasters starts n masters that found a cluster together, and returns at once.
func (c *Cluster) StartMasters(n int) {
	c.t.Helper()
	c.Expect = n
	for i := range n {
		c.StartMaster(i)
	}
}

// StartMaster starts master i, from 0, anew or on what its last start left. Every master has the list of all that are
// expected as seeds.
func (c *Cluster) StartMaster(i int) *Master {
	c.t.Helper()
	for len(c.masters) <= i {
		host := fmt.Sprintf("m%d", len(c.masters)+1)
		c.masters = append(c.masters, &Master{Host: host, dir: c.dataDir(host)})
	}
	m := c.masters[i]
	if m.Up() {
		c.t.Fatalf("start master: %s runs", m.Host)
	}
	host := c.Net.Restart(c.Net.Host(m.Host).Name())
	var err error
	cfg := masterd.Config{
		DataDir: m.dir, Bind: c.Addr(m.Host), Join: c.seeds(), BootstrapExpect: c.Expect,
		GRPCPort: masterGRPC, RaftPort: masterRaft, SerfPort: masterSerf, HTTPPort: masterHTTP,
	}
	deps := masterd.Deps{Logger: c.log.Named(m.Host), Network: host}
	if c.Tune != nil {
		c.Tune(m.Host, &cfg, &deps)
	}
	m.Master, err = masterd.New(cfg, deps)
	if err != nil {
		c.t.Fatalf("start master %s: %v", m.Host, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	current := m.Master
	m.proc = begin(m.Host, cancel, func() error { return current.Run(ctx) })
	return m
}

// Addr is the address of a host: names would be resolved by the system, which lives outside the bubble.
func (c *Cluster) Addr(host string) string { return c.Net.Host(host).IP().String() }

// seeds are the gossip addresses of all masters.
func (c *Cluster) seeds() []string {
	var out []string
	for i := range max(c.Expect, len(c.masters)) {
		out = append(out, fmt.Sprintf("%s:%d", c.Addr(fmt.Sprintf("m%d", i+1)), masterSerf))
	}
	return out
}

// Master returns master i, from 0.
func (c *Cluster) Master(i int) *Master { return c.masters[i] }

// Masters returns those that are up, without except.
func (c *Cluster) Masters(except ...*Master) []*Master {
	var out []*Master
	for _, m := range c.masters {
		skip := !m.Up()
		for _, x := range except {
			skip = skip || x == m
		}
		if !skip {
			out = append(out, m)
		}
	}
	return out
}

// StopMaster is SIGTERM. It waits until the master has ended.
func (c *Cluster) StopMaster(m *Master) {
	c.t.Helper()
	p := m.proc
	m.proc = nil
	p.cancel()
	if err := p.join(c.t); err != nil {
		c.t.Errorf("stop master %s: %v", m.Host, err)
	}
}

// KillMaster is kill -9, on an otherwise idle machine.
func (c *Cluster) KillMaster(m *Master) {
	c.t.Helper()
	synctest.Wait() // files at rest
	m.dir = c.copyDir(m.Host, m.dir)
	c.Net.Crash(m.Host)
	c.haunt(m.proc)
	m.proc = nil
}

// RestartMaster starts a master that is down. Its machine gets power if it has none.
func (c *Cluster) RestartMaster(m *Master) {
	c.t.Helper()
	c.powerOn(m.Host)
	for i := range c.masters {
		if c.masters[i] == m {
			c.StartMaster(i)
		}
	}
}

// PowerOff takes a machine with all that runs on it: from then on it is silent.
func (c *Cluster) PowerOff(host string) {
	c.t.Helper()
	c.Net.Isolate(host)
	c.dark[host] = true
	for _, m := range c.masters {
		if m.Host == host && m.Up() {
			c.KillMaster(m)
		}
	}
	for _, w := range c.workers {
		if w.Host == host && w.Up() {
			w.procs.vanish()
			c.KillWorker(w)
		}
	}
	c.Net.Crash(host)
}

// powerOn ends a loss of power. Any other isolation stays.
func (c *Cluster) powerOn(host string) {
	if c.dark[host] {
		delete(c.dark, host)
		c.Net.Rejoin(host)
	}
}
