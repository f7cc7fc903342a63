package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return out
}

func TestTasksRunOnExecutorsAndOutputKeepsItsOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 3)
	o := Options{
		Command: "echo {} $NAME $HERE; cat f; echo e{} >&2", Args: [][]string{numbers(40)}, KeepOrder: true,
		Env: []string{"NAME=va lue", "HERE"}, Environ: []string{"HERE=x", "OTHER=y"},
		Transfer: []string{writeFile(t, "f", "file\n")}, ResultsDir: filepath.Join(t.TempDir(), "results"), User: "ann",
	}
	r := runOn(t.Context(), t, c, o, nil)
	var out, errs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&out, "%d va lue x\nfile\n", i+1)
		fmt.Fprintf(&errs, "e%d\n", i+1)
	}
	if r.code != 0 || r.err != nil || r.stdout != out.String() || r.stderr != errs.String() {
		t.Errorf("code %d, %v, stdout %q, stderr %q", r.code, r.err, r.stdout, r.stderr)
	}
	r.sum.Elapsed = 0
	if diff := cmp.Diff(Summary{App: testApp, Tasks: 40, Succeeded: 40}, r.sum); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if f := c.finished(); f.State != model.AppFinished || f.ExitCode != 0 {
		t.Errorf("the cluster was told %+v", f)
	}
	if b, err := os.ReadFile(filepath.Join(o.ResultsDir, "40", "stdout")); err != nil || string(b) != "40 va lue x\nfile\n" {
		t.Errorf("saved %q (%v)", b, err)
	}
	if err := model.ValidDigest(c.spec.DriverCert); err != nil {
		t.Errorf("the certificate that executors are told of: %v", err)
	}
	c.spec.DriverAddr, c.spec.DriverCert = "", ""
	want := model.AppSpec{
		Name: "echo", User: "ann", Kind: model.AppKindDriver, Executors: model.TargetUnlimited,
		Profile: model.Profile{MemoryMiB: DefaultMemoryMiB},
	}
	if diff := cmp.Diff(want, c.spec); diff != "" {
		t.Errorf("application (-want +got):\n%s", diff)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFailedTasksAreCountedInTheExitCode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	var ends []TaskEnd
	r := runOn(t.Context(), t, c, Options{
		Command: "exit {}", Args: [][]string{{"0", "7", "0", "1"}}, Retries: 2, Cores: 2, Jobs: 2,
	}, func(d *Deps) { d.TaskEnded = func(e TaskEnd) { ends = append(ends, e) } })
	if r.code != 2 || r.err != nil || r.sum.Failed != 2 || r.sum.Succeeded != 2 || r.sum.Retried != 4 {
		t.Errorf("code %d, %v, summary %+v", r.code, r.err, r.sum)
	}
	for _, e := range ends {
		if tries := map[string]int{"0": 1, "7": 3, "1": 3}[e.Inputs[0]]; e.Tries != tries || strconv.Itoa(e.ExitCode) != e.Inputs[0] || e.Host != "h" {
			t.Errorf("end %+v, want %d tries", e, tries)
		}
	}
	if f := c.finished(); f.State != model.AppFailed || f.ExitCode != 2 || f.Reason != "2 of 4 tasks failed" {
		t.Errorf("the cluster was told %+v", f)
	}
	if c.spec.CoresMax != 4 || c.spec.Profile.Cores != 2 {
		t.Errorf("the application asks for %+v", c.spec)
	}
}

func TestAFailedTaskIsRunAgainUntilItSucceeds(t *testing.T) {
	t.Parallel()
	marks := t.TempDir()
	r := runOn(t.Context(), t, newCluster(t, 1), Options{
		Command: "echo try {}; mkdir " + marks + "/{} 2>/dev/null && exit 1; echo well >&2", Args: [][]string{{"a", "b"}}, Retries: 1, KeepOrder: true,
	}, nil)
	if r.code != 0 || r.stdout != "try a\ntry b\n" || r.stderr != "well\nwell\n" || r.sum.Retried != 2 {
		t.Errorf("code %d, summary %+v, stdout %q, stderr %q", r.code, r.sum, r.stdout, r.stderr)
	}
}

func TestTimeOutsAndSignalsAreFailuresAndAreTold(t *testing.T) {
	t.Parallel()
	// The inputs are quoted, so each is the name of a program: use eval.
	r := runOn(t.Context(), t, newCluster(t, 2), Options{
		Command: "eval {}", Args: [][]string{{"sleep 60", "kill -KILL $$"}}, KeepOrder: true, Timeout: time.Second,
	}, nil)
	if r.code != 2 || !strings.Contains(r.stderr, `task 1 ("sleep 60"): timed out after`) || !strings.Contains(r.stderr, "task 2") || !strings.Contains(r.stderr, "signal 9") {
		t.Errorf("code %d, stderr %q", r.code, r.stderr)
	}
}

