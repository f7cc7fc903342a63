//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// With TLS and tokens required, a driver in cluster mode needs nothing of a person: it is let in as the attempt that it
// is, for as long as it is that. What it does is in the trail in the name of whoever submitted it.
func TestADriverOnASecureClusterIsLetInByItselfUntilItsAttemptIsOver(t *testing.T) {
	skipLong(t)
	t.Setenv(secureVariable, "1")
	pi := buildExample(t, "pi")
	c := newCluster(t, size{masters: 3, workers: 2, cores: 4})
	ann := c.person(t, model.RoleSubmitter, "ann")

	r := c.as(t, ann, "driver", "submit", "--wait", "--memory", "64m", "--artifact", "file://"+pi+"#name=pi", "--",
		"./pi", "--batches", "20", "--points", "10000", "--seed", "7").wantCode(t, 0)
	id := strings.TrimSpace(r.stdout)
	if out := c.run(t, "driver", "logs", "--stdout", id).wantCode(t, 0).stdout; !strings.Contains(out, "of 200000 points hit: pi is about 3.1") {
		t.Errorf("a program on the SDK wrote %q", out)
	}
	if v := c.driver(t, id); v.State != model.DriverFinished {
		t.Errorf("its driver is %s (%s)", v.State, v.Reason)
	}
	registered := ""
	for _, l := range c.trail(t, c.leader(t)) {
		if l.Action == "register app" && l.Credential == id+"/1" && l.Principal == "ann" {
			registered = l.Object
		}
	}
	if registered == "" {
		t.Error("the trail does not say that attempt 1 has registered an application for ann")
	}

	r = c.as(t, ann, "driver", "submit", "--supervise", "--memory", "64m", "--artifact", "file://"+hearthBinary+"#name=hearth", "--",
		"sh", "-c", "./hearth submit --detach --name own -- sleep 600; sleep 600").wantCode(t, 0)
	id = strings.TrimSpace(r.stdout)
	first := c.runs(t, id, 1)
	dir := driverFiles(t, first.PID)
	c.driverRan(t, id, 1)
	as := func(dir string, args ...string) result {
		return startHearth(t, []string{config.EnvMasters + "=" + c.masterList, config.EnvTLSDir + "=" + dir}, "", args...).wait(t)
	}
	as(dir, "status").wantCode(t, 0)
	if r := as(dir, "settings", "set", "default_cores=1").wantCode(t, refusedCode); !strings.Contains(r.stderr, "SetSettings is not for drivers in cluster mode") {
		t.Errorf("it may change settings: %q", r.stderr)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		if err := os.Chmod(filepath.Join(kept, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("kill", "-9", fmt.Sprint(first.PID)).Run(); err != nil {
		t.Fatal(err)
	}
	second := c.runs(t, id, 2)
	for _, args := range [][]string{{"apps"}, {"submit", "--detach", "--", "true"}} {
		if r := as(kept, args...).wantCode(t, refusedCode); !strings.Contains(r.stderr, "attempt 1 of driver "+id+" is over") {
			t.Errorf("%s by the first attempt, which is over: %q", args[0], r.stderr)
		}
	}
	as(driverFiles(t, second.PID), "apps").wantCode(t, 0)
	c.as(t, ann, "driver", "kill", id).wantCode(t, 0)
	c.run(t, "driver", "wait", id).wantCode(t, 130)
}

// driverRan waits until an attempt has registered what it was told to.
func (c *cluster) driverRan(t *testing.T, id string, apps int) {
	t.Helper()
	eventually(t, settleWithin, fmt.Sprintf("%d applications of %s", apps, id), func() string {
		if v := c.driver(t, id); len(v.Apps) != apps {
			return fmt.Sprintf("%s has %v (%s)", v.State, v.Apps, v.Reason)
		}
		return ""
	})
}

// driverFiles is the directory that a driver was given.
func driverFiles(t *testing.T, pid int) string {
	t.Helper()
	env, _ := belongings(t, pid, t.TempDir())
	for _, kv := range env {
		if dir, ok := strings.CutPrefix(kv, config.EnvTLSDir+"="); ok {
			return dir
		}
	}
	t.Fatalf("process %d has no %s", pid, config.EnvTLSDir)
	return ""
}
