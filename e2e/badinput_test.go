//go:build e2e

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Usage errors are found before anything is done, and named (UX).
func TestBadFlagsOfEveryVerbAreUsageErrorsThatNameTheFault(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		names []string
		code  int // 0: 2
	}{
		{args: []string{"nonsense"}, names: []string{"nonsense"}},
		{args: []string{"--nonsense"}, names: []string{"--nonsense"}},
		{args: []string{"master", "--nonsense"}, names: []string{"--nonsense"}},
		{args: []string{"master", "extra"}, names: []string{"extra"}},
		{args: []string{"master", "--grpc-port", "99999"}, names: []string{"grpc", "99999"}},
		{args: []string{"master", "--grpc-port", "seven"}, names: []string{"grpc", "seven"}},
		{args: []string{"master", "--bootstrap-expect", "0"}, names: []string{"bootstrap"}},
		{args: []string{"master", "--bootstrap-expect", "-3"}, names: []string{"bootstrap"}},
		{args: []string{"master", "--join", "127.0.0.1:7072"}, names: []string{"bootstrap"}},
		{args: []string{"master", "--join", "a:b:c", "--bootstrap-expect", "3"}, names: []string{"join", "a:b:c"}},
		{args: []string{"master", "--bind", "0.0.0.0"}, names: []string{"TLS"}},
		{args: []string{"master", "--log-store", "paper"}, names: []string{"log", "paper"}},
		{args: []string{"master", "--raft-preset", "slow"}, names: []string{"preset", "slow"}},
		{args: []string{"master", "--worker-timeout", "soon"}, names: []string{"worker", "soon"}},
		{args: []string{"master", "--config", "/no/such/file.hcl"}, names: []string{"/no/such/file.hcl"}},
		{args: []string{"master", "--tls-ca-file", "/no/such/ca.pem"}, names: []string{"tls"}},
		{args: []string{"worker", "--cores", "-1"}, names: []string{"cores", "-1"}},
		{args: []string{"worker", "--cores", "many"}, names: []string{"cores", "many"}},
		{args: []string{"worker", "--memory", "12 parsecs"}, names: []string{"memory", "12 parsecs"}},
		{args: []string{"worker", "--resources", "gpu"}, names: []string{"resource", "gpu"}},
		{args: []string{"worker", "--label", "novalue"}, names: []string{"label", "novalue"}},
		{args: []string{"worker", "--masters", "a:b:c"}, names: []string{"masters", "a:b:c"}},
		{args: []string{"submit"}, names: []string{"arg"}},
		{args: []string{"submit", "--cores", "0", "--", "true"}, names: []string{"--cores"}},
		{args: []string{"submit", "--executors", "-1", "--", "true"}, names: []string{"--executors"}},
		{args: []string{"submit", "--memory", "lots", "--", "true"}, names: []string{"--memory", "lots"}},
		{args: []string{"submit", "--max-cores", "2", "--executor-cores", "4", "--", "true"}, names: []string{"--max-cores"}},
		{args: []string{"submit", "--resource", "gpu", "--", "true"}, names: []string{"--resource"}},
		{args: []string{"submit", "--env", "NOT_SET_HERE", "--", "true"}, names: []string{"NOT_SET_HERE"}},
		{args: []string{"submit", "--file", "/no/such/file", "--", "true"}, names: []string{"/no/such/file"}},
		{args: []string{"submit", "--restart", "maybe", "--", "true"}, names: []string{"restart", "maybe"}},
		{args: []string{"submit", "--chdir", "relative", "--", "true"}, names: []string{"relative"}},
		{args: []string{"submit", "--wait", "--detach", "--", "true"}, names: []string{"--wait", "--detach"}},
		{args: []string{"submit", "--max-runtime", "-5s", "--", "true"}, names: []string{"runtime"}},
		{args: []string{"submit", "--completions", "0", "--", "true"}, names: []string{"--completions"}},
		{args: []string{"submit", "-o", "xml", "--", "true"}, names: []string{"xml"}},
		{args: []string{"submit", "--name", strings.Repeat("n", 5000), "--", "true"}, names: []string{"name"}},
		{args: []string{"submit", "--", ""}, names: []string{"command"}},
		{args: []string{"wait"}, names: []string{"arg"}},
		{args: []string{"status", "extra"}, names: []string{"extra"}},
		{args: []string{"status", "--masters", "a:b:c"}, names: []string{"masters", "a:b:c"}},
		{args: []string{"status", "--timeout", "never"}, names: []string{"timeout", "never"}},
		{args: []string{"status", "--timeout", "0"}, names: []string{"--timeout", "more than 0"}},
		{args: []string{"submit", "--max-runtime", "1ns", "--", "true"}, names: []string{"--max-runtime", "1ms"}},
		{args: []string{"submit", "--executors", "2", "--min-executors", "5", "--", "true"}, names: []string{"--min-executors 5", "--executors"}},
		{args: []string{"driver", "submit", "--max-runtime", "1ns", "--", "true"}, names: []string{"--max-runtime", "1ms"}},
		{args: []string{"driver", "submit", "--artifact", "http://user:hidden@127.0.0.1:1/y", "--", "true"}, names: []string{"user or password", "xxxxx"}},
		{args: []string{"driver", "submit", "--artifact", "ftp://127.0.0.1:1/y", "--", "true"}, names: []string{"scheme", "ftp"}},
		{args: []string{"token", "create", "--role", "viewer", "--name", "v", "--expires", "1ns"}, names: []string{"--expires", "1s"}},
		{args: []string{"app", "driver-20000101000000-0001"}, names: []string{"hearth driver status"}},
		{args: []string{"wait", "driver-20000101000000-0001"}, names: []string{"hearth driver wait"}},
		{args: []string{"ca", "init", "/no/such/dir", "--cluster", "a b"}, names: []string{"a b"}},
		{args: []string{"apps", "-o", "yaml"}, names: []string{"yaml"}},
		{args: []string{"app"}, names: []string{"arg"}},
		{args: []string{"workers", "--all"}, names: []string{"--all"}},
		{args: []string{"logs"}, names: []string{"arg"}},
		{args: []string{"logs", "--tail", "-5", "app-1"}, names: []string{"--tail"}},
		{args: []string{"logs", "--tail", "x", "app-1"}, names: []string{"--tail"}},
		{args: []string{"kill"}, names: []string{"arg"}},
		{args: []string{"settings", "set"}, names: []string{"arg"}},
		{args: []string{"settings", "set", "novalue"}, names: []string{"novalue"}},
		{args: []string{"settings", "nonsense"}, names: []string{"nonsense"}},
		{args: []string{"operator", "raft", "leave"}, names: []string{"arg"}},
		{args: []string{"operator", "raft", "nonsense"}, names: []string{"nonsense"}},
		{args: []string{"version", "extra"}, names: []string{"extra"}},
		{args: []string{"demo", "--masters", "0"}, names: []string{"--masters"}},
		{args: []string{"demo", "--workers", "-1"}, names: []string{"--workers"}},
		{args: []string{"demo", "--stop"}, names: []string{"--dir"}},
		{args: []string{"demo", "--no-job"}, names: []string{"--keep"}},
		{args: []string{"demo", "--stop", "--dir", "/no/such/dir"}, names: []string{"/no/such/dir"}},
		{args: []string{"demo", "--input", "/no/such/dir"}, names: []string{"/no/such/dir"}},
		{args: []string{"run"}, names: []string{"command"}, code: 254},
		{args: []string{"run", "--nonsense", "echo"}, names: []string{"--nonsense"}, code: 254},
		{args: []string{"run", "--cores", "0", "echo", ":::", "a"}, names: []string{"cores"}, code: 254},
		{args: []string{"run", "--jobs", "-1", "echo", ":::", "a"}, names: []string{"jobs"}, code: 254},
		{args: []string{"run", "--halt", "later", "echo", ":::", "a"}, names: []string{"halt", "later"}, code: 254},
		{args: []string{"run", "-a", "/no/such/file", "echo"}, names: []string{"/no/such/file"}, code: 254},
		{args: []string{"run", "--memory", "lots", "echo", ":::", "a"}, names: []string{"--memory"}, code: 254},
		{args: []string{"run", "--retries", "-1", "echo", ":::", "a"}, names: []string{"retries"}, code: 254},
		{args: []string{"run", "--transfer", "/no/such/file", "echo", ":::", "a"}, names: []string{"/no/such/file"}, code: 254},
	} {
		t.Run(clip(strings.Join(tc.args[:min(len(tc.args), 4)], " ")), func(t *testing.T) {
			want := 2
			if tc.code != 0 {
				want = tc.code
			}
			// Nobody listens at port 1; a daemon that starts in spite of its
			// flags does so where it harms nobody.
			cmd := startHearth(t, []string{"HEARTH_MASTERS=127.0.0.1:1", "HEARTH_CONFIG_DATA_DIR=" + t.TempDir()}, "", tc.args...)
			kill := time.AfterFunc(10*time.Second, func() { _ = cmd.cmd.Process.Kill() })
			defer kill.Stop()
			r := cmd.wait(t)
			if r.code != want {
				t.Fatalf("exit code %d, want %d; stderr %s", r.code, want, clip(r.stderr))
			}
			for _, n := range tc.names {
				if !strings.Contains(strings.ToLower(r.stderr), strings.ToLower(n)) {
					t.Errorf("stderr does not name %q: %s", n, clip(r.stderr))
				}
			}
			if r.stdout != "" {
				t.Errorf("stdout is not empty: %s", clip(r.stdout))
			}
		})
	}
}

