//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// refusedCode is the exit code of a command that was refused.
const refusedCode = 4

// person makes a token and returns the file with it.
func (c *cluster) person(t *testing.T, role model.Role, name string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name+".token")
	c.run(t, "token", "create", "--role", string(role), "--name", name, "--out", file).wantCode(t, 0)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token of %s: %v, %v", name, info, err)
	}
	return file
}

// as runs a command with a token.
func (c *cluster) as(t *testing.T, file string, args ...string) result {
	t.Helper()
	return startHearth(t, c.env(c.masterList, config.EnvTokenFile+"="+file), "", args...).wait(t)
}

// trail reads the audit trail of one master, as an operator.
func (c *cluster) trail(t *testing.T, m *node, args ...string) []model.AuditView {
	t.Helper()
	var v struct {
		Lines []model.AuditView `json:"lines"`
	}
	c.via(t, m, append([]string{"audit", "--lines", "0", "-o", "json"}, args...)...).wantCode(t, 0).decode(t, &v)
	return v.Lines
}

// missing names what a trail does not have: "principal action object outcome".
func missing(lines []model.AuditView, want []string) string {
	have := map[string]bool{}
	for _, l := range lines {
		have[fmt.Sprintf("%s: %s %s: %s", l.Principal, l.Action, l.Object, l.Outcome)] = true
	}
	for _, w := range want {
		if !have[w] {
			return fmt.Sprintf("%q is not among %d lines: %v", w, len(lines), have)
		}
	}
	return ""
}

func TestSE12RolesAreKeptAndAuditedOverAFailover(t *testing.T) {
	t.Setenv(secureVariable, "1")
	c := newCluster(t, size{})
	vera, sam, olga := c.person(t, model.RoleViewer, "vera"), c.person(t, model.RoleSubmitter, "sam"), c.person(t, model.RoleOperator, "olga")

	others := c.as(t, olga, "submit", "--detach", "--name", "others", "--", "sleep", "1000").wantCode(t, 0).app(t)
	own := c.as(t, sam, "submit", "--detach", "--name", "own", "--", "sleep", "1000").wantCode(t, 0).app(t)
	c.as(t, vera, "status").wantCode(t, 0)
	c.as(t, vera, "app", string(own)).wantCode(t, 0)

	want := []string{
		"olga: register app " + string(others) + ": ok",
		"sam: register app " + string(own) + ": ok",
	}
	refused := func(file, name string, line string, args ...string) {
		t.Helper()
		c.as(t, file, args...).wantCode(t, refusedCode).wantStderr(t, name)
		want = append(want, name+": "+line+": refused")
	}
	refused(vera, "vera", "kill app "+string(own), "kill", string(own))
	refused(vera, "vera", "register app ", "submit", "--", "true")
	refused(vera, "vera", "set settings ", "settings", "set", "default_cores=3")
	refused(vera, "vera", "audit ", "audit")
	refused(sam, "sam", "kill app "+string(others), "kill", string(others))
	refused(sam, "sam", "set settings ", "settings", "set", "default_cores=3")
	refused(sam, "sam", "transfer leadership ", "operator", "raft", "transfer")
	refused(sam, "sam", "tokens ", "token", "list")
	refused(sam, "sam", "create token sam", "token", "create", "--role", "operator", "--name", "sam")

	// A worker's certificate is no person's.
	dir, _ := c.issue(t, tlsconf.RoleWorker, "eve")
	startHearth(t, []string{config.EnvMasters + "=" + c.masterList, config.EnvTLSDir + "=" + dir}, "", "kill", string(others)).wait(t).wantCode(t, refusedCode)
	// A token that was revoked opens nothing, whatever the certificate.
	gone := c.person(t, model.RoleOperator, "gone")
	var tokens struct {
		Tokens []model.TokenView `json:"tokens"`
	}
	// A standby may not know the newest one yet.
	eventually(t, settleWithin, "the new token is listed", func() string {
		c.run(t, "token", "list", "-o", "json").wantCode(t, 0).decode(t, &tokens)
		if !slices.ContainsFunc(tokens.Tokens, func(v model.TokenView) bool { return v.Name == "gone" }) {
			return fmt.Sprintf("%d tokens are listed", len(tokens.Tokens))
		}
		return ""
	})
	for _, tok := range tokens.Tokens {
		if tok.Name == "gone" {
			c.run(t, "token", "revoke", string(tok.ID)).wantCode(t, 0)
			want = append(want, principalOf(t, c)+": revoke operator token of gone "+string(tok.ID)+": ok")
		}
	}
	c.as(t, gone, "kill", string(others)).wantCode(t, refusedCode).wantStderr(t, "token")

	c.as(t, sam, "kill", string(own)).wantCode(t, 0)
	c.as(t, olga, "settings", "set", "default_cores=3").wantCode(t, 0)
	want = append(want, "sam: kill app "+string(own)+": ok", "olga: set setting default_cores=3: ok")

	leader := c.leader(t)
	eventually(t, settleWithin, "all of it is in the leader's trail", func() string { return missing(c.trail(t, leader), want) })
	leader.proc.kill9(t)
	for _, m := range living(c.masters) {
		eventually(t, settleWithin, "all of it is in the trail of "+m.name+" after the leader's death", func() string { return missing(c.trail(t, m), want) })
	}
	// The same lines, in the same order, whoever is asked.
	back := c.restart(t, leader)
	eventually(t, settleWithin, "the master that was killed has the trail too", func() string { return missing(c.trail(t, back), want) })

	for _, l := range c.trail(t, back, "--principal", "sam") {
		if l.Principal != "sam" || l.From != "127.0.0.1" || !strings.HasPrefix(l.Credential, "token-") {
			t.Errorf("--principal sam shows %+v", l)
		}
	}
	if lines := c.trail(t, back, "--app", string(others)); missing(lines, []string{want[0], want[6]}) != "" {
		t.Errorf("--app shows %+v", lines)
	}
	c.as(t, olga, "kill", string(others)).wantCode(t, 0)
}

