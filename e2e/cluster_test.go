//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
)

// Bounds of what the harness itself waits for.
const (
	settleWithin = 30 * time.Second // replicas equal, executors gone
	leaderWithin = 20 * time.Second
)

// size is how large a cluster is; zero fields take the defaults of size.args.
type size struct {
	masters, workers, cores int
	memory                  string
}

func (s size) args() []string {
	if s.masters == 0 {
		s.masters = 3
	}
	if s.workers == 0 {
		s.workers = 2
	}
	if s.cores == 0 {
		s.cores = 4
	}
	if s.memory == "" {
		s.memory = "16g"
	}
	return []string{
		"--masters", strconv.Itoa(s.masters), "--workers", strconv.Itoa(s.workers),
		"--worker-cores", strconv.Itoa(s.cores), "--worker-memory", s.memory,
	}
}

// node is one daemon.
type node struct {
	demo.Endpoints
	Leader bool // when the cluster started
	name   string
	proc   proc
	paused bool
	exited chan struct{} // of our own children: closed once reaped
	of     *cluster
}

// cluster is a running cluster of real processes.
type cluster struct {
	binary     string
	dir        string
	size       size
	masters    []*node
	workers    []*node
	masterList string
	access     access
	client     *client.Client
	markers    map[string]bool // environment entries of processes of this cluster
	noQuorum   bool            // too few masters live for the checks at the end
	preset     string          // of masters that are started again; "" = the default one
	workerArgs []string        // more flags of workers that are started again
	stopped    bool
}

// newCluster starts a cluster and registers its end with all checks.
func newCluster(t *testing.T, s size) *cluster {
	t.Helper()
	return newClusterOf(t, hearthBinary, s)
}

// newClusterOf is newCluster with another build of the daemons.
func newClusterOf(t *testing.T, binary string, s size) *cluster {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{binary: binary, dir: filepath.Join(dir, "cluster"), size: s, markers: map[string]bool{}}
	c.markers["DEMO_OF_HEARTH="+c.dir] = true
	t.Cleanup(func() { c.end(t) })
	args := append([]string{"demo", "--keep", "--no-job", "--dir", c.dir, "-o", "json"}, s.args()...)
	if secure() {
		args = append(args, "--secure")
	}
	r := startBinary(t, binary, nil, "", args...).wait(t).wantCode(t, 0)
	var shape struct {
		Masters []*node           `json:"masters"`
		Workers []*node           `json:"workers"`
		Env     map[string]string `json:"env"`
	}
	r.decode(t, &shape)
	c.masters, c.workers, c.masterList = shape.Masters, shape.Workers, shape.Env[config.EnvMasters]
	c.access = accessOf(t, c.dir, shape.Env)
	for n, m := range c.masters {
		m.name, m.proc, m.of = fmt.Sprintf("master-%d", n+1), openProc(t, m.PID), c
	}
	for n, w := range c.workers {
		w.name, w.proc, w.of = fmt.Sprintf("worker-%d", n+1), openProc(t, w.PID), c
		c.markers["HEARTH_WORKER_ID="+w.ID] = true
	}
	if c.client, err = c.access.client("e2e", strings.Split(c.masterList, ",")...); err != nil {
		t.Fatal(err)
	}
	t.Logf("a cluster of %d masters and %d workers in %s", len(c.masters), len(c.workers), r.took.Round(time.Millisecond))
	return c
}

func (c *cluster) nodes() []*node { return slices.Concat(c.masters, c.workers) }

// living are the nodes whose processes live and are not paused.
func living(nodes []*node) []*node {
	var out []*node
	for _, n := range nodes {
		if n.proc.alive() && !n.paused {
			out = append(out, n)
		}
	}
	return out
}

func (n *node) stop(t testing.TB) {
	t.Helper()
	n.paused = true
	n.proc.signal(t, syscall.SIGSTOP)
}

func (n *node) cont(t testing.TB) {
	t.Helper()
	n.proc.signal(t, syscall.SIGCONT)
	n.paused = false
}

// restart starts a dead daemon again on its data directory, with ports of the
// kernel's choice, and waits until it says that it is ready.
func (c *cluster) restart(t testing.TB, old *node) *node {
	t.Helper()
	n := c.launch(t, old)
	c.awaitReady(t, n)
	return n
}

// launch is restart without the wait.
func (c *cluster) launch(t testing.TB, old *node) *node {
	t.Helper()
	return c.launchOn(t, old, "0", "0", "0", "0")
}

// launchThere is launch on the ports that the daemon had.
func (c *cluster) launchThere(t testing.TB, old *node) *node {
	t.Helper()
	port := func(addr string) string {
		_, p, err := net.SplitHostPort(addr)
		if err != nil && addr != "" {
			t.Fatal(err)
		}
		return p
	}
	return c.launchOn(t, old, port(old.GRPC), port(old.Raft), port(old.Serf), port(old.HTTP))
}

