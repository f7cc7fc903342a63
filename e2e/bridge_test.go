//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// innerAddr is the address of every container on its own bridge: to all others
// it means themselves.
const innerAddr = "172.31.0.2"

// harbour is a network of hosts, each with a container behind a bridge that
// translates addresses, and one plain machine, where commands run.
type harbour struct {
	prefix, dir, hub string
	env              []string // of commands
	containers       []*container
	plain            string // namespace
}

// container is a pretended one: a namespace behind the bridge of another.
type container struct {
	name, outer string // host name and address that others know
	space       string
	log         string
	cmd         *exec.Cmd
	exited      chan struct{}
}

func (c *container) host() string { return c.name + ".example" }

// newHarbour builds the network. It skips the test where that is not possible.
func newHarbour(t *testing.T, names ...string) *harbour {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, name := range []string{"ip", "nft", "unshare", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: make netns-tools installs it", err)
		}
	}
	h := &harbour{prefix: fmt.Sprintf("hearth-e2e-%d-", os.Getpid()), dir: t.TempDir()}
	h.hub = h.prefix + "sea"
	if out, err := exec.Command("ip", "netns", "add", h.hub).CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody make a network namespace: %v: %s", err, out)
	}
	t.Cleanup(func() { tool(t, "", "ip", "netns", "del", h.hub) })
	tool(t, "", "ip", "-n", h.hub, "link", "add", "br0", "type", "bridge")
	tool(t, "", "ip", "-n", h.hub, "link", "set", "br0", "up")
	for n, name := range names {
		h.containers = append(h.containers, h.dock(t, name, fmt.Sprintf("10.78.0.%d", n+1)))
	}
	h.plain = h.space(t, "plain")
	h.cable(t, h.hub, "plain", h.plain, "10.78.0.100")
	if secure() {
		authority := filepath.Join(h.dir, "tls", "authority")
		if _, err := ca.Init(authority, "harbour", ca.DefaultAuthorityLifetime); err != nil {
			t.Fatal(err)
		}
		dir, _ := issueFrom(t, authority, tlsconf.RoleClient, "client")
		h.env = []string{config.EnvTLSDir + "=" + dir}
	}
	return h
}

// space makes a namespace.
func (h *harbour) space(t *testing.T, name string) string {
	t.Helper()
	space := h.prefix + name
	tool(t, "", "ip", "netns", "add", space)
	t.Cleanup(func() { tool(t, "", "ip", "netns", "del", space) })
	tool(t, "", "ip", "-n", space, "link", "set", "lo", "up")
	return space
}

// cable plugs a namespace's eth0 into the bridge of another.
func (h *harbour) cable(t *testing.T, bridged, name, space, addr string) {
	t.Helper()
	tool(t, "", "ip", "link", "add", "name", name, "netns", bridged, "type", "veth", "peer", "name", "eth0", "netns", space)
	tool(t, "", "ip", "-n", bridged, "link", "set", name, "master", "br0", "up")
	tool(t, "", "ip", "-n", space, "addr", "add", addr+"/24", "dev", "eth0")
	tool(t, "", "ip", "-n", space, "link", "set", "eth0", "up")
}

// dock makes a host with a bridge and a container behind it.
func (h *harbour) dock(t *testing.T, name, outer string) *container {
	t.Helper()
	c := &container{name: name, outer: outer, log: filepath.Join(h.dir, name+".log")}
	host := h.space(t, name+"-host")
	h.cable(t, h.hub, name, host, outer)
	tool(t, "", "ip", "-n", host, "link", "add", "br0", "type", "bridge")
	tool(t, "", "ip", "-n", host, "addr", "add", "172.31.0.1/24", "dev", "br0")
	tool(t, "", "ip", "-n", host, "link", "set", "br0", "up")
	c.space = h.space(t, name)
	h.cable(t, host, "inside", c.space, innerAddr)
	tool(t, "", "ip", "-n", c.space, "route", "add", "default", "via", "172.31.0.1")
	tool(t, "1", "ip", "netns", "exec", host, "tee", "/proc/sys/net/ipv4/ip_forward")
	tool(t, fmt.Sprintf(`table ip bridge_e2e {
		chain in {
			type nat hook prerouting priority -100;
			ip daddr %[1]s dnat to %[2]s;
		};
		chain out {
			type nat hook postrouting priority 100;
			oifname "eth0" masquerade;
			ip saddr %[2]s ip daddr %[2]s masquerade;
		};
	}`, outer, innerAddr), "ip", "netns", "exec", host, "nft", "-f", "-")
	return c
}