// principalOf is the name under which the harness itself acts.
func principalOf(t *testing.T, c *cluster) string {
	t.Helper()
	for _, l := range c.trail(t, c.leader(t)) {
		if l.Action == "create viewer token for vera" {
			return l.Principal
		}
	}
	t.Fatal("nobody has made vera's token")
	return ""
}

// SE-02, SE-10: a single master on loopback, with tokens required: the token of
// the first operator is in its data directory, and nobody gets in without one.
func TestSE02ATokenIsThereAfterTheFirstStartAndIsAskedFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "master")
	m := startHearth(t, nil, "", "master", "--data-dir", dir, "--tokens", "required",
		"--grpc-port", "0", "--raft-port", "0", "--serf-port", "0", "--http-port", "0")
	defer func() {
		_ = m.cmd.Process.Signal(os.Interrupt)
		m.wait(t).wantStderr(t, "access.tokens is required without TLS")
	}()
	var where demo.Endpoints
	file := filepath.Join(dir, "operator.token")
	eventually(t, settleWithin, "the master serves and has made a token", func() string {
		var err error
		if where, err = demo.ReadEndpoints(dir, demo.ReadyFile, m.cmd.Process.Pid); err != nil {
			return err.Error()
		}
		if _, err = os.Stat(file); err != nil {
			return err.Error()
		}
		return ""
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v, %v", info, err)
	}
	env := []string{config.EnvMasters + "=" + where.GRPC}
	for _, args := range [][]string{{"status"}, {"submit", "--detach", "--", "true"}, {"token", "list"}, {"audit"}, {"settings", "set", "default_cores=1"}} {
		startHearth(t, env, "", args...).wait(t).wantCode(t, refusedCode).wantStderr(t, "HEARTH_TOKEN_FILE")
		if r := startHearth(t, append(env, config.EnvTokenFile+"="+file), "", args...).wait(t); args[0] != "submit" {
			r.wantCode(t, 0)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	startHearth(t, env, "", "status", "--token-file", file).wait(t).wantCode(t, 2).wantStderr(t, "chmod 600")
}

// TestSE06NoSecretIsShownAnywhere plants secrets and looks for them in every log,
// page, answer, process list and dump.
func TestSE06NoSecretIsShownAnywhere(t *testing.T) {
	t.Setenv(secureVariable, "1")
	c := newCluster(t, size{})
	secrets := map[string]string{}
	for _, role := range model.Roles() {
		file := c.person(t, role, "p-"+string(role))
		secrets["token of "+string(role)] = readToken(t, file).Reveal()
		c.as(t, file, "status", "--timeout", "20s").wantCode(t, 0)
		c.as(t, file, "settings", "set", "default_cores=nonsense") // refused or invalid: errors are shown too
	}
	bad := filepath.Join(t.TempDir(), "bad.token")
	stranger := "hearth_" + strings.Repeat("Zx9-", 10) + "abA"
	if err := os.WriteFile(bad, []byte(stranger), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets["unknown token"] = stranger
	refusal := c.as(t, bad, "status")
	refusal.wantCode(t, refusedCode)
	texts := map[string]string{"an error": refusal.stderr}

	// An application with a driver, so that there are session tokens and secrets
	// of executors.
	d := c.ownDriver(t, "driver")
	d.next(t, driver.EventExecutorReady, settleWithin)
	app := d.App()
	v := c.awaitRunning(t, app, 1)
	_, file := belongings(t, running(v)[0].PID, t.TempDir())
	secrets["secret of an executor"] = strings.TrimSpace(readText(t, file))
	registered, err := c.client.RegisterApp(t.Context(), model.AppSpec{
		Name: "no driver", Kind: model.AppKindDriver, DriverAddr: "127.0.0.1:9", Profile: model.Profile{Cores: 1, MemoryMiB: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets["session token"] = registered.Token.Reveal()
	if err := c.client.SetTargets(t.Context(), rpc.SetTargetsRequest{App: registered.App, Token: registered.Token, Totals: map[int]int{7: 1}}); err == nil {
		t.Error("a target of a profile that does not exist was set")
	} else {
		texts["an error about targets"] = err.Error()
	}
	// A driver in cluster mode, with its own secret and the key that follows from it.
	r := c.run(t, "driver", "submit", "--memory", "64m", "--", "sleep", "600").wantCode(t, 0)
	clusterMode := c.runs(t, strings.TrimSpace(r.stdout), 1)
	_, file = belongings(t, clusterMode.PID, t.TempDir())
	secrets["secret of a driver"] = strings.TrimSpace(readText(t, file))
	secrets["key of a driver"] = strings.Split(readText(t, filepath.Join(driverFiles(t, clusterMode.PID), "key.pem")), "\n")[1]
	for _, path := range glob(t, c.dir, "tls/*/gossip.key") {
		for n, key := range strings.Fields(readText(t, path)) {
			secrets[fmt.Sprintf("gossip key %d of %s", n, path)] = key
		}
	}
	for _, path := range glob(t, c.dir, "tls/*/key.pem") {
		secrets[path] = strings.Split(readText(t, path), "\n")[1]
	}
	for _, args := range [][]string{
		{"status", "-o", "json"},
		{"apps", "--all", "-o", "json"},
		{"app", string(app), "-o", "json"},
		{"workers", "-o", "json"},
		{"driver", "status", strings.TrimSpace(r.stdout), "-o", "json"},
		{"audit", "--lines", "0", "-o", "json"},
		{"token", "list", "-o", "json"},
		{"settings", "get", "-o", "json"},
		{"operator", "raft", "list", "-o", "json"},
		{"operator", "gossip", "members", "-o", "json"},
	} {
		r := c.run(t, args...).wantCode(t, 0)
		texts["hearth "+strings.Join(args, " ")] = r.stdout + r.stderr
	}
	for _, n := range c.nodes() {
		for _, path := range []string{"/", "/json", "/metrics", "/healthz", "/readyz", "/v1/cluster", "/v1/apps", "/v1/workers", "/v1/apps/" + string(app)} {
			if text, there := c.body(t, n, path); there {
				texts[n.name+path] = text
			}
		}
	}
	for pid, line := range commandLines(t) {
		texts["command line of "+pid] = line
	}
	// The dump of all goroutines, as after a crash.
	c.quit(t, c.leader(t))
	for _, path := range glob(t, c.dir, "*.log") {
		texts[path] = readText(t, path)
	}
	if len(texts) < 30 || len(secrets) < 8 {
		t.Errorf("only %d texts were searched for %d secrets", len(texts), len(secrets))
	}
	for where, text := range texts {
		for what, secret := range secrets {
			if len(secret) < 16 {
				t.Fatalf("%s is no secret worth looking for: %d bytes", what, len(secret))
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s is shown in %s", what, where)
			}
		}
	}
	t.Logf("%d secrets are in none of %d texts", len(secrets), len(texts))
	c.run(t, "driver", "kill", strings.TrimSpace(r.stdout)).wantCode(t, 0)
}

// quit has a daemon dump all its goroutines into its log, as a crash does.
func (c *cluster) quit(t *testing.T, n *node) {
	t.Helper()
	n.proc.signal(t, syscall.SIGQUIT)
	n.proc.awaitEnd(t, settleWithin)
	c.restart(t, n)
}

// glob lists the files below a directory that fit a pattern; there must be one.
func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file fits %s: %v", pattern, err)
	}
	return found
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// body is what a page of a daemon says, at most 4 MiB of it; false if it does not answer.
func (c *cluster) body(t *testing.T, n *node, path string) (string, bool) {
	t.Helper()
	resp, err := c.access.get(t.Context(), n.HTTP, path)
	if err != nil {
		return "", false
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), true
}

// commandLines are those of all processes of this machine.
func commandLines(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range glob(t, "/proc", "[0-9]*/cmdline") {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 { // others have ended meanwhile
			out[filepath.Base(filepath.Dir(path))] = string(text)
		}
	}
	return out
}
