//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// island is three masters in network namespaces of their own, joined by a
// bridge in a fourth. Nothing of it touches the network of the machine.
type island struct {
	prefix  string
	dir     string
	access  access // of commands
	masters []*islander
}

// islander is one master and its namespace.
type islander struct {
	of          *island
	space, addr string
	log         string
	cmd         *exec.Cmd
	exited      chan struct{}
}

// tool runs a command that must succeed.
func tool(t testing.TB, stdin string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
}

// newIsland builds the namespaces and founds a cluster there. It skips the test
// where namespaces cannot be made.
func newIsland(t *testing.T) *island {
	t.Helper()
	i := newShore(t)
	if secure() {
		authority := filepath.Join(i.dir, "tls", "authority")
		if _, err := ca.Init(authority, "island", ca.DefaultAuthorityLifetime); err != nil {
			t.Fatal(err)
		}
		dir, _ := issueFrom(t, authority, tlsconf.RoleClient, "client")
		i.access.env = []string{config.EnvTLSDir + "=" + dir}
	}
	for _, m := range i.masters {
		i.start(t, m)
	}
	t.Cleanup(func() { i.end(t) })
	i.whole(t)
	return i
}

// newShore is newIsland without processes.
func newShore(t *testing.T) *island {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, name := range []string{"ip", "nft", "ss"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: make netns-tools installs it", err)
		}
	}
	i := &island{prefix: fmt.Sprintf("hearth-e2e-%d-", os.Getpid()), dir: t.TempDir()}
	hub := i.prefix + "hub"
	if out, err := exec.Command("ip", "netns", "add", hub).CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody make a network namespace: %v: %s", err, out)
	}
	t.Cleanup(func() { tool(t, "", "ip", "netns", "del", hub) })
	tool(t, "", "ip", "-n", hub, "link", "add", "br0", "type", "bridge")
	tool(t, "", "ip", "-n", hub, "link", "set", "br0", "up")
	for n := range 3 {
		i.masters = append(i.masters, i.settle(t, hub, n+1))
	}
	return i
}

