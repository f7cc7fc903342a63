package ca

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hearthd/hearth/internal/tlsconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := Init(filepath.Join(t.TempDir(), "ca"), "prod", DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, role tlsconf.Role, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	req := Request{Role: role, Name: name, Lifetime: DefaultLifetime}
	if role != tlsconf.RoleClient {
		req.SANs = []string{name + ".example.org", "127.0.0.1", "::1"}
	}
	if _, err := a.Issue(out, req); err != nil {
		t.Fatal(err)
	}
	return out
}

func load(t *testing.T, dir string) *tlsconf.Source {
	t.Helper()
	s, err := tlsconf.Load(tlsconf.Files{CAFile: filepath.Join(dir, BundleFile), CertFile: filepath.Join(dir, NodeCertFile), KeyFile: filepath.Join(dir, NodeKeyFile)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// talk makes one connection and sends a byte each way.
func talk(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = tls.Server(conn, server).Write([]byte{1})
		served <- errors.Join(err, conn.Close())
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.ReadFull(tls.Client(conn, tlsconf.ForHost(client, "127.0.0.1")), make([]byte, 1))
	return errors.Join(err, <-served)
}

func TestWhatIsIssuedIsAcceptedByTheOthers(t *testing.T) {
	a := newAuthority(t)
	master, worker, client := load(t, issue(t, a, tlsconf.RoleMaster, "m1")), load(t, issue(t, a, tlsconf.RoleWorker, "w1")), load(t, issue(t, a, tlsconf.RoleClient, "ops"))
	for _, s := range []*tlsconf.Source{master, worker, client} {
		if err := talk(t, master.Server(), tlsconf.Only(s.Client(), tlsconf.RoleMaster)); err != nil {
			t.Errorf("%s to %s: %v", s.Identity(), master.Identity(), err)
		}
	}
	if err := talk(t, tlsconf.Only(worker.Server(), tlsconf.RoleMaster), master.Client()); err != nil {
		t.Errorf("master to worker: %v", err)
	}
	want := tlsconf.Identity{Cluster: "prod", Role: tlsconf.RoleClient, Name: "ops"}
	if got := client.Identity(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := talk(t, client.Server(), master.Client()); !errors.Is(err, tlsconf.ErrWrongName) && !errors.Is(err, tlsconf.ErrWrongUsage) {
		t.Errorf("a client that plays the server: got error %v, want a refusal", err)
	}
}

// TestSE03AWorkerCertificateIsNoMasters has the certificate of a worker on the
// master's own host, so that nothing but the role is wrong.
func TestSE03AWorkerCertificateIsNoMasters(t *testing.T) {
	a := newAuthority(t)
	master, worker := load(t, issue(t, a, tlsconf.RoleMaster, "m1")), load(t, issue(t, a, tlsconf.RoleWorker, "w1"))
	if err := talk(t, tlsconf.Only(master.Server(), tlsconf.RoleMaster), worker.Client()); !errors.Is(err, tlsconf.ErrWrongRole) {
		t.Errorf("as a client: got error %v, want ErrWrongRole", err)
	}
	if err := talk(t, worker.Server(), tlsconf.Only(master.Client(), tlsconf.RoleMaster)); !errors.Is(err, tlsconf.ErrWrongRole) {
		t.Errorf("as a server: got error %v, want ErrWrongRole", err)
	}
}

func TestAllFilesArePrivateWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "new", "ca")
	a, err := Init(dir, "prod", DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(dir, "m1")
	if _, err := a.Issue(node, Request{Role: tlsconf.RoleMaster, Name: "m1", SANs: []string{"m1"}, Lifetime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(node, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.StartRotation(DefaultAuthorityLifetime); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
		return nil
	})
	if err != nil || files != 9 {
		t.Errorf("looked at %d files (%v), want 9", files, err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	a := newAuthority(t)
	if _, err := Init(a.dir, "prod", DefaultAuthorityLifetime); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), a.dir) {
		t.Errorf("a second authority in one directory: got error %v, want ErrExists", err)
	}
	node := issue(t, a, tlsconf.RoleMaster, "m1")
	req := Request{Role: tlsconf.RoleMaster, Name: "m1", SANs: []string{"m1"}, Lifetime: time.Hour}
	for _, gone := range []string{"", NodeCertFile, NodeKeyFile} {
		if gone != "" {
			if err := os.Remove(filepath.Join(node, gone)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Issue(node, req); !errors.Is(err, ErrExists) {
			t.Errorf("issue into a directory without %q: got error %v, want ErrExists", gone, err)
		}
	}
}

func TestARenewedCertificateIsLikeTheOldOneWithANewKey(t *testing.T) {
	a := newAuthority(t)
	dir := issue(t, a, tlsconf.RoleWorker, "w1")
	before, err := Show(filepath.Join(dir, NodeCertFile))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, NodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if a, err = Open(a.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(dir, 0); err != nil {
		t.Fatal(err)
	}
	after, err := Show(filepath.Join(dir, NodeCertFile))
	if err != nil {
		t.Fatal(err)
	}
	if after[0].Identity != before[0].Identity || strings.Join(after[0].Hosts, ",") != strings.Join(before[0].Hosts, ",") {
		t.Errorf("got %+v, want one like %+v", after[0], before[0])
	}
	if got, want := after[0].Until.Sub(after[0].From), before[0].Until.Sub(before[0].From); got != want {
		t.Errorf("it lasts %s, want %s", got, want)
	}
	if now, err := os.ReadFile(filepath.Join(dir, NodeKeyFile)); err != nil || string(now) == string(key) {
		t.Errorf("the key is the old one (%v)", err)
	}
	load(t, dir)
}

// TestAnAuthorityIsExchangedWithoutAMomentOfMistrust renews one node after the
// other in each of the three steps, and lets all talk after each renewal.
func TestAnAuthorityIsExchangedWithoutAMomentOfMistrust(t *testing.T) {
	a := newAuthority(t)
	dirs := []string{issue(t, a, tlsconf.RoleMaster, "m1"), issue(t, a, tlsconf.RoleMaster, "m2"), issue(t, a, tlsconf.RoleWorker, "w1")}
	sources := make([]*tlsconf.Source, len(dirs))
	for i, dir := range dirs {
		sources[i] = load(t, dir)
	}
	step := func(what string, do func(*Authority) error) {
		t.Helper()
		again, err := Open(a.dir)
		if err == nil {
			err = do(again)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i, dir := range dirs {
			if _, err := again.Renew(dir, 0); err != nil {
				t.Fatalf("%s: renew %s: %v", what, dir, err)
			}
			if err := sources[i].Reload(); err != nil {
				t.Fatalf("%s: reload %s: %v", what, dir, err)
			}
			for _, server := range sources {
				for _, client := range sources {
					if err := talk(t, server.Server(), client.Client()); err != nil {
						t.Fatalf("%s, after %d renewals: %s to %s: %v", what, i+1, client.Identity(), server.Identity(), err)
					}
				}
			}
		}
	}
	step("start", func(a *Authority) error { return a.StartRotation(DefaultAuthorityLifetime) })
	step("switch", (*Authority).SwitchRotation)
	step("finish", (*Authority).FinishRotation)
	last, err := Open(a.dir)
	if err != nil || len(last.Bundle()) != 1 || last.Bundle()[0].Equal(a.Bundle()[0]) {
		t.Errorf("the bundle holds %d certificates (%v), want the new one", len(last.Bundle()), err)
	}
	if left, err := filepath.Glob(filepath.Join(a.dir, "ca-*-key.pem")); err != nil || len(left) > 0 {
		t.Errorf("keys are left: %v (%v)", left, err)
	}
}

func TestStepsOfAnExchangeComeInOrder(t *testing.T) {
	a := newAuthority(t)
	for _, test := range []struct {
		name string
		do   func() error
		want error
	}{
		{"switch first", a.SwitchRotation, ErrRotation},
		{"finish first", a.FinishRotation, ErrRotation},
		{"start", func() error { return a.StartRotation(time.Hour) }, nil},
		{"start twice", func() error { return a.StartRotation(time.Hour) }, ErrRotation},
		{"finish without switch", a.FinishRotation, ErrRotation},
		{"switch", a.SwitchRotation, nil},
		{"switch twice", a.SwitchRotation, ErrRotation},
		{"start before the end", func() error { return a.StartRotation(time.Hour) }, ErrRotation},
		{"finish", a.FinishRotation, nil},
	} {
		if err := test.do(); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: got error %v, want %v", test.name, err, test.want)
		}
	}
}

func TestWrongRequestsAreRefusedWithTheRule(t *testing.T) {
	a := newAuthority(t)
	good := Request{Role: tlsconf.RoleMaster, Name: "m1", SANs: []string{"m1"}, Lifetime: time.Hour}
	for _, test := range []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"no name", func(r *Request) { r.Name = "" }, `name ""`},
		{"a name with a slash", func(r *Request) { r.Name = "a/b" }, `name "a/b"`},
		{"an unknown role", func(r *Request) { r.Role = "root" }, "one of master, worker, client"},
		{"a master that nobody can dial", func(r *Request) { r.SANs = nil }, "--san"},
		{"a host with a port", func(r *Request) { r.SANs = []string{"m1:7070"} }, "without port"},
		{"any host", func(r *Request) { r.SANs = []string{"*.example.org"} }, "host name or an IP address"},
		{"no definite address", func(r *Request) { r.SANs = []string{"0.0.0.0"} }, "that others dial"},
		{"too short", func(r *Request) { r.Lifetime = time.Second }, "must be between 10s"},
		{"longer than the authority", func(r *Request) { r.Lifetime = 20 * 365 * 24 * time.Hour }, "before the authority does"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := good
			test.change(&req)
			out := filepath.Join(t.TempDir(), "out")
			if _, err := a.Issue(out, req); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a refused request left %s behind (%v)", out, err)
			}
		})
	}
}

func TestAnAuthorityThatOthersCanReadOrWriteIsNotUsed(t *testing.T) {
	a := newAuthority(t)
	if err := os.Chmod(filepath.Join(a.dir, KeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(a.dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that all can read: got error %v, want the fix", err)
	}
	a = newAuthority(t)
	if err := os.Chmod(a.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(a.dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that all can write: got error %v, want the fix", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no directory: got no error")
	}
}
