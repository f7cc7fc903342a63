//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// rotationVariable makes the test of renewals take as long as SE-09 says: 60 s
// certificates, renewed every 30 s, for 30 minutes.
const rotationVariable = "HEARTH_E2E_ROTATION_FULL"

// rotation is how long certificates live and how often they are renewed, at
// half of that.
func rotation() (lifetime time.Duration, rounds int) {
	if os.Getenv(rotationVariable) != "" {
		return time.Minute, 60
	}
	return 20 * time.Second, 4
}

// renew gives every process of the cluster, and its client, a new certificate.
func (c *cluster) renew(t testing.TB, lifetime time.Duration) {
	t.Helper()
	a, err := ca.Open(demo.TLSDir(c.dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(namesOf(c.nodes()), "client") {
		if _, err := a.Renew(demo.TLSDir(c.dir, name), lifetime); err != nil {
			t.Fatal(err)
		}
	}
}

func namesOf(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.name
	}
	return out
}

// clientSource loads the certificate that commands use.
func (c *cluster) clientSource(t testing.TB) *tlsconf.Source {
	t.Helper()
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = config.TLS{Dir: demo.TLSDir(c.dir, "client")}.Paths()
	src, err := tlsconf.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestSE09RenewedCertificatesBreakNothing starts every process on certificates
// that end within seconds, so that all connections are made with such ones, and
// renews them before that, over several lives. A connection that stays and a new
// one each second ask without any retry. SE-10: a worker that is stopped until
// its certificate has ended comes back by itself.
func TestSE09RenewedCertificatesBreakNothing(t *testing.T) {
	skipLong(t)
	t.Setenv(secureVariable, "1")
	lifetime, rounds := rotation()
	c := newCluster(t, size{workers: 2, cores: 1})
	c.renew(t, lifetime)
	c.preset = config.PresetRig // what is looked for is not that the machine is slow
	for _, n := range c.nodes() {
		n.proc.kill9(t)
		n.proc.awaitEnd(t, settleWithin)
		c.renew(t, lifetime) // a restart may take a while
		c.restart(t, n)
	}
	c.renew(t, lifetime)
	src := c.clientSource(t)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() { src.Watch(ctx, hclog.NewNullLogger()) })
	var asked, failed atomic.Int64
	var first atomic.Pointer[string]
	ask := func(conn *rpc.Conn) {
		bounded, stop := context.WithTimeout(ctx, 30*time.Second)
		defer stop()
		asked.Add(1)
		if _, err := rpc.ClusterClient(conn).Status(bounded); err != nil && ctx.Err() == nil {
			failed.Add(1)
			text := err.Error()
			first.CompareAndSwap(nil, &text)
		}
	}
	for _, m := range c.masters {
		lasting, err := rpc.Dial(m.GRPC, rpc.DialConfig{TLS: src.Client(), Token: c.access.token})
		if err != nil {
			t.Fatal(err)
		}
		asking.Go(func() {
			defer func() { _ = lasting.Close() }()
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				ask(lasting)
				if n%5 == 0 {
					if fresh, err := rpc.Dial(m.GRPC, rpc.DialConfig{TLS: src.Client(), Token: c.access.token}); err == nil {
						ask(fresh)
						_ = fresh.Close()
					}
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	before := c.statusNow(t)
	slept := c.workers[1]
	slept.stop(t)
	for range rounds {
		c.pause(t, lifetime/2)
		c.renew(t, lifetime)
	}
	slept.cont(t)
	woken := time.Now()
	eventually(t, 10*time.Second, "the worker whose certificate had ended is back (SE-10)", func() string {
		for _, w := range c.statusNow(t).Workers {
			if string(w.ID) == slept.ID && w.State == model.WorkerAlive {
				return ""
			}
		}
		return "not ALIVE"
	})
	after := c.statusNow(t)
	cancel()
	asking.Wait()
	if failed.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d calls failed, the first with: %s", failed.Load(), asked.Load(), *first.Load())
	}
	if before.Staleness.Term != after.Staleness.Term || before.Staleness.Leader != after.Staleness.Leader {
		t.Errorf("the leader changed from %s (term %d) to %s (term %d)", before.Staleness.Leader, before.Staleness.Term, after.Staleness.Leader, after.Staleness.Term)
	}
	for _, w := range after.Workers {
		if string(w.ID) == c.workers[0].ID && w.State != model.WorkerAlive {
			t.Errorf("worker %s is %s: %s", w.ID, w.State, w.Reason)
		}
	}
	t.Logf("%d calls over %d certificates of %s; the worker was back %s after it woke", asked.Load(), rounds+1, lifetime, time.Since(woken).Round(time.Millisecond))
}

// pause waits for real time to pass; nothing else makes certificates end.
func (c *cluster) pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test was ended")
	}
}

// statusNow asks any master with the present certificate.
func (c *cluster) statusNow(t testing.TB) model.ClusterView {
	t.Helper()
	var v model.ClusterView
	c.run(t, "status", "-o", "json").wantCode(t, 0).decode(t, &v)
	return v
}

// TestSE03EachDoorOfASecureClusterAsksForTheRightCertificate tries every port of
// a master and a worker with every kind of certificate (SE-01, SE-04): in, or
// refused before a word is exchanged. What a certificate may call once it is in
// is package rpc's matrix.
func TestSE03EachDoorOfASecureClusterAsksForTheRightCertificate(t *testing.T) {
	t.Setenv(secureVariable, "1")
	c := newCluster(t, size{workers: 1, cores: 1})
	m, w := c.masters[0], c.workers[0]
	configs := map[string]*tls.Config{}
	for _, role := range tlsconf.Roles() {
		_, configs[string(role)] = c.issue(t, role, "test-"+string(role))
	}
	strangers := filepath.Join(t.TempDir(), "strangers")
	if _, err := ca.Init(strangers, "demo", 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	_, configs["stranger"] = issueFrom(t, strangers, tlsconf.RoleMaster, "stranger", "127.0.0.1")
	expired, err := ca.Open(demo.TLSDir(c.dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "expired")
	if _, err := expired.Issue(dir, ca.Request{Role: tlsconf.RoleMaster, Name: "expired", SANs: []string{"127.0.0.1"}, Lifetime: ca.MinLifetime}); err != nil {
		t.Fatal(err)
	}
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = config.TLS{Dir: dir}.Paths()
	src, err := tlsconf.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	configs["expired"] = src.Client()
	configs["none"] = &tls.Config{MinVersion: tls.VersionTLS13}
	c.pause(t, ca.MinLifetime+time.Second)
	for _, door := range []struct {
		name, addr string
		opens      string // to whom
	}{
		{"a master's Raft", m.Raft, "master"},
		{"a master's gRPC", m.GRPC, "master worker client"},
		{"a worker's gRPC", w.GRPC, "master"},
	} {
		for who, cfg := range configs {
			want := strings.Contains(door.opens, who)
			if got, why := opens(t, door.addr, cfg); got != want {
				t.Errorf("%s for %s: let in %v, want %v (%v)", door.name, who, got, want, why)
			}
		}
		if plain, why := opens(t, door.addr, nil); plain {
			t.Errorf("%s without TLS: let in (%v)", door.name, why)
		}
	}
	for _, addr := range []string{m.HTTP, w.HTTP} {
		for _, test := range []struct {
			who, path string
			want      int
		}{
			{"none", "/healthz", http.StatusOK},
			{"none", "/readyz", http.StatusOK},
			{"none", "/json", http.StatusUnauthorized},
			{"none", "/metrics", http.StatusUnauthorized},
			{"stranger", "/json", 0},
			{"expired", "/json", 0},
		} {
			if got := c.fetch(t, addr, test.path, configs[test.who]); got != test.want {
				t.Errorf("https://%s%s for %s: got %d, want %d", addr, test.path, test.who, got, test.want)
			}
		}
	}
}

// opens reports whether a listener lets somebody in: it says something, or waits
// for a word. Whoever refuses ends the connection.
func opens(t *testing.T, addr string, cfg *tls.Config) (bool, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if cfg != nil {
		cfg = cfg.Clone()
		cfg.InsecureSkipVerify, cfg.VerifyConnection = true, nil // the listener is the one that judges
		cfg.NextProtos = []string{"h2"}
		secured := tls.Client(conn, cfg)
		_ = secured.SetDeadline(time.Now().Add(10 * time.Second))
		if err := secured.Handshake(); err != nil {
			return false, err
		}
		conn = secured
	} else if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return false, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	answer := make([]byte, 1)
	n, err := conn.Read(answer)
	if cfg == nil && n > 0 {
		return answer[0] == 0, fmt.Errorf("it answered %x", answer) // a frame of HTTP/2, not an alert of TLS
	}
	return n > 0 || errors.Is(err, os.ErrDeadlineExceeded), err
}

// fetch gets a page and returns the status, 0 for no answer.
func (c *cluster) fetch(t *testing.T, addr, path string, cfg *tls.Config) int {
	t.Helper()
	cfg = cfg.Clone()
	cfg.InsecureSkipVerify, cfg.VerifyConnection = true, nil
	transport := &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestSE06NoSecretStandsInAProcessListNorInAFileForOthers runs a job on a cluster
// with every secret there is, under a umask that allows everything, and looks at
// all command lines and all modes.
func TestSE06NoSecretStandsInAProcessListNorInAFileForOthers(t *testing.T) {
	t.Setenv(secureVariable, "1")
	defer syscall.Umask(syscall.Umask(0))
	c := newCluster(t, size{workers: 1, cores: 1})
	go1 := filepath.Join(t.TempDir(), "go")
	job := c.start(t, "run", "-j", "1", ": {}; touch "+go1+"; while test -e "+go1+"; do sleep 0.1; done", ":::", "x")
	eventually(t, settleWithin, "the task runs", func() string {
		if _, err := os.Stat(go1); err != nil {
			return err.Error()
		}
		return ""
	})
	secrets := c.secrets(t)
	for _, kind := range []string{".hearth-secret", "gossip.key", "key.pem", "token"} {
		found := false
		for path := range secrets {
			found = found || strings.HasSuffix(path, kind)
		}
		if !found {
			t.Errorf("no secret of the kind %s is in use", kind)
		}
	}
	looked := 0
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		looked++
		for path, secret := range secrets {
			if strings.Contains(string(line), secret) {
				t.Errorf("what %s holds stands in the command line of process %s", path, d.Name())
			}
		}
	}
	files := 0
	err = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil //nolint:nilerr // gone in the meantime
		}
		files++
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			t.Errorf("%s has mode %04o: others must have no part of it", path, perm)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("looked for %d secrets in %d command lines, and at the modes of %d files", len(secrets), looked, files)
	if err := os.Remove(go1); err != nil {
		t.Fatal(err)
	}
	job.wait(t).wantCode(t, 0)
}

// secrets are what must be seen nowhere, by the file that holds it.
func (c *cluster) secrets(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch name := d.Name(); name {
		case ".hearth-secret", "gossip.key", "token", "key.pem", "ca-key.pem":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if block, _ := pem.Decode(text); block != nil {
				out[path] = strings.Split(string(text), "\n")[1]
				return nil
			}
			out[path] = strings.TrimSpace(string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestADataDirectoryThatOthersCanWriteIsRefused: the fix is in the message.
func TestADataDirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	for _, daemon := range []string{"master", "worker"} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // that is the point
			t.Fatal(err)
		}
		hearth(t, daemon, "--data-dir", dir, "--grpc-port", "0", "--serf-port", "0", "--http-port", "0").wantCode(t, 1).wantStderr(t, dir, "chmod 700")
	}
}
