//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// Design 9: with --wait the exit code is that of the work.
func TestSubmitAndWaitExitWithTheCodeOfTheWork(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1, cores: 4})
	big := []string{"--cores", "64"}
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"success is 0", []string{"--wait", "--completions", "1", "--", "true"}, 0, ""},
		{"three completions are 0", []string{"--wait", "--completions", "3", "--", "true"}, 0, ""},
		{"a code is passed on", []string{"--wait", "--restart", "never", "--", "sh", "-c", "exit 3"}, 3, "exit"},
		{"a signal is 128 and its number", []string{"--wait", "--restart", "never", "--", "sh", "-c", "kill -9 $$"}, 137, "signal"},
		{"a command that is not there names itself", []string{"--wait", "--restart", "never", "--", "no-such-command-here"}, 1, "no-such-command-here"},
		{"a command that is no program names itself", []string{"--wait", "--restart", "never", "--", "/etc/passwd"}, 1, "/etc/passwd"},
		{"not placed in time is 124", append(append([]string{"--wait", "--timeout", "1s"}, big...), "--", "true"), 124, "app-"},
		{"not done in time is 124", []string{"--wait", "--timeout", "2s", "--", "sleep", "600"}, 124, "app-"},
		{"not placed in time is 124 without --wait too", append(append([]string{"--timeout", "1s"}, big...), "--", "true"), 124, "app-"},
		{"too long a run is 124", []string{"--wait", "--max-runtime", "2s", "--", "sleep", "600"}, 124, "long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.run(t, append([]string{"submit"}, tc.args...)...).wantCode(t, tc.code)
			if tc.stderr != "" {
				r.wantStderr(t, tc.stderr)
			}
			t.Logf("%s: %s", r.took.Round(time.Millisecond), strings.TrimSpace(r.stderr))
		})
	}
	t.Run("killed by a user is 130", func(t *testing.T) {
		waiting := c.start(t, "submit", "--wait", "--name", "to-kill", "--", "sleep", "600")
		var app model.AppID
		eventually(t, settleWithin, "the application runs", func() string {
			for _, a := range c.status(t).Apps {
				if a.Name == "to-kill" && a.Running > 0 {
					app = a.ID
					return ""
				}
			}
			return "it is not there"
		})
		c.run(t, "kill", string(app)).wantCode(t, 0)
		waiting.wait(t).wantCode(t, 130)
	})
}

// SC-02: a command that cannot run is not tried for ever.
func TestACommandThatAlwaysFailsIsLaunchedABoundedNumberOfTimes(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2, cores: 4})
	missing := c.run(t, "submit", "--detach", "--", "no-such-command-here").wantCode(t, 0).app(t)
	failing := c.run(t, "submit", "--detach", "--", "sh", "-c", "exit 7").wantCode(t, 0).app(t)
	var last string
	steady(t, 12*time.Second, "launches are bounded", func() string {
		for _, app := range []model.AppID{missing, failing} {
			v := c.describe(t, app)
			// Back-off of 1, 2, 4 … s allows five in this time.
			if n := len(v.Executors); n > 5 {
				return fmt.Sprintf("%s was launched %d times", app, n)
			}
			last += fmt.Sprintf("%s %s %d; ", app, v.State, len(v.Executors))
		}
		return ""
	})
	for app, part := range map[model.AppID]string{missing: "no-such-command-here", failing: "7"} {
		v := c.describe(t, app)
		t.Logf("%s: %s, %d launches, %d failures, reason %q", app, v.State, len(v.Executors), v.Failures, v.Reason)
		if len(v.Executors) < 2 {
			t.Errorf("%s was tried %d times, want more than once", app, len(v.Executors))
		}
		for _, e := range v.Executors {
			if e.Terminal && !strings.Contains(e.Reason, part) {
				t.Errorf("executor %d of %s has the reason %q, which does not name %q", e.ID, app, e.Reason, part)
			}
		}
	}
}

// Completions count clean exits exactly, also when some copies fail.
func TestCompletionsAreCountedExactly(t *testing.T) {
	c := newCluster(t, size{workers: 2, cores: 4})
	dir := t.TempDir()
	// Each copy leaves a file; the first copies fail.
	script := `n=$(ls ` + dir + ` | wc -l); touch ` + dir + `/$HEARTH_EXECUTOR_ID; [ $n -gt 1 ] || exit 1`
	r := c.run(t, "submit", "--wait", "--executors", "1", "--completions", "4", "-o", "json", "--", "sh", "-c", script).wantCode(t, 0)
	var v model.AppView
	r.decode(t, &v)
	if v.Completed != 4 || v.State != model.AppFinished {
		t.Errorf("%d completions, state %s, want 4 and FINISHED", v.Completed, v.State)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 {
		t.Errorf("%d copies ran, want 4 that succeeded and 2 that failed", len(files))
	}
}

// What a copy gets: files, environment and directory (design 8).
func TestACopyFindsItsFilesAndItsEnvironmentAndNoneOfOurs(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	file := filepath.Join(t.TempDir(), "given.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho from the file\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	app := c.run(t, "submit", "--wait", "--completions", "1", "--cores", "2", "--file", file+":run.sh", "--env", "COLOUR=blue", "--",
		"sh", "-c", "./run.sh; env").wantCode(t, 0).app(t)
	out := c.run(t, "logs", "--stdout", string(app)+"/0").wantCode(t, 0).stdout
	for _, want := range []string{"from the file", "COLOUR=blue", "HEARTH_APP_ID=" + string(app), "HEARTH_EXECUTOR_ID=0", "HEARTH_CORES=2", "HEARTH_WORKER_ID=" + c.workers[0].ID, "HEARTH_MEMORY_MIB=512"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// SC-05: a killed executor is replaced, a killed application is not.
func TestAKilledExecutorIsReplacedAndAKilledApplicationIsNot(t *testing.T) {
	c := newCluster(t, size{workers: 2, cores: 4})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	c.run(t, "kill", string(app)+"/0").wantCode(t, 0)
	took := eventually(t, settleWithin, "executor 2 runs in place of 0", func() string {
		now := pids(c.describe(t, app))
		if now[1] != before[1] || now[2] == 0 || now[0] != 0 {
			return fmt.Sprintf("%v, were %v", now, before)
		}
		return ""
	})
	t.Logf("the replacement had a process after %s", took.Round(time.Millisecond))
	c.run(t, "kill", string(app)+"/0").wantCode(t, 1).wantStderr(t, string(app)+"/0")
	c.run(t, "kill", string(app)).wantCode(t, 0)
	c.unused(t)
	c.run(t, "wait", string(app)).wantCode(t, 130)
	if v := c.describe(t, app); v.State != model.AppKilled || v.Reason == "" {
		t.Errorf("the application is %s with the reason %q", v.State, v.Reason)
	}
}
