package tlsconf

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// clockAt makes a source believe that it is another time.
func clockAt(s *Source, d time.Duration) *Source {
	s.now = func() time.Time { return time.Now().Add(d) }
	return s
}

// TestSE04EveryWrongCertificateIsRefusedAndEachEndSaysWhy covers both
// directions: the listener refuses the dialler, and the dialler the listener.
func TestSE04EveryWrongCertificateIsRefusedAndEachEndSaysWhy(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	past, hour := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	issue := func(a *authority, host string, id Identity, from, until time.Time) *Source {
		return load(t, a.issue(t, t.TempDir(), host, id, from, until))
	}
	good := func() *Source { return issue(ours, "m1", Identity{"prod", RoleMaster, "m1"}, past, hour) }
	brief := time.Now().Add(time.Minute)
	for _, test := range []struct {
		name string
		bad  *Source
		at   time.Duration // by the clock of the end that judges
		want error
		text string
	}{
		{"another authority", issue(theirs, "m1", Identity{"prod", RoleMaster, "m1"}, past, hour), 0, ErrUnknownAuthority, `is signed by "theirs", which is not in ca_file`},
		{"another cluster of the same authority", issue(ours, "m1", Identity{"test", RoleMaster, "m1"}, past, hour), 0, ErrWrongCluster, "hearth://test/master/m1, this is hearth://prod/master/m1"},
		{"another role", issue(ours, "m1", Identity{"prod", RoleWorker, "m1"}, past, hour), 0, ErrWrongRole, "hearth://prod/worker/m1 is a worker, only master may be here"},
		{"expired", issue(ours, "m1", Identity{"prod", RoleMaster, "m1"}, past, brief), 10 * time.Minute, ErrExpired, "certificate of hearth://prod/master/m1 ended on "},
		{"not valid yet", issue(ours, "m1", Identity{"prod", RoleMaster, "m1"}, time.Now().Add(-time.Minute), hour), -10 * time.Minute, ErrNotYetValid, "compare the clocks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			judge := clockAt(good(), test.at)
			sErr, cErr := shake(t, Only(judge.Server(), RoleMaster), test.bad.trusting(), "m1")
			if !errors.Is(sErr, test.want) || !strings.Contains(sErr.Error(), test.text) {
				t.Errorf("as a client: the server says %v, want %v with %q", sErr, test.want, test.text)
			}
			if got := Explain(test.bad.Client(), cErr); got == nil || !strings.Contains(got.Error(), "the peer refuses this end's certificate ("+test.bad.Identity().String()) {
				t.Errorf("as a client: the client says %v, want what it showed", got)
			}
			sErr, cErr = shake(t, test.bad.trustingServer(), Only(judge.Client(), RoleMaster), "m1")
			if !errors.Is(cErr, test.want) || !strings.Contains(cErr.Error(), test.text) {
				t.Errorf("as a server: the client says %v, want %v with %q", cErr, test.want, test.text)
			}
			if got := Explain(test.bad.Server(), sErr); got == nil || !strings.Contains(got.Error(), "the peer refuses this end's certificate ("+test.bad.Identity().String()) {
				t.Errorf("as a server: the server says %v, want what it showed", got)
			}
		})
	}
}

// trusting is the config of a client that looks at nothing, so that only the
// other end judges.
func (s *Source) trusting() *tls.Config {
	cfg := s.Client()
	cfg.VerifyConnection = nil
	return cfg
}

func (s *Source) trustingServer() *tls.Config {
	cfg := s.Server()
	cfg.VerifyConnection = nil
	return cfg
}