func TestHaltNowKillsWhatRunsAndTakesTheFailingTasksCode(t *testing.T) {
	t.Parallel()
	halt, err := ParseHalt("now,fail=1")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 2)
	r := runOn(t.Context(), t, c, Options{
		Command: "test {} = 1 && sleep 600; test {} = 2 && exit 42; echo no", Args: [][]string{numbers(50)}, Jobs: 2, Halt: halt,
	}, nil)
	if r.code != 42 || r.sum.Failed != 1 || r.sum.Succeeded > 2 || r.sum.NotDone < 40 {
		t.Errorf("code %d, summary %+v, stdout %q", r.code, r.sum, r.stdout)
	}
	if f := c.finished(); f.ExitCode != 42 || f.State != model.AppFailed {
		t.Errorf("the cluster was told %+v", f)
	}
}

func TestHaltSoonLetsWhatRunsEnd(t *testing.T) {
	t.Parallel()
	halt, err := ParseHalt("soon,fail=1")
	if err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	ends := 0
	r := runOn(t.Context(), t, newCluster(t, 2), Options{
		Command: "if [ {} = 1 ]; then while [ ! -e " + gate + " ]; do sleep 0.02; done; echo ended; else exit 9; fi",
		Args:    [][]string{numbers(30)}, Jobs: 2, Halt: halt,
	}, func(d *Deps) {
		d.TaskEnded = func(TaskEnd) {
			if ends++; ends == 1 {
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if r.stdout != "ended\n" || r.sum.Succeeded != 1 || r.code != r.sum.Failed || r.sum.Failed > 3 || r.sum.NotDone < 20 {
		t.Errorf("code %d, summary %+v, stdout %q", r.code, r.sum, r.stdout)
	}
}

func TestLongOutputComesWhole(t *testing.T) {
	t.Parallel()
	const size = 3 * model.MaxTaskOutput
	r := runOn(t.Context(), t, newCluster(t, 2), Options{
		Command: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' {}; echo; echo e{} >&2", size), Args: [][]string{{"a", "b", "c"}}, KeepOrder: true,
	}, nil)
	var want strings.Builder
	for _, s := range []string{"a", "b", "c"} {
		want.WriteString(strings.Repeat(s, size) + "\n")
	}
	if r.code != 0 || r.stdout != want.String() || r.stderr != "ea\neb\nec\n" {
		t.Errorf("code %d, %d bytes of output, want %d; stderr %q", r.code, len(r.stdout), want.Len(), r.stderr)
	}
}

func TestALostExecutorsTasksRunAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 2)
	var reruns int
	ends := 0
	r := runOn(t.Context(), t, c, Options{Command: "echo {}; sleep 0.05", Args: [][]string{numbers(40)}, KeepOrder: true}, func(d *Deps) {
		d.TaskEnded = func(TaskEnd) {
			if ends++; ends == 8 {
				c.mu.Lock()
				c.kill[0]()
				c.mu.Unlock()
				c.launch(2)
			}
		}
		d.Observer = func(e driver.Event) {
			if e.Kind == driver.EventTaskRerun {
				reruns++
			}
		}
	})
	if want := strings.Join(numbers(40), "\n") + "\n"; r.code != 0 || r.stdout != want {
		t.Errorf("code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	if reruns == 0 || r.sum.Reruns != reruns {
		t.Errorf("%d reruns in the summary, %d seen, want some", r.sum.Reruns, reruns)
	}
}

func TestAnInterruptEndsTheApplicationCleanly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := runOn(ctx, t, c, Options{Command: "echo {}; test {} = 1 || sleep 600", Args: [][]string{numbers(20)}}, func(d *Deps) {
		d.TaskEnded = func(TaskEnd) { cancel() }
	})
	if r.code != CodeInterrupted || r.err != nil || r.stdout != "1\n" || r.sum.NotDone != r.sum.Tasks-1 {
		t.Errorf("code %d, %v, summary %+v, stdout %q", r.code, r.err, r.sum, r.stdout)
	}
	if f := c.finished(); f.State != model.AppFailed || f.Reason != "interrupted" || f.ExitCode != CodeInterrupted {
		t.Errorf("the cluster was told %+v", f)
	}
}

func TestASecondInterruptWaitsForNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	abort := make(chan struct{})
	began := time.Now()
	r := runOn(ctx, t, c, Options{Command: "test {} = 1 || { trap '' TERM; sleep 600 & wait; wait; }", Args: [][]string{{"1", "2"}}}, func(d *Deps) {
		d.Abort = abort
		d.TaskEnded = func(TaskEnd) {
			cancel()
			close(abort)
		}
	})
	if took := time.Since(began); r.code != CodeInterrupted || took > cancelGrace {
		t.Errorf("code %d after %s", r.code, took)
	}
}

func TestAnInterruptBeforeAnyMasterAnswersEndsAtOnce(t *testing.T) {
	t.Parallel()
	cl, err := client.New(client.Config{Masters: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, code, err := Run(ctx, Options{Command: "x", Args: [][]string{{"a", "b"}}}, Deps{Client: cl, Stdout: io.Discard, Stderr: io.Discard})
	if code != CodeInterrupted || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestAnApplicationKilledBySomebodyElseIsAFault(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	r := runOn(t.Context(), t, c, Options{Command: "test {} = 1 || sleep 600", Args: [][]string{{"1", "2"}}}, func(d *Deps) {
		d.TaskEnded = func(TaskEnd) { c.end(model.DriverEnded{State: model.AppKilled, Reason: "by bob"}) }
	})
	var ended *driver.AppEndedError
	if r.code != CodeFault || !errors.As(r.err, &ended) || ended.Reason != "by bob" {
		t.Errorf("code %d, %v", r.code, r.err)
	}
}

func TestWhatTheClusterFindsInvalidIsUsage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.refuse = fmt.Errorf("%w: queue \"none\"", model.ErrInvalid)
	r := runOn(t.Context(), t, c, Options{Command: "true", Args: [][]string{{"1"}}}, nil)
	if r.code != CodeUsage || r.err == nil || !strings.Contains(r.err.Error(), `queue "none"`) {
		t.Errorf("code %d, %v, want %d and the reason", r.code, r.err, CodeUsage)
	}
}

func TestInputsAreReadFromStandardInputAsTheyCome(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	go func() {
		for _, s := range []string{"a\n", "b c\n", "last"} {
			if _, err := io.WriteString(feed, s); err != nil {
				t.Error(err)
			}
		}
		feed.Close()
	}()
	r := runOn(t.Context(), t, newCluster(t, 1), Options{Command: "echo", KeepOrder: true}, func(d *Deps) { d.Stdin = in })
	if r.code != 0 || r.stdout != "a\nb c\nlast\n" {
		t.Errorf("code %d, %v, stdout %q", r.code, r.err, r.stdout)
	}
}

func TestABadInputInTheMiddleIsAUsageError(t *testing.T) {
	t.Parallel()
	r := runOn(t.Context(), t, newCluster(t, 1), Options{Command: "echo"}, func(d *Deps) { d.Stdin = strings.NewReader("a\nb\x00\nc\n") })
	if r.code != CodeUsage || !errors.Is(r.err, model.ErrInvalid) {
		t.Errorf("code %d, %v", r.code, r.err)
	}
}

func TestEachTaskGetsItsOwnFile(t *testing.T) {
	t.Parallel()
	here := writeFile(t, "here", "text\n")
	r := runOn(t.Context(), t, newCluster(t, 1), Options{
		Command: "cat {/}", Args: [][]string{{here, here + "-not"}}, Transfer: []string{"{}"},
	}, nil)
	if r.code != 1 || r.stdout != "text\n" || !strings.Contains(r.stderr, "could not be run") {
		t.Errorf("code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

func TestATerminalGetsABarAndTheOutputAboveIt(t *testing.T) {
	t.Parallel()
	r := runOn(t.Context(), t, newCluster(t, 1), Options{Command: "echo {}; echo e{} >&2", Args: [][]string{numbers(3)}, KeepOrder: true}, func(d *Deps) {
		d.IsTerminal = true
	})
	if r.code != 0 || r.stdout != "1\n2\n3\n" {
		t.Errorf("code %d, stdout %q", r.code, r.stdout)
	}
	for _, want := range []string{"e1\n", "e2\n", "e3\n", "/3"} {
		if !bytes.Contains([]byte(r.stderr), []byte(want)) {
			t.Errorf("stderr lacks %q: %q", want, r.stderr)
		}
	}
}

func TestOutputThatCannotBeWrittenEndsTheRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	r := runOn(t.Context(), t, c, Options{Command: "echo {}", Args: [][]string{numbers(100)}}, func(d *Deps) { d.Stdout = brokenPipe{} })
	if r.code != CodeFault || !errors.Is(r.err, io.ErrClosedPipe) || c.finished().State != model.AppFailed {
		t.Errorf("code %d, %v, the cluster was told %+v", r.code, r.err, c.finished())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
