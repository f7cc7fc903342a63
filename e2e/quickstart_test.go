//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// quickstartHeading is the section of the README that is run as it is written.
const quickstartHeading = "## Five minutes to a three-master cluster"

// blocks are the fenced blocks of one section in a language.
func blocks(t *testing.T, path, heading, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		out = append(out, m[1])
	}
	return out
}

var (
	killedLine   = regexp.MustCompile(`Killed +hearth master --data-dir m(\d)`)
	leaderLine   = regexp.MustCompile(`(?m)^master-[0-9a-f]+ +leader .* 127\.0\.0\.1:7(\d)70 `)
	executorLine = regexp.MustCompile(`(?m)^(\d+) +RUNNING +\S+ +\d+ +(\d+)`)
)

// The first thing that a stranger types works, letter by letter: a cluster with
// TLS, encrypted gossip and tokens, whose leader is killed. Only make is not the
// real one, because the binary is there already; and where that is permitted, the
// ports are those of a network of its own.
func TestTheQuickStartOfTheReadmeWorksAsItIsWritten(t *testing.T) {
	steps := blocks(t, filepath.Join("..", "README.md"), quickstartHeading, "sh")
	if len(steps) != 4 {
		t.Fatalf("the quick start has %d blocks, want 4", len(steps))
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "stub"), 0o700); err != nil {
		t.Fatal(err)
	}
	stub := fmt.Sprintf("#!/bin/sh\nmkdir bin && ln -s %s bin/hearth\n", hearthBinary)
	if err := os.WriteFile(filepath.Join(dir, "stub", "make"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	// Whatever a step that failed has left running ends with the script.
	script := "set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2> /dev/null || true' EXIT\nexport PATH=$PWD/stub:$PATH\n" +
		strings.Join(steps, "\necho =====\n")
	argv := []string{"bash", "-c", script}
	if exec.Command("unshare", "--net", "true").Run() == nil {
		argv = append([]string{"unshare", "--net", "sh", "-c", `ip link set lo up && exec "$@"`, "sh"}, argv...)
	}
	cmd := startIn(t, dir, argv...)
	r := cmd.wait(t)
	t.Logf("it took %s:\n%s%s", r.took, r.stdout, r.stderr)
	if r.code != 0 {
		for _, name := range []string{"m1", "m2", "m3", "w1", "w2"} {
			text, _ := os.ReadFile(filepath.Join(dir, "trial", name+".log")) // what could be read is shown
			t.Logf("=== %s\n%s", name, text[max(0, len(text)-3000):])
		}
		t.Fatalf("the quick start ended with code %d", r.code)
	}
	said := strings.Split(r.stdout, "=====\n")
	killed, leads := killedLine.FindStringSubmatch(r.stderr), leaderLine.FindStringSubmatch(said[2])
	if killed == nil || leads == nil || killed[1][0] == leads[1][0]+1 {
		t.Errorf("master %q was killed, %q leads (ports 7070, 7170, 7270 are those of 1, 2 and 3)", killed, leads)
	}
	old, now := executors(said[1]), executors(said[2])
	if len(old) != 2 || !slices.Equal(old, now) {
		t.Errorf("the executors are %v after the kill, were %v", now, old)
	}
	for _, input := range []string{"a", "b", "c"} {
		if !strings.Contains(said[3], input+" on ") {
			t.Errorf("the run gave nothing for %q", input)
		}
	}
}

// executors lists the ids and processes in what hearth app prints.
func executors(said string) []string {
	var out []string
	for _, m := range executorLine.FindAllStringSubmatch(said, -1) {
		out = append(out, m[1]+" "+m[2])
	}
	slices.Sort(out)
	return out
}

// The page for three machines works as it is written, on three network
// namespaces: the commands about certificates, the settings and what is done with
// the cluster. Only addresses and paths are other ones, and there is no systemd.
func TestThePageForThreeMachinesWorksAsItIsWritten(t *testing.T) {
	page := filepath.Join("..", "docs", "quickstart.md")
	i := newShore(t)
	local := strings.NewReplacer("10.0.0.", "10.77.0.", "/etc/hearth/", i.dir+"/etc-0/").Replace
	script := func(m *islander, code string) *command {
		path := "PATH=" + filepath.Dir(hearthBinary) + ":$PATH\nset -euo pipefail\n"
		return startIn(t, i.dir, "ip", "netns", "exec", m.space, "bash", "-c", path+local(code))
	}
	script(i.masters[0], blocks(t, page, "## 1. Certificates", "sh")[0]).wait(t).wantCode(t, 0)
	settings := blocks(t, page, "## 3. Settings", "hcl")
	if len(settings) != 2 {
		t.Fatalf("%d files of settings, want those of master and worker", len(settings))
	}
	var daemons []*exec.Cmd
	t.Cleanup(func() {
		for _, d := range slices.Backward(daemons) { // workers first
			_ = d.Process.Signal(syscall.SIGTERM) // it may have ended
		}
		for _, d := range slices.Backward(daemons) {
			_ = d.Wait() // how it ended is in its log
		}
	})
	for kind, verb := range []string{"master", "worker"} {
		for n, m := range i.masters {
			daemons = append(daemons, i.installed(t, m, n+1, verb, local(settings[kind])))
		}
	}
	first := i.masters[0]
	token := ""
	eventually(t, settleWithin, "the first leader leaves a token", func() string {
		found, _ := filepath.Glob(filepath.Join(i.dir, "data-*-master", "operator.token")) // the pattern is valid
		if len(found) == 0 {
			return "there is none"
		}
		token = found[0]
		return ""
	})
	use := blocks(t, page, "## 5. Use it", "sh")[0]
	exports, use, _ := strings.Cut(use, "\n")
	whole := "cp " + token + " me/token\n" + exports +
		"\nuntil hearth workers 2> /dev/null | grep -c ALIVE | grep -q 3; do sleep 0.2; done\n"
	r := script(first, whole+use).wait(t).wantCode(t, 0)
	t.Logf("it took %s:\n%s%s", r.took, r.stdout, r.stderr)
	if st, err := os.Stat(filepath.Join(i.dir, "ann.token")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the submitter's token: %v, %v", st, err)
	}
	if n := strings.Count(r.stdout, " on "); n != 4 {
		t.Errorf("%d lines of the run, want 4", n)
	}
}

// installed starts a daemon on one of three machines with the settings of the
// page, which are the first machine's.
func (i *island) installed(t *testing.T, m *islander, number int, verb, settings string) *exec.Cmd {
	t.Helper()
	changes := []string{
		`bind = "10.77.0.1"`, fmt.Sprintf("bind = %q", m.addr),
		i.dir + "/etc-0/master-tls", fmt.Sprintf("%s/m%d", i.dir, number),
		i.dir + "/etc-0/worker-tls", fmt.Sprintf("%s/w%d", i.dir, number),
	}
	if verb == "master" { // it joins the others
		changes = append(changes, fmt.Sprintf("%q", m.addr), `"10.77.0.1"`)
	}
	own := strings.NewReplacer(changes...).Replace(settings)
	name := fmt.Sprintf("%d-%s", number, verb)
	file := filepath.Join(i.dir, name+".hcl")
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(i.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("ip", "netns", "exec", m.space, hearthBinary, verb, "--config", file, "--data-dir", filepath.Join(i.dir, "data-"+name))
	cmd.Env, cmd.Stdout, cmd.Stderr = ownEnv(), log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a %s in %s: %v", verb, m.space, err)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("=== %s\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	return cmd
}
