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
	"testing"
)

// quickstartHeading is the section of the README that is run as it is written.
const quickstartHeading = "## Five minutes to a three-master cluster"

// blocks are the fenced shell blocks of one section.
func blocks(t *testing.T, path, heading string) []string {
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
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
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
	steps := blocks(t, filepath.Join("..", "README.md"), quickstartHeading)
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
