//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Logs come through any master and -f ends with the executor.
func TestLogsComeThroughAStandbyAndFollowingEndsWithTheExecutor(t *testing.T) {
	c := newCluster(t, size{workers: 2, cores: 4})
	standby := c.standbys(t)[0]
	script := "echo first; echo complaint >&2; sleep 2; echo last"
	app := c.run(t, "submit", "--completions", "1", "--", "sh", "-c", script).wantCode(t, 0).app(t)
	ref := string(app) + "/0"
	eventually(t, settleWithin, "the first line is in the log", func() string {
		// The submission went through another master.
		r := c.via(t, standby, "logs", "--stdout", ref)
		if r.code != 0 || r.stdout != "first\n" {
			return fmt.Sprintf("code %d, %q, %q", r.code, r.stdout, r.stderr)
		}
		return ""
	})
	follow := c.via(t, standby, "logs", "-f", ref).wantCode(t, 0)
	t.Logf("following took %s", follow.took.Round(time.Millisecond))
	if follow.stdout != "first\nlast\n" || !strings.Contains(follow.stderr, "complaint") {
		t.Errorf("following gave stdout %q and stderr %q", follow.stdout, follow.stderr)
	}
	again := c.via(t, standby, "logs", ref).wantCode(t, 0)
	if again.stdout != "first\nlast\n" || !strings.Contains(again.stderr, "complaint") {
		t.Errorf("afterwards: stdout %q, stderr %q", again.stdout, again.stderr)
	}
	if r := c.via(t, standby, "logs", "--stdout", "--tail", "5", ref).wantCode(t, 0); r.stdout != "last\n" {
		t.Errorf("the last 5 bytes are %q", r.stdout)
	}
}

// Following goes on over a change of leader.
func TestFollowingALogSurvivesTheDeathOfTheLeader(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	app := c.run(t, "submit", "--completions", "1", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.5; done").wantCode(t, 0).app(t)
	follow := c.start(t, "logs", "-f", "--stdout", string(app)+"/0")
	c.leader(t).proc.kill9(t)
	r := follow.wait(t).wantCode(t, 0)
	if want := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"; r.stdout != want {
		t.Errorf("got %q, want %q", r.stdout, want)
	}
}

// A long log arrives whole.
func TestALongLogArrivesWhole(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	const lines = 400_000
	app := c.run(t, "submit", "--wait", "--completions", "1", "--", "seq", "400000").wantCode(t, 0).app(t)
	r := c.run(t, "logs", "--stdout", string(app)+"/0").wantCode(t, 0)
	if n := strings.Count(r.stdout, "\n"); n != lines || !strings.HasSuffix(r.stdout, "\n400000\n") || !strings.HasPrefix(r.stdout, "1\n2\n") {
		t.Errorf("%d lines, want %d", n, lines)
	}
	t.Logf("%d bytes in %s", len(r.stdout), r.took.Round(time.Millisecond))
}
