//go:build packages

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packagesVariable names the directory that "make package" has filled.
const packagesVariable = "HEARTH_PACKAGES"

// built returns the one file of a kind for this machine's architecture.
func built(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv(packagesVariable), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %q: %v, %v, want one file: run make package", pattern, os.Getenv(packagesVariable), found, err)
	}
	return found[0]
}

// command runs a program that must succeed, and returns what it printed.
func command(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// machine is a copy of this machine's file system that keeps its changes to
// itself: an overlay in a mount namespace of its own. Its systemctl only writes
// down what it is asked.
type machine struct {
	keeper *exec.Cmd
	in     *os.File // its end ends the keeper
	root   string
	pid    string
}

// fakeSystemctl says that both units are active.
const fakeSystemctl = `#!/bin/sh
echo "$@" >> /asked
`

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("overlays need root")
	}
	for _, tool := range []string{"dpkg-deb", "unshare", "nsenter", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	m := &machine{root: t.TempDir()}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	m.in = write
	m.keeper = exec.Command("unshare", "--mount", "sh", "-ec", `mount -t tmpfs overlay "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
mount -t proc proc "$0/root/proc"
echo ready
exec cat`, m.root)
	m.keeper.Stdin, m.keeper.Stderr = read, os.Stderr
	out, err := m.keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close() // the keeper has it
	t.Cleanup(func() {
		_ = m.in.Close()
		_ = m.keeper.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Skipf("this machine permits no overlay: %q, %v", line, err)
	}
	m.pid = strconv.Itoa(m.keeper.Process.Pid)
	m.sh(t, `mkdir -p /run/systemd/system && cat > /usr/bin/systemctl && chmod 755 /usr/bin/systemctl`, fakeSystemctl)
	return m
}

// sh runs a script inside, which must succeed; further arguments are its
// standard input.
func (m *machine) sh(t *testing.T, script string, stdin ...string) string {
	t.Helper()
	cmd := exec.Command("nsenter", "--mount", "--target", m.pid, "chroot", filepath.Join(m.root, "root"),
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", script)
	cmd.Stdin = strings.NewReader(strings.Join(stdin, ""))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// asked returns what systemctl was asked since the last time.
func (m *machine) asked(t *testing.T) []string {
	t.Helper()
	said := m.sh(t, "touch /asked; cat /asked; rm /asked")
	return strings.Split(strings.TrimSpace(said), "\n")
}

// put copies a file into the machine.
func (m *machine) put(t *testing.T, path, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m.sh(t, "cat > "+to, string(data))
}

// successor makes a package like another with a higher version.
func successor(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	next := filepath.Join(dir, "next.deb")
	tree := filepath.Join(dir, "tree")
	command(t, "dpkg-deb", "-R", deb, tree)
	command(t, "sed", "-i", "s/^Version: .*/Version: 999.0/", filepath.Join(tree, "DEBIAN", "control"))
	command(t, "sh", "-c", "echo '# new in 999.0' >> "+filepath.Join(tree, "etc/hearth/worker.hcl"))
	command(t, "dpkg-deb", "-Znone", "-b", tree, next)
	return next
}

func TestTheDebIsInstalledUpgradedAndRemovedWithoutStoppingAnything(t *testing.T) {
	deb := built(t, "hearth_*_"+runtime.GOARCH+".deb")
	m := newMachine(t)
	m.put(t, deb, "/hearth.deb")
	m.put(t, successor(t, deb), "/next.deb")

	m.sh(t, "dpkg -i /hearth.deb")
	if diff := cmp.Diff([]string{"daemon-reload"}, m.asked(t)); diff != "" {
		t.Errorf("asked of systemd by the first installation (-want +got):\n%s", diff)
	}
	modes := m.sh(t, "stat -c '%a %U:%G %n' /etc/hearth /etc/hearth/*.hcl /var/lib/hearth-* /usr/bin/hearth /usr/lib/systemd/system/hearth-*.service")
	want := `750 root:hearth /etc/hearth
640 root:hearth /etc/hearth/master.hcl
640 root:hearth /etc/hearth/worker.hcl
700 hearth:hearth /var/lib/hearth-master
700 hearth:hearth /var/lib/hearth-worker
755 root:root /usr/bin/hearth
644 root:root /usr/lib/systemd/system/hearth-master.service
644 root:root /usr/lib/systemd/system/hearth-worker.service
`
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("owners and modes (-want +got):\n%s", diff)
	}
	m.sh(t, "getent passwd hearth | grep -q ':/nonexistent:/usr/sbin/nologin$' && dpkg --verify hearth && hearth version")
	m.sh(t, "test -s /usr/share/man/man1/hearth-worker-restart.1.gz && test -s /usr/share/man/man5/hearth.hcl.5.gz")
	m.sh(t, "bash -ec '. /usr/share/bash-completion/completions/hearth; complete -p hearth'")

	// What an operator has changed is kept, and nobody's executors end.
	m.sh(t, "sed -i s/10.0.0.9/10.1.1.1/ /etc/hearth/worker.hcl && touch /var/lib/hearth-worker/identity && dpkg --force-confold -i /next.deb")
	asked := m.asked(t)
	for _, line := range asked {
		if strings.Contains(line, "stop") || strings.Contains(line, "restart") || strings.Contains(line, "kill") {
			t.Errorf("the upgrade asked for %q", line)
		}
	}
	if !slices.Contains(asked, "reload hearth-worker") {
		t.Errorf("the upgrade asked %q, want the worker to take the new program over", asked)
	}
	m.sh(t, "grep -q 10.1.1.1 /etc/hearth/worker.hcl && test -e /var/lib/hearth-worker/identity")

	m.sh(t, "dpkg -r hearth")
	if asked := m.asked(t); !slices.Contains(asked, "disable --now hearth-worker hearth-master") {
		t.Errorf("the removal asked %q, want both units to be stopped", asked)
	}
	m.sh(t, "! test -e /usr/bin/hearth && grep -q 10.1.1.1 /etc/hearth/worker.hcl")
	m.sh(t, "dpkg -P hearth && ! test -e /etc/hearth/worker.hcl && test -e /var/lib/hearth-worker/identity")
}

func TestSystemdFindsNothingWrongWithTheInstalledUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	m := newMachine(t)
	m.put(t, built(t, "hearth_*_"+runtime.GOARCH+".deb"), "/hearth.deb")
	m.sh(t, "dpkg -i /hearth.deb")
	said := m.sh(t, "systemd-analyze verify --man=no /usr/lib/systemd/system/hearth-master.service /usr/lib/systemd/system/hearth-worker.service 2>&1 | grep hearth || true")
	if said != "" {
		t.Errorf("systemd-analyze verify:\n%s", said)
	}
}

func TestTheRpmHoldsWhatTheDebHolds(t *testing.T) {
	for _, tool := range []string{"rpm", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	rpm := strings.Split(strings.TrimSpace(command(t, "rpm", "-qpl", built(t, "hearth-*."+arch+".rpm"))), "\n")
	var deb []string
	for line := range strings.Lines(command(t, "dpkg-deb", "-c", built(t, "hearth_*_"+runtime.GOARCH+".deb"))) {
		path := strings.TrimPrefix(strings.Fields(line)[5], ".")
		own := path == "/etc/hearth/" || strings.HasPrefix(path, "/var/lib/hearth")
		if own || !strings.HasSuffix(path, "/") { // an rpm lists no directories of others
			// Debian calls the directory of zsh by another name.
			deb = append(deb, strings.ReplaceAll(strings.TrimSuffix(path, "/"), "vendor-completions", "site-functions"))
		}
	}
	slices.Sort(rpm)
	slices.Sort(deb)
	if diff := cmp.Diff(deb, rpm); diff != "" {
		t.Errorf("files of the deb (-) and of the rpm (+):\n%s", diff)
	}
}
