//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hearthd/hearth/model"
)

// TestTranscriptsSayWhatTheCommandsPrint runs each transcript against a cluster
// of its own: real processes, three masters and one worker. A transcript is a
// script with the expected output at its end (testscript); what differs from
// run to run has a name in capitals, see masked. UPDATE=1 writes the output
// that there was into the transcript, for review.
//
// Besides those of testscript there are the commands
//
//	hearth ARGS         the binary; the masters are in its environment
//	standby ARGS        the same, knowing one standby only
//	await APP STATE N   until the application is in the state with N executors running
//	kill-leader         kill -9, until another master leads and the dead one is known
//	await-worker STATE  until the worker is in the state
//
// and the variables $APP (what the last hearth printed, if that is an id) and
// $WORKER_DIR (of the worker).
func TestTranscriptsSayWhatTheCommandsPrint(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "transcripts", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			c := newCluster(t, size{workers: 1})
			s := &transcript{c: c, mask: newMask(t)}
			// The script is a parallel subtest: it runs once this function has
			// returned, and before the clean-up of the cluster.
			testscript.Run(t, testscript.Params{
				Files:         []string{file},
				UpdateScripts: os.Getenv("UPDATE") != "",
				Setup: func(env *testscript.Env) error {
					env.Setenv("WORKER_DIR", c.dataDir(c.workers[0]))
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"hearth": s.hearth, "standby": s.standby, "await": s.await,
					"kill-leader": s.killLeader, "await-worker": s.awaitWorker,
				},
			})
		})
	}
}

// transcript is one run of a script.
type transcript struct {
	c    *cluster
	mask []masking
}

// scriptTB lets the harness fail a script.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (t scriptTB) Helper()                           {}
func (t scriptTB) Logf(format string, args ...any)   { t.ts.Logf(format, args...) }
func (t scriptTB) Errorf(format string, args ...any) { t.ts.Fatalf(format, args...) }
func (t scriptTB) Fatalf(format string, args ...any) { t.ts.Fatalf(format, args...) }
func (t scriptTB) Error(args ...any)                 { t.ts.Fatalf("%s", fmt.Sprintln(args...)) }
func (t scriptTB) Fatal(args ...any)                 { t.ts.Fatalf("%s", fmt.Sprintln(args...)) }

func (s *transcript) hearth(ts *testscript.TestScript, neg bool, args []string) {
	s.finish(ts, neg, s.c.run(scriptTB{ts: ts}, args...))
}

func (s *transcript) standby(ts *testscript.TestScript, neg bool, args []string) {
	t := scriptTB{ts: ts}
	s.finish(ts, neg, s.c.via(t, s.c.standbys(t)[0], args...))
}

var onlyID = regexp.MustCompile(`^app-\d{14}-\d{4}\n$`)

func (s *transcript) finish(ts *testscript.TestScript, neg bool, r result) {
	if onlyID.MatchString(r.stdout) {
		ts.Setenv("APP", strings.TrimSpace(r.stdout))
	}
	fmt.Fprint(ts.Stdout(), masked(s.mask, r.stdout))
	fmt.Fprint(ts.Stderr(), masked(s.mask, r.stderr))
	if neg {
		fmt.Fprintf(ts.Stderr(), "exit code %d\n", r.code)
	}
	if (r.code != 0) != neg {
		ts.Fatalf("exit code %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func (s *transcript) await(ts *testscript.TestScript, _ bool, args []string) {
	count := -1
	if len(args) == 3 {
		count, _ = strconv.Atoi(args[2]) // checked below
	}
	if count < 0 {
		ts.Fatalf("usage: await APP STATE RUNNING")
	}
	t := scriptTB{ts: ts}
	eventually(t, settleWithin, strings.Join(args, " "), func() string {
		v := s.c.describe(t, model.AppID(args[0]))
		if string(v.State) != args[1] || len(running(v)) != count || count == 0 && len(live(v)) > 0 {
			return fmt.Sprintf("it is %s with %d executors running, %d live", v.State, len(running(v)), len(live(v)))
		}
		return ""
	})
}

func (s *transcript) killLeader(ts *testscript.TestScript, _ bool, _ []string) {
	t := scriptTB{ts: ts}
	old := s.c.leader(t)
	old.proc.kill9(t)
	eventually(t, leaderWithin, "another master leads and knows of the death", func() string {
		for _, m := range s.c.status(t).Masters {
			if string(m.ID) == old.ID && m.Alive {
				return "the dead one is called alive"
			}
		}
		if now := s.c.leader(t); now == old {
			return "the dead one is called leader"
		}
		return ""
	})
}

func (s *transcript) awaitWorker(ts *testscript.TestScript, _ bool, args []string) {
	t := scriptTB{ts: ts}
	eventually(t, settleWithin, "the worker is "+args[0], func() string {
		w, ok := worker(s.c.status(t), s.c.workers[0].ID)
		if !ok || string(w.State) != args[0] {
			return fmt.Sprintf("it is %s", w.State)
		}
		return ""
	})
}

// masking replaces what differs from run to run.
type masking struct {
	pattern *regexp.Regexp
	by      string
}

func newMask(t *testing.T) []masking {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	var out []masking
	for _, m := range [][2]string{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`\bapp-\d{14}-`, "app-TIME-"},
		{`\bworker-\d{14}-[0-9a-f]+\b`, "WORKER"},
		{`\bmaster-[0-9a-f]{12}\b`, "MASTER"},
		{`\bhearth-[0-9a-f]{16}\b`, "CLUSTER"},
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`(/[^\s,:"]*)*/worker-1\b`, "WORKER_DIR"},
		{`\b(index|term|lag) \d+`, "$1 N"},
		{`(?m)^access: .*$`, "access: HOW"},                            // the same commands run with everything on and off
		{`\b(true|false)(\s+)(true|false)(\s+)(\d+|-)`, "$1$2$3${4}N"}, // VOTER, ALIVE, LAST INDEX
		{`(WORKER\s+\d+\s+)\d+\b`, "${1}PID"},
		{`\b\d+(\.\d+)?(µs|ms|s)\b`, "DURATION"},
		{`(?m)\b` + regexp.QuoteMeta(host) + `\b`, "HOST"},
		{`\b` + regexp.QuoteMeta(who.Username) + `\b`, "USER"},
		{` {2,}`, "  "}, // columns are as wide as what was replaced
		{`(?m) +$`, ""},
	} {
		out = append(out, masking{regexp.MustCompile(m[0]), m[1]})
	}
	return out
}

// masked replaces what differs, and sorts lines about masters that follow each
// other: their order is that of random ids.
func masked(mask []masking, text string) string {
	for _, m := range mask {
		text = m.pattern.ReplaceAllString(text, m.by)
	}
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		j := i
		for j < len(lines) && strings.HasPrefix(lines[j], "MASTER  ") && !strings.Contains(lines[j], "ROLE") {
			j++
		}
		slices.Sort(lines[i:j])
		i = max(i, j-1)
	}
	return strings.Join(lines, "")
}

func TestWhatDiffersBetweenTranscriptsIsMasked(t *testing.T) {
	in := "MASTER               ROLE\nmaster-86357917056b  standby  true   true   8  127.0.0.1:43977\n" +
		"master-269b0a1600d7  leader   true   true   8  127.0.0.1:1\nended 2026-11-30T11:54:09.629Z after " +
		(1500 * time.Millisecond).String() + "\n"
	want := "MASTER  ROLE\nMASTER  leader  true  true  N  ADDRESS\nMASTER  standby  true  true  N  ADDRESS\nended TIME after DURATION\n"
	if got := masked(newMask(t), in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