// settle makes one namespace with a cable to the hub.
func (i *island) settle(t *testing.T, hub string, number int) *islander {
	t.Helper()
	m := &islander{of: i, space: fmt.Sprintf("%sm%d", i.prefix, number), addr: fmt.Sprintf("10.77.0.%d", number)}
	m.log = filepath.Join(i.dir, fmt.Sprintf("master-%d.log", number))
	tool(t, "", "ip", "netns", "add", m.space)
	t.Cleanup(func() { tool(t, "", "ip", "netns", "del", m.space) })
	cable := fmt.Sprintf("m%d", number)
	tool(t, "", "ip", "link", "add", "name", cable, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", m.space)
	tool(t, "", "ip", "-n", hub, "link", "set", cable, "master", "br0", "up")
	tool(t, "", "ip", "-n", m.space, "addr", "add", m.addr+"/24", "dev", "eth0")
	tool(t, "", "ip", "-n", m.space, "link", "set", "lo", "up")
	tool(t, "", "ip", "-n", m.space, "link", "set", "eth0", "up")
	return m
}

func (i *island) start(t *testing.T, m *islander) {
	t.Helper()
	var join []string
	for _, other := range i.masters {
		if other != m {
			join = append(join, other.addr+":7072")
		}
	}
	log, err := os.Create(m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	// ip becomes the command, so its process is the master's.
	m.cmd = exec.Command("ip", append([]string{
		"netns", "exec", m.space, hearthBinary, "master",
		"--data-dir", strings.TrimSuffix(m.log, ".log"), "--bind", m.addr,
		"--bootstrap-expect", "3", "--join", strings.Join(join, ","),
	}, i.security(t, m)...)...)
	m.cmd.Env, m.cmd.Stdout, m.cmd.Stderr = ownEnv(), log, log
	if err := m.cmd.Start(); err != nil {
		t.Fatalf("start a master in %s: %v", m.space, err)
	}
	m.exited = make(chan struct{})
	go func() {
		defer close(m.exited)
		_ = m.cmd.Wait() // how it ended is in its log
	}()
}

// security are a master's arguments about TLS.
func (i *island) security(t *testing.T, m *islander) []string {
	t.Helper()
	if !secure() {
		return []string{"--allow-insecure"}
	}
	dir, _ := issueFrom(t, filepath.Join(i.dir, "tls", "authority"), tlsconf.RoleMaster, filepath.Base(strings.TrimSuffix(m.log, ".log")), m.addr)
	return []string{"--tls-dir", dir, "--tokens", "optional"}
}

// end stops the masters and looks for crashes.
func (i *island) end(t *testing.T) {
	t.Helper()
	for _, m := range i.masters {
		if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("stop the master in %s: %v", m.space, err)
		}
	}
	deadline := time.NewTimer(settleWithin)
	defer deadline.Stop()
	for _, m := range i.masters {
		select {
		case <-m.exited:
		case <-deadline.C:
			t.Errorf("the master in %s has not stopped within %s", m.space, settleWithin)
			_ = m.cmd.Process.Kill() // the test has failed already
			<-m.exited
		}
		text := m.written(t)
		if at := crash.FindString(text); at != "" {
			t.Errorf("%s: %s", m.log, at)
		}
		if t.Failed() {
			t.Logf("=== %s\n%s", m.log, text[max(0, len(text)-8000):])
		}
	}
}

// written is what a master has logged.
func (m *islander) written(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hearth runs a command in the namespace of m against some masters.
func (m *islander) hearth(t testing.TB, masters []*islander, args ...string) result {
	t.Helper()
	return m.begin(t, masters, args...).wait(t)
}

// begin is hearth without the wait.
func (m *islander) begin(t testing.TB, masters []*islander, args ...string) *command {
	t.Helper()
	var addrs []string
	for _, o := range masters {
		addrs = append(addrs, o.addr+":7070")
	}
	argv := append([]string{"netns", "exec", m.space, hearthBinary}, args...)
	return startBinary(t, "ip", append([]string{config.EnvMasters + "=" + strings.Join(addrs, ",")}, m.of.access.env...), "", argv...)
}

// view is what a master's own replica says.
func (m *islander) view(t testing.TB) (model.ClusterView, error) {
	t.Helper()
	var v model.ClusterView
	r := m.hearth(t, []*islander{m}, "status", "-o", "json")
	if r.code != 0 && r.code != 3 {
		return v, fmt.Errorf("%s: hearth status: code %d: %s", m.addr, r.code, clip(r.stderr))
	}
	return v, json.Unmarshal([]byte(r.stdout), &v)
}

// whole waits until all masters are voters, follow one leader and hold the same
// state, and returns the leader and what it says.
func (i *island) whole(t testing.TB) (leader *islander, view model.ClusterView) {
	t.Helper()
	eventually(t, settleWithin, "the masters of the island agree", func() string {
		leader = nil
		views := make([]model.ClusterView, len(i.masters))
		for n, m := range i.masters {
			var err error
			if views[n], err = m.view(t); err != nil {
				return err.Error()
			}
			if s := views[n].Staleness; s.Leader != "" && s.Leader == s.Master {
				leader, view = m, views[n]
			}
		}
		if leader == nil {
			return "no master leads"
		}
		for n, v := range views {
			s, want := v.Staleness, view.Staleness
			if s.Leader != want.Leader || s.Term != want.Term || s.AppliedIndex != want.AppliedIndex || v.StateHash != view.StateHash || len(v.Masters) != 3 {
				return fmt.Sprintf("%s: %d masters, %+v; the leader: %+v", i.masters[n].addr, len(v.Masters), s, want)
			}
		}
		return ""
	})
	return leader, view
}

// others are the masters but one.
func (i *island) others(but *islander) []*islander {
	var out []*islander
	for _, m := range i.masters {
		if m != but {
			out = append(out, m)
		}
	}
	return out
}

// rules replaces the firewall of a master's namespace; "" removes it.
func (m *islander) rules(t testing.TB, rules string) {
	t.Helper()
	tool(t, "flush ruleset\n"+rules, "ip", "netns", "exec", m.space, "nft", "-f", "-")
}