// within is a command line that runs argv in a namespace where all names are
// known but those in unknown. The file of names is seen by it alone.
func (h *harbour) within(t testing.TB, space string, unknown []string, argv ...string) []string {
	t.Helper()
	text := "127.0.0.1 localhost\n"
	for _, c := range h.containers {
		known := true
		for _, u := range unknown {
			known = known && u != c.name
		}
		if known {
			text += c.outer + " " + c.host() + "\n"
		}
	}
	hosts := filepath.Join(h.dir, space+".hosts")
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil { //nolint:gosec // as /etc/hosts is
		t.Fatal(err)
	}
	return append([]string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /etc/hosts && exec ip netns exec "$@"`, hosts, space}, argv...)
}

// start runs a daemon in a container that knows all names but unknown; its own,
// too, exists only outside.
func (h *harbour) start(t *testing.T, c *container, unknown []string, args ...string) {
	t.Helper()
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	role := tlsconf.RoleWorker
	if args[0] == "master" {
		role = tlsconf.RoleMaster
	}
	args = append(args, "--data-dir", strings.TrimSuffix(c.log, ".log"), "--bind", "0.0.0.0", "--advertise", c.host())
	if secure() {
		dir, _ := issueFrom(t, filepath.Join(h.dir, "tls", "authority"), role, c.name, c.host(), c.outer)
		args = append(args, "--tls-dir", dir)
		if role == tlsconf.RoleMaster {
			args = append(args, "--tokens", "optional")
		}
	} else {
		args = append(args, "--allow-insecure")
	}
	argv := h.within(t, c.space, append(unknown, c.name), append([]string{hearthBinary}, args...)...)
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = ownEnv(), log, log
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", c.name, err)
	}
	exited := make(chan struct{})
	c.exited = exited
	go func() {
		defer close(exited)
		_ = c.cmd.Wait() // how it ended is in its log
	}()
	t.Cleanup(func() { c.end(t) })
}

// end stops a daemon and looks for crashes.
func (c *container) end(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop %s: %v", c.name, err)
	}
	deadline := time.NewTimer(settleWithin)
	defer deadline.Stop()
	select {
	case <-c.exited:
	case <-deadline.C:
		t.Errorf("%s has not stopped within %s", c.name, settleWithin)
		_ = c.cmd.Process.Kill() // the test has failed already
		<-c.exited
	}
	text := c.written(t)
	if at := crash.FindString(text); at != "" {
		t.Errorf("%s: %s", c.name, at)
	}
	if t.Failed() {
		t.Logf("=== %s\n%s", c.log, text[max(0, len(text)-8000):])
	}
}

func (c *container) written(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hearth runs a command in a namespace that knows all names but unknown.
func (h *harbour) hearth(t testing.TB, space string, unknown []string, args ...string) result {
	t.Helper()
	var masters []string
	for _, c := range h.containers[:3] {
		masters = append(masters, c.host()+":7070")
	}
	argv := h.within(t, space, unknown, append([]string{hearthBinary}, args...)...)
	env := append([]string{config.EnvMasters + "=" + strings.Join(masters, ",")}, h.env...)
	return startBinary(t, argv[0], env, "", argv[1:]...).wait(t)
}

// outside is hearth on the plain machine.
func (h *harbour) outside(t testing.TB, args ...string) result {
	t.Helper()
	return h.hearth(t, h.plain, nil, args...)
}

// whole waits for three voters with a leader and so many living workers.
func (h *harbour) whole(t testing.TB, masters, workers int) (view model.ClusterView, text string) {
	t.Helper()
	eventually(t, 2*settleWithin, "the cluster is whole", func() string {
		r := h.outside(t, "status", "-o", "json")
		if r.code != 0 {
			return fmt.Sprintf("hearth status: code %d: %s", r.code, clip(r.stderr))
		}
		view, text = model.ClusterView{}, r.stdout
		if err := json.Unmarshal([]byte(text), &view); err != nil {
			return err.Error()
		}
		voters, alive := 0, 0
		for _, m := range view.Masters {
			if m.Voter && m.Alive {
				voters++
			}
		}
		for _, w := range view.Workers {
			if w.State == model.WorkerAlive {
				alive++
			}
		}
		if voters != masters || alive != workers || view.Staleness.Leader == "" {
			return fmt.Sprintf("%d voters, %d workers, leader %q", voters, alive, view.Staleness.Leader)
		}
		return ""
	})
	return view, text
}

// works runs an application whose driver is in a container, and one whose driver
// a worker runs in cluster mode.
func (h *harbour) works(t testing.TB, c *container) {
	t.Helper()
	r := h.hearth(t, c.space, []string{c.name}, "run", "--memory", "64m", "--bind", "0.0.0.0", "--advertise", c.host(), "--", "echo", "task {}", ":::", "1", "2").wantCode(t, 0)
	if !strings.Contains(r.stdout, "task 1\n") || !strings.Contains(r.stdout, "task 2\n") {
		t.Errorf("a driver in a container printed %q", r.stdout)
	}
	r = h.outside(t, "driver", "submit", "--wait", "--memory", "64m", "--", hearthBinary, "run", "--memory", "64m", "--", "echo", "task {}", ":::", "3", "4").wantCode(t, 0)
	out := h.outside(t, "driver", "logs", "--stdout", strings.TrimSpace(r.stdout)).wantCode(t, 0).stdout
	if !strings.Contains(out, "task 3\n") || !strings.Contains(out, "task 4\n") {
		t.Errorf("a driver in cluster mode printed %q", out)
	}
}

// UX-10: masters, workers and drivers that bind one address and advertise
// another, by names that exist only outside. Executors only dial.
func TestUX10EverythingWorksBehindBridgesByAdvertisedNames(t *testing.T) {
	skipLong(t)
	h := newHarbour(t, "m1", "m2", "m3", "w1", "w2", "d1")
	masters, workers, d := h.containers[:3], h.containers[3:5], h.containers[5]
	for _, m := range masters {
		h.start(t, m, nil, "master", "--bootstrap-expect", "3", "--join", "m1.example:7072,m2.example:7072,m3.example:7072")
	}
	for _, w := range workers {
		h.start(t, w, nil, "worker", "--cores", "4", "--memory", "1g", "--masters", "m1.example:7070,m2.example:7070,m3.example:7070")
	}
	view, text := h.whole(t, 3, 2)
	if regexp.MustCompile(`172\.31\.|0\.0\.0\.0`).MatchString(text) {
		t.Errorf("hearth status tells an inner address: %s", text)
	}
	h.works(t, d)
	h.links(t, masters[0])
	for _, m := range view.Masters {
		if m.ID == view.Staleness.Leader {
			leader := masters[strings.Index("123", m.GRPCAddr[1:2])]
			if err := leader.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-leader.exited
		}
	}
	h.whole(t, 2, 2)
	h.works(t, d)
}

// link is what a page leads to on another machine.
var link = regexp.MustCompile(`href="(https?://[^"]+)"`)

