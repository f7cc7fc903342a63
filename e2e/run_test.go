//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// The manner of GNU parallel.
func TestRunWorksInTheMannerOfGNUParallel(t *testing.T) {
	c := newCluster(t, size{workers: 2, cores: 4})
	dir := t.TempDir()
	inputs := filepath.Join(dir, "inputs")
	if err := os.WriteFile(inputs, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	carried := filepath.Join(dir, "carried.txt")
	if err := os.WriteFile(carried, []byte("carried\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		args  []string
		stdin string
		out   string
		code  int
	}{
		{"inputs of the command line in order", []string{"-k", "echo {}", ":::", "a", "b", "c"}, "", "a\nb\nc\n", 0},
		{"a command without braces gets the input appended", []string{"-k", "echo", ":::", "x y", "z'q"}, "", "x y\nz'q\n", 0},
		{"two sources are combined", []string{"-k", "echo {1}{2}", ":::", "a", "b", ":::", "1", "2"}, "", "a1\na2\nb1\nb2\n", 0},
		{"an argument file", []string{"-k", "-a", inputs, "echo {#}:{}"}, "", "1:one\n2:two\n3:three\n", 0},
		{"standard input", []string{"-k", "echo {}"}, "p\nq\n", "p\nq\n", 0},
		{"parts of paths", []string{"-k", "echo {.} {/} {//}", ":::", "/d/e.txt"}, "", "/d/e e.txt /d\n", 0},
		{"the code is the number of failed tasks", []string{"-k", "exit {}", ":::", "0", "1", "2", "3"}, "", "", 3},
		{"now,fail=1 is the code of the task", []string{"--halt", "now,fail=1", "exit {}", ":::", "7"}, "", "", 7},
		{"a retried task may succeed", []string{"--retries", "3", "n=$(ls " + dir + " | grep -c try); touch " + dir + "/try$n; [ $n -ge 2 ] && echo {}", ":::", "won"}, "", "won\n", 0},
		{"a task that takes too long fails", []string{"--timeout", "500ms", "sleep 60; : {}", ":::", "a"}, "", "", 1},
		{"files travel", []string{"--transfer", carried, "cat carried.txt; echo {}", ":::", "x"}, "", "carried\nx\n", 0},
		{"the environment is the caller's only where asked", []string{"--env", "GIVEN=yes", "--env", "PASSED", `echo "$GIVEN$PASSED$KEPT"; : {}`, ":::", "x"}, "", "yes-passed\n", 0},
		{"no input is no task", []string{"echo {}"}, "", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startHearth(t, c.env(c.masterList, "PASSED=-passed", "KEPT=-kept"), tc.stdin, append([]string{"run"}, tc.args...)...).wait(t).wantCode(t, tc.code)
			if r.stdout != tc.out {
				t.Errorf("stdout is %q, want %q; stderr %q", r.stdout, tc.out, r.stderr)
			}
			t.Logf("%s %s", r.took.Round(time.Millisecond), strings.TrimSpace(r.stderr))
		})
	}
	t.Run("results are saved", func(t *testing.T) {
		results := filepath.Join(dir, "results")
		c.run(t, "run", "--results", results, "echo out-{}; echo err-{} >&2; exit {}", ":::", "0", "4").wantCode(t, 1)
		for name, want := range map[string]string{"1/stdout": "out-0\n", "1/stderr": "err-0\n", "1/exit": "0", "2/stdout": "out-4\n", "2/exit": "4"} {
			got, err := os.ReadFile(filepath.Join(results, name))
			if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
				t.Errorf("%s holds %q, error %v, want %q", name, got, err, want)
			}
		}
	})
}

// Output beyond the limit of a result is fetched whole.
func TestRunDeliversLongOutputWhole(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	const size = 5 << 20
	r := c.run(t, "run", "-k", "yes {} | head -c "+strconv.Itoa(size), ":::", "abcdefg", "hijklmn").wantCode(t, 0)
	want := strings.Repeat("abcdefg\n", size/8) + strings.Repeat("hijklmn\n", size/8)
	if r.stdout != want {
		t.Errorf("%d bytes came, want %d, or they differ", len(r.stdout), len(want))
	}
	t.Logf("%d bytes in %s", len(r.stdout), r.took.Round(time.Millisecond))
}

// An interrupt ends the application before the command ends.
func TestAnInterruptedRunEndsItsApplication(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	cmd := c.start(t, "run", "--name", "interrupted", "sleep 600", ":::", "1", "2", "3", "4", "5", "6")
	var app model.AppID
	eventually(t, settleWithin, "four tasks run", func() string {
		n := 0
		for _, p := range scan(c.markers) {
			if strings.HasPrefix(p.cmdline, "sleep") {
				n++
				app = model.AppID(p.app)
			}
		}
		if n < 4 {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	if err := cmd.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	interrupted := time.Now()
	r := cmd.wait(t)
	t.Logf("it ended %s after the interrupt with code %d: %s", time.Since(interrupted).Round(time.Millisecond), r.code, r.stderr)
	if r.code != 130 {
		t.Errorf("exit code %d, want 130", r.code)
	}
	if v := c.describe(t, app); !v.Terminal {
		t.Errorf("the application is %s", v.State)
	}
	c.unused(t)
}

// A worker and the leader die in the middle: each task has exactly one result.
func TestRunGetsEachResultOnceWhenAWorkerAndTheLeaderDie(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 3, cores: 4})
	const tasks = 500
	results := filepath.Join(t.TempDir(), "results")
	cmd := startHearth(t, c.env(c.masterList), numbers(tasks), "run", "--results", results, "sleep 0.1; echo {}")
	done := func() int {
		dirs, _ := filepath.Glob(filepath.Join(results, "*", "exit")) // the pattern is valid
		return len(dirs)
	}
	await := func(n int) {
		eventually(t, commandTimeout, fmt.Sprintf("%d results", n), func() string {
			if have := done(); have < n {
				return fmt.Sprintf("%d", have)
			}
			return ""
		})
	}
	await(tasks / 5)
	c.workers[0].proc.kill9(t)
	await(tasks * 2 / 5)
	c.leader(t).proc.kill9(t)
	r := cmd.wait(t).wantCode(t, 0)
	lines := strings.Fields(r.stdout)
	slices.SortFunc(lines, func(a, b string) int { return len(a)*tasks - len(b)*tasks + strings.Compare(a, b) })
	if got, want := strings.Join(lines, "\n")+"\n", numbers(tasks); got != want {
		t.Errorf("%d results, want each of %d once", len(lines), tasks)
	}
	t.Logf("%d tasks in %s: %s", tasks, r.took.Round(time.Millisecond), r.stderr)
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}
