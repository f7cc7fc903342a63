//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/e2e/history"
)

const (
	// peerVariable is the path of the peer that make bench-failover builds.
	peerVariable = "HEARTH_BENCH_ETCD"
	// pairsVariable sets the pairs of trials of each kind.
	pairsVariable = "HEARTH_BENCH_PAIRS"
	pairsDefault  = 9

	// etcdHeartbeat is a tenth of its election time-out, as etcd advises.
	etcdHeartbeat = heartbeatTimeout / 10
	resamples     = 2000
)

// etcd is three processes of embedded etcd and the process that asks them.
type etcd struct {
	binary, dir, cluster string
	clients, peers       []string // addresses
	members              []*etcdMember
	orders               io.WriteCloser
	answers              *bufio.Scanner
}

type etcdMember struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func startEtcd(t *testing.T, binary string) *etcd {
	t.Helper()
	p := &etcd{binary: binary, dir: t.TempDir(), members: make([]*etcdMember, 3)}
	ports := newReservation(t)
	var names []string
	for n := range p.members {
		p.clients, p.peers = append(p.clients, ports.fresh(t)), append(p.peers, ports.fresh(t))
		names = append(names, fmt.Sprintf("m%d=http://%s", n, p.peers[n]))
	}
	p.cluster = strings.Join(names, ",")
	for n := range p.members {
		p.start(t, n)
	}
	ask := exec.Command(binary, "client", "-endpoints", strings.Join(p.clients, ","))
	ask.Stderr = os.Stderr
	orders, err := ask.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ask.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.orders, p.answers = orders, bufio.NewScanner(answers)
	if err := ask.Start(); err != nil {
		t.Fatalf("start the client of etcd: %v", err)
	}
	t.Cleanup(func() {
		_ = p.orders.Close() // ends it
		_ = ask.Wait()
		for _, m := range p.members {
			_ = m.cmd.Process.Kill() // it may have ended
			<-m.exited
		}
	})
	return p
}

func (p *etcd) start(t *testing.T, n int) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, fmt.Sprintf("m%d.log", n)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.binary, "serve", "-name", fmt.Sprintf("m%d", n), "-dir", filepath.Join(p.dir, fmt.Sprintf("m%d", n)),
		"-client", "http://"+p.clients[n], "-peer", "http://"+p.peers[n], "-cluster", p.cluster,
		"-heartbeat", strconv.Itoa(int(etcdHeartbeat.Milliseconds())), "-election", strconv.Itoa(int(heartbeatTimeout.Milliseconds())))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	m := &etcdMember{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(m.exited)
		_ = cmd.Wait() // how it ended does not matter
	}()
	p.members[n] = m
}

func (p *etcd) order(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.orders, line); err != nil {
		t.Fatalf("tell the client of etcd to %s: %v", line, err)
	}
	if !p.answers.Scan() {
		t.Fatalf("the client of etcd has ended: %v", p.answers.Err())
	}
	return p.answers.Text()
}

// trial harms the leader and returns how long after that a put was acknowledged
// to a client that is connected to the others; then it makes the cluster whole.
func (p *etcd) trial(t *testing.T, sig syscall.Signal) time.Duration {
	t.Helper()
	leader := p.whole(t)
	if answer := p.order(t, fmt.Sprintf("arm %d", leader)); answer != "armed" {
		t.Fatalf("the client of etcd says: %s", answer)
	}
	m := p.members[leader]
	harmed := monotonic(t)
	if err := m.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	answer := p.order(t, "go")
	acknowledged, err := strconv.ParseInt(answer, 10, 64)
	if err != nil {
		t.Fatalf("the client of etcd says: %s", answer)
	}
	if sig == syscall.SIGSTOP {
		if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	} else {
		<-m.exited
		p.start(t, leader)
	}
	p.whole(t)
	return time.Duration(acknowledged - harmed)
}

func (p *etcd) whole(t *testing.T) int {
	t.Helper()
	leader := -1
	eventually(t, 2*settleWithin, "the members of etcd agree", func() string {
		answer := p.order(t, "leader")
		n, err := strconv.Atoi(answer)
		if err != nil {
			return answer
		}
		leader = n
		return ""
	})
	return leader
}

// monotonic is the clock that all processes of the machine share.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// fresh reserves a port that nobody has.
func (r *reservation) fresh(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r.hold(t, addr)
	return addr
}

// A leader's death, and its silence, cost our clients no more than those of
// etcd at the same nominal time-outs, in the same run, in turns A B B A.
func TestFailoverIsNoSlowerThanThatOfEtcd(t *testing.T) {
	binary := os.Getenv(peerVariable)
	if binary == "" {
		t.Skipf("%s is not set: run make bench-failover", peerVariable)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("peer missing: %v: the comparison with etcd is not made", err)
	}
	pairs, _ := numberFrom(t, pairsVariable, pairsDefault)
	peer := startEtcd(t, binary)
	c := newCluster(t, size{workers: 2})
	e, ports, rec := newEars(t), newReservation(t), history.NewRecorder()
	for _, kind := range []struct {
		name string
		sig  syscall.Signal
	}{{"kill -9", syscall.SIGKILL}, {"SIGSTOP", syscall.SIGSTOP}} {
		var ours delays
		var theirs []time.Duration
		for pair := range pairs {
			us := func() { ours.add(c.trial(t, e, ports, rec, kind.sig, pair)) }
			them := func() { theirs = append(theirs, peer.trial(t, kind.sig)) }
			order := []func(){us, them}
			if pair%2 == 1 {
				slices.Reverse(order)
			}
			for _, run := range order {
				run()
			}
		}
		ours.report(t, kind.name+", hearth")
		report(t, kind.name+", etcd  ", theirs)
		low, mid, high := ratio(ours.answered, theirs)
		t.Logf("%s, hearth / etcd: median ratio %.2f, 95 %% between %.2f and %.2f", kind.name, mid, low, high)
		if high > 1 {
			t.Errorf("%s: the ratio may be above 1", kind.name)
		}
	}
	c.prove(t, e, rec, "")
}

func (c *cluster) trial(t *testing.T, e *ears, ports *reservation, rec *history.Recorder, sig syscall.Signal, n int) delay {
	t.Helper()
	if sig == syscall.SIGKILL {
		return c.killLeader(t, e, ports, rec, n)
	}
	leader, _ := e.whole(t, c)
	took := c.freezeLeader(t, leader, rec, fmt.Sprintf("stop-%03d", n))
	e.whole(t, c)
	return took
}

// ratio of the medians with its 95 % interval by resampling.
func ratio(a, b []time.Duration) (low, mid, high float64) {
	of := func(a, b []time.Duration) float64 { return float64(percentile(a, 50)) / float64(percentile(b, 50)) }
	rnd := rand.New(rand.NewPCG(1, 1))
	again := func(all []time.Duration) []time.Duration {
		out := make([]time.Duration, len(all))
		for n := range out {
			out[n] = all[rnd.IntN(len(all))]
		}
		return out
	}
	all := make([]float64, resamples)
	for n := range all {
		all[n] = of(again(a), again(b))
	}
	slices.Sort(all)
	return all[resamples/40], of(a, b), all[resamples-1-resamples/40]
}