// links follows the links of a master's page from the plain machine.
func (h *harbour) links(t *testing.T, m *container) {
	t.Helper()
	if secure() {
		return // the browser's tests show pages with certificates
	}
	get := func(url string) string {
		argv := h.within(t, h.plain, nil, "curl", "-sS", "--fail", "--max-time", "20", url)
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", url, err, clip(string(out)))
		}
		return string(out)
	}
	page := get("http://" + m.host() + ":8080/")
	found := link.FindAllStringSubmatch(page, -1)
	if len(found) == 0 {
		t.Errorf("the page leads nowhere: %s", clip(page))
	}
	for _, l := range found {
		if !strings.Contains(l[1], ".example:") {
			t.Errorf("the page leads to %s, which is no advertised host", l[1])
		}
		get(l[1])
	}
}

// UX-10: a name that means nothing at its peers is reported by them within 5 s.
func TestUX10ANameThatPeersCannotResolveIsReportedByThem(t *testing.T) {
	skipLong(t)
	h := newHarbour(t, "m1", "m2", "m3", "w1")
	w := h.containers[3]
	for _, m := range h.containers[:3] {
		h.start(t, m, []string{"w1"}, "master", "--bootstrap-expect", "3", "--join", "m1.example:7072,m2.example:7072,m3.example:7072")
	}
	h.start(t, w, nil, "worker", "--cores", "1", "--memory", "1g", "--masters", "m1.example:7070,m2.example:7070,m3.example:7070")
	eventually(t, 2*settleWithin, "a master's status names the setting", func() string {
		r := h.outside(t, "status", "-o", "json")
		if !strings.Contains(r.stdout, "NAME_UNRESOLVED") || !strings.Contains(r.stdout, "network.advertise") || !strings.Contains(r.stdout, "w1.example") {
			return clip(r.stdout) + clip(r.stderr)
		}
		return ""
	})
	for _, m := range h.containers[:3] {
		text := m.written(t)
		met, told := loggedAt(t, text, "gossip member join", "role=worker"), loggedAt(t, text, "does not resolve here", "w1.example", "network.advertise")
		if took := told.Sub(met); took > 5*time.Second {
			t.Errorf("%s reports the name %s after it met the worker", m.name, took)
		}
	}
}

// loggedAt is when a log says all of words in one line for the first time.
func loggedAt(t testing.TB, text string, words ...string) time.Time {
	t.Helper()
lines:
	for line := range strings.Lines(text) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		stamp, _, _ := strings.Cut(line, " ")
		at, err := time.Parse("2006-01-02T15:04:05.000Z0700", stamp)
		if err != nil {
			t.Fatalf("the time of %q: %v", line, err)
		}
		return at
	}
	t.Fatalf("the log never says %q", words)
	return time.Time{}
}