func TestACertificateWithoutARoleIsOfNoUse(t *testing.T) {
	ca := newAuthority(t, "one")
	files := ca.issue(t, t.TempDir(), "m1", Identity{"prod", "root", "m1"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if _, err := Load(files); !errors.Is(err, ErrNoIdentity) || !strings.Contains(err.Error(), files.CertFile) {
		t.Errorf("got error %v, want one about %s", err, files.CertFile)
	}
}

func TestADaemonNoticesTheCertificateOfAnotherRole(t *testing.T) {
	ca := newAuthority(t, "one")
	s := load(t, ca.write(t, t.TempDir(), "m1", time.Now().Add(time.Hour)))
	if err := s.Require(RoleMaster); err != nil {
		t.Errorf("a master with a master's certificate: %v", err)
	}
	if err := s.Require(RoleWorker); err == nil || !strings.Contains(err.Error(), "hearth ca issue --role worker") {
		t.Errorf("a worker with a master's certificate: got error %v, want what to do", err)
	}
}

func TestAReloadDoesNotMakeAProcessSomethingElse(t *testing.T) {
	ca := newAuthority(t, "one")
	dir := t.TempDir()
	s := load(t, ca.write(t, dir, "m1", time.Now().Add(time.Hour)))
	for _, id := range []Identity{{"prod", RoleWorker, "m1"}, {"test", RoleMaster, "m1"}} {
		ca.issue(t, dir, "m1", id, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("reload of %s: got error %v, want a refusal", id, err)
		}
	}
	if got := s.Identity(); got.Role != RoleMaster || got.Cluster != "prod" {
		t.Errorf("it is %s now", got)
	}
}

func TestAnAuthorityThatDidNotSignOurselvesIsReported(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	hour := time.Now().Add(time.Hour)
	files := one.write(t, t.TempDir(), "m1", hour)
	files.CAFile = two.write(t, t.TempDir(), "m1", hour).CAFile
	if _, err := Load(files); err == nil || !strings.Contains(err.Error(), "must be signed by an authority in ca_file "+files.CAFile) {
		t.Errorf("got error %v, want one that names both files", err)
	}
}

// TestTwoAuthoritiesSideBySideLetACertificateBeReplacedAtBothEnds is the
// exchange of an authority: first both are trusted, then certificates follow one
// by one, then the old one goes.
func TestTwoAuthoritiesSideBySideLetACertificateBeReplacedAtBothEnds(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	hour := time.Now().Add(time.Hour)
	aDir, bDir := t.TempDir(), t.TempDir()
	aFiles, bFiles := one.write(t, aDir, "m1", hour), one.write(t, bDir, "m1", hour)
	a, b := load(t, aFiles), load(t, bFiles)
	server, client := a.Server(), b.Client()
	both := func(step string) {
		t.Helper()
		for _, s := range []*Source{a, b} {
			if err := s.Reload(); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
		}
		if sErr, cErr := shake(t, server, client, "m1"); sErr != nil || cErr != nil {
			t.Fatalf("%s: got server error %v and client error %v, want none", step, sErr, cErr)
		}
	}
	both("one authority")
	for _, f := range []Files{aFiles, bFiles} {
		appendPEM(t, f.CAFile, two.cert.Raw)
	}
	both("two authorities")
	two.write(t, aDir, "m1", hour)
	appendPEM(t, aFiles.CAFile, one.cert.Raw)
	both("one end has moved")
	two.write(t, bDir, "m1", hour)
	both("both ends have moved")
	two.write(t, aDir, "m1", hour)
	both("the old authority is gone")
}

// lines collects a log that several goroutines write and read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestWatchTakesChangedFilesAndWarnsBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "one")
		dir := t.TempDir()
		files := ca.issue(t, dir, "m1", Identity{"prod", RoleMaster, "m1"}, time.Now(), time.Now().Add(10*time.Minute))
		s := load(t, files)
		var out lines
		log := hclog.New(&hclog.LoggerOptions{Output: &out})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Watch(ctx, log) }()
		said := func(step, text string, times int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(out.String(), text); got != times {
				t.Errorf("%s: %q was said %d times, want %d:\n%s", step, text, got, times, out.String())
			}
		}
		time.Sleep(7 * time.Minute)
		said("after 7 minutes of 10", "ends soon", 0)
		time.Sleep(time.Minute + time.Second)
		said("after 8 minutes of 10", "ends soon", 1)
		time.Sleep(30 * time.Second)
		said("a little later", "ends soon", 1)
		time.Sleep(time.Minute)
		said("after 9 and a half minutes", "ends soon", 3)

		if err := os.WriteFile(files.KeyFile, []byte("half a key"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * WatchInterval)
		said("with half of the files", "were not taken", 1)
		ca.issue(t, dir, "m1", Identity{"prod", RoleMaster, "m1"}, time.Now(), time.Now().Add(10*time.Minute))
		time.Sleep(2 * WatchInterval)
		said("with new files", "were reloaded", 1)
		if _, until := s.Validity(); time.Until(until) < 9*time.Minute {
			t.Errorf("the certificate in use ends in %s, want the new one", time.Until(until))
		}
		time.Sleep(11 * time.Minute)
		said("after the end", "has ended", 1)
		cancel()
		<-done
	})
}

func TestPathsThatNeedNoCertificateAreServedWithoutOne(t *testing.T) {
	ca := newAuthority(t, "one")
	s := load(t, ca.write(t, t.TempDir(), "localhost", time.Now().Add(time.Hour)))
	stranger := load(t, newAuthority(t, "two").write(t, t.TempDir(), "localhost", time.Now().Add(time.Hour)))
	srv := httptest.NewUnstartedServer(Demand(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}), "/healthz"))
	srv.TLS = Optional(s.Server())
	srv.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil)
	srv.StartTLS()
	defer srv.Close()
	get := func(path string, cfg *tls.Config) int {
		transport := &http.Transport{TLSClientConfig: cfg}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	nobody := ForHost(s.Client(), "localhost")
	nobody.GetClientCertificate = nil
	for _, test := range []struct {
		name string
		path string
		cfg  *tls.Config
		want int
	}{
		{"health without a certificate", "/healthz", nobody, http.StatusNoContent},
		{"the rest without one", "/json", nobody, http.StatusUnauthorized},
		{"a path that only looks like it", "/healthz/../json", nobody, http.StatusUnauthorized},
		{"the rest with one", "/json", ForHost(s.Client(), "localhost"), http.StatusNoContent},
		{"health with a stranger's", "/healthz", ForHost(stranger.trusting(), "localhost"), 0},
	} {
		if got := get(test.path, test.cfg); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

// appendPEM adds a certificate to a bundle.
func appendPEM(t *testing.T, path string, der []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, path, "CERTIFICATE", der)
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(before, after...), 0o600); err != nil {
		t.Fatal(err)
	}
}