// Every problem of a file is reported at once, with its place.
func TestBadConfigurationFilesAreRefusedWithFileAndLine(t *testing.T) {
	for name, text := range map[string]string{
		"syntax":  "network {\n  bind = \n",
		"unknown": "network {\n  bindd = \"127.0.0.1\"\n}\n",
		"type":    "network {\n  grpc_port = \"a lot\"\n}\n",
		"section": "networks {\n}\n",
		"binary":  "\x00\xff\xfe\x00 {}",
		"rule":    "raft {\n  bootstrap_expect = 100\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bad.hcl")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			hearth(t, "master", "--config", file).wantCode(t, 2).wantStderr(t, "bad.hcl:")
		})
	}
	file := filepath.Join(t.TempDir(), "many.hcl")
	text := "network {\n  grpc_port = 99999\n  http_port = -1\n}\nraft {\n  preset = \"warp\"\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	hearth(t, "master", "--config", file).wantCode(t, 2).wantStderr(t, "many.hcl:2", "many.hcl:3", "many.hcl:6")
	huge := filepath.Join(t.TempDir(), "huge.hcl")
	if err := os.WriteFile(huge, []byte(strings.Repeat("# filler\n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	hearth(t, "master", "--config", huge).wantCode(t, 2).wantStderr(t, "huge.hcl")
}

// What only the system can say is a failure, not a usage error, and it is said
// in time.
func TestDaemonsThatCannotStartSayWhy(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	hearth(t, "master", "--data-dir", t.TempDir(), "--grpc-port", port).wantCode(t, 1).wantStderr(t, port)
	hearth(t, "worker", "--data-dir", t.TempDir(), "--masters", "127.0.0.1:1", "--grpc-port", port).wantCode(t, 1).wantStderr(t, port)

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"master", "worker"} {
		r := hearth(t, verb, "--data-dir", file, "--grpc-port", "0")
		if r.code != 1 && r.code != 2 {
			t.Errorf("%s with a file as its data directory: code %d", verb, r.code)
		}
		r.wantStderr(t, file)
	}

	c := newCluster(t, size{masters: 1, workers: 1})
	for _, dir := range []string{"master-1", "worker-1"} {
		verb, _, _ := strings.Cut(dir, "-")
		data := filepath.Join(c.dir, dir)
		args := []string{verb, "--data-dir", data, "--grpc-port", "0", "--serf-port", "0", "--http-port", "0"}
		if verb == "worker" {
			args = append(args, "--masters", c.masterList)
		} else {
			args = append(args, "--raft-port", "0")
		}
		r := hearth(t, args...).wantCode(t, 1).wantStderr(t, data)
		if r.took > 15*time.Second {
			t.Errorf("%s noticed the lock of a running one after %s", verb, r.took)
		}
	}
}

// Things that do not exist, and calls that the state does not allow.
func TestCallsAboutThingsThatAreNotThereFailAndNameThem(t *testing.T) {
	c := newCluster(t, size{workers: 1})
	for _, args := range [][]string{
		{"app", "app-20000101000000-0001"},
		{"kill", "app-20000101000000-0001"},
		{"wait", "app-20000101000000-0001"},
		{"logs", "app-20000101000000-0001"},
		{"logs", "app-20000101000000-0001/3"},
		{"kill", "app-20000101000000-0001/3"},
	} {
		c.run(t, args...).wantCode(t, 1).wantStderr(t, "app-20000101000000-0001")
	}
	c.run(t, "settings", "set", "no_such_setting=1").wantCode(t, 2).wantStderr(t, "no_such_setting")
	c.run(t, "settings", "set", "spread_out_apps=perhaps").wantCode(t, 2).wantStderr(t, "perhaps")
	c.run(t, "settings", "set", "default_cores=-4").wantCode(t, 2).wantStderr(t, "default_cores")
	if r := c.run(t, "operator", "raft", "leave", "master-none"); r.code == 0 {
		t.Error("a master that is not there has left")
	}
	if r := c.run(t, "operator", "raft", "transfer", "master-none"); r.code == 0 {
		t.Error("leadership went to a master that is not there")
	}
	app := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0).app(t)
	for _, id := range []string{string(app) + "/99", string(app) + "/x", string(app) + "/-1", string(app) + "/"} {
		if r := c.run(t, "kill", id); r.code != 1 && r.code != 2 {
			t.Errorf("kill %s: code %d", id, r.code)
		}
	}
	if v := c.awaitRunning(t, app, 1); v.State.Terminal() {
		t.Errorf("the application is %s", v.State)
	}
	none := startHearth(t, []string{"HEARTH_MASTERS=127.0.0.1:1"}, "", "status", "--timeout", "1s").wait(t)
	if none.code == 0 || none.took > 5*time.Second {
		t.Errorf("status of nobody: code %d after %s", none.code, none.took)
	}
	none.wantStderr(t, "127.0.0.1:1")
}