func (c *cluster) launchOn(t testing.TB, old *node, grpcPort, raftPort, serfPort, httpPort string) *node {
	t.Helper()
	log, err := os.OpenFile(c.dataDir(old)+".log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	kind, _, _ := strings.Cut(old.name, "-")
	args := []string{kind, "--data-dir", c.dataDir(old), "--bind", "127.0.0.1", "--grpc-port", grpcPort, "--serf-port", serfPort, "--http-port", httpPort}
	var join []string
	for _, m := range c.masters {
		if m != old {
			join = append(join, m.Serf)
		}
	}
	s := c.size.args()
	if kind == "master" {
		if c.preset != "" {
			args = append(args, "--raft-preset", c.preset)
		}
		args = append(args, "--raft-port", raftPort, "--bootstrap-expect", s[1], "--join", strings.Join(join, ","))
	} else {
		args = append(args, "--masters", c.masterList, "--join", strings.Join(join, ","), "--cores", s[5], "--memory", s[7])
		args = append(args, c.workerArgs...)
	}
	cmd := exec.Command(c.binary, append(args, c.tlsArgs(old)...)...)
	cmd.Env = ownEnv("DEMO_OF_HEARTH=" + c.dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s again: %v", old.name, err)
	}
	n := &node{name: old.name, Endpoints: old.Endpoints, proc: openProc(t, cmd.Process.Pid), exited: make(chan struct{}), of: c}
	go func() {
		defer close(n.exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	for _, list := range [][]*node{c.masters, c.workers} {
		if i := slices.Index(list, old); i >= 0 {
			list[i] = n
		}
	}
	return n
}

func (c *cluster) dataDir(n *node) string { return filepath.Join(c.dir, n.name) }

// awaitReady reads the addresses of a daemon that was started again.
func (c *cluster) awaitReady(t testing.TB, n *node) {
	t.Helper()
	id := n.ID
	took := eventually(t, settleWithin, n.name+" is ready again", func() string {
		where, err := demo.ReadEndpoints(c.dataDir(n), demo.ReadyFile, n.proc.pid)
		if err != nil {
			return err.Error()
		}
		n.Endpoints = where
		return ""
	})
	t.Logf("%s was ready again after %s", n.name, took.Round(time.Millisecond))
	if n.ID != id {
		t.Errorf("%s came back as %s, was %s", n.name, n.ID, id)
	}
	if strings.HasPrefix(n.name, "master") {
		c.learn(t)
	}
}

// learn makes client and commands use the masters' present addresses.
func (c *cluster) learn(t testing.TB) {
	t.Helper()
	var addrs []string
	for _, m := range c.masters {
		addrs = append(addrs, m.GRPC)
	}
	c.masterList = strings.Join(addrs, ",")
	fresh, err := c.access.client("e2e", addrs...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.Close(); err != nil {
		t.Error(err)
	}
	c.client = fresh
}

// end takes the cluster down and makes the checks that every test ends with.
func (c *cluster) end(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes() {
		if n.paused && n.proc.alive() {
			n.cont(t)
		}
	}
	defer func() {
		if t.Failed() {
			c.dumpLogs(t)
		}
	}()
	defer c.takeDown(t)
	if t.Failed() || c.client == nil || c.noQuorum {
		return
	}
	c.killAll(t)
	c.sameState(t)
}

// takeDown ends every process and looks for what is left.
func (c *cluster) takeDown(t *testing.T) {
	t.Helper()
	if c.stopped {
		return
	}
	c.stopped = true
	if c.client != nil {
		if err := c.client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	}
	// demo --stop does not know what was started again. Workers go first, or
	// they have nobody to say goodbye to.
	for _, list := range [][]*node{c.workers, c.masters} {
		alive := living(list)
		for _, n := range alive {
			n.proc.signal(t, syscall.SIGTERM)
		}
		for _, n := range alive {
			n.proc.awaitEnd(t, settleWithin)
		}
	}
	// It waits for what it has started, which is all there should be.
	r := startBinary(t, c.binary, nil, "", "demo", "--stop", "--dir", c.dir).wait(t)
	if r.code != 0 {
		t.Errorf("hearth demo --stop: code %d: %s", r.code, r.stderr)
	}
	if left := scan(c.markers); len(left) > 0 {
		t.Errorf("processes are left after the end of the cluster:\n%s", list(left))
		for _, p := range left {
			if h, err := os.FindProcess(p.pid); err == nil {
				_ = h.Kill() // best effort: the test has failed already
			}
		}
	}
	c.checkLogs(t)
}

var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE).*|panic recovered.*|invariant.*(broken|violated).*`)

// checkLogs fails the test if a daemon crashed.
func (c *cluster) checkLogs(t *testing.T) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log")) // the pattern is valid
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("read a log: %v", err)
			continue
		}
		if at := crash.FindIndex(text); at != nil {
			t.Errorf("%s:\n%s", filepath.Base(path), text[at[0]:min(len(text), at[0]+4000)])
		}
	}
}

// dumpLogs shows the end of every daemon's log.
func (c *cluster) dumpLogs(t *testing.T) {
	t.Helper()
	const most = 6000
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log")) // the pattern is valid
	for _, path := range logs {
		text, _ := os.ReadFile(path) // what could be read is shown
		if len(text) > most {
			text = text[len(text)-most:]
		}
		t.Logf("=== %s\n%s", filepath.Base(path), text)
	}
}

// UnmarshalJSON reads the shape that hearth demo prints.
func (n *node) UnmarshalJSON(data []byte) error {
	var shape struct {
		demo.Endpoints
		Leader bool `json:"leader"`
	}
	if err := json.Unmarshal(data, &shape); err != nil {
		return err
	}
	n.Endpoints, n.Leader = shape.Endpoints, shape.Leader
	return nil
}
