package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

func textOutput(out, err string) *taskOutput {
	return &taskOutput{stdout: body{data: []byte(out)}, stderr: body{data: []byte(err)}}
}

func TestOutputKeepsTheOrderOfInputsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		var out, errs bytes.Buffer
		p := newPrinter(&out, &errs, keep)
		for _, step := range []struct {
			seq int
			o   *taskOutput
		}{{3, textOutput("c\n", "C\n")}, {1, textOutput("a\n", "")}, {2, nil}, {4, textOutput("d\n", "")}} {
			if err := p.add(step.seq, step.o); err != nil {
				t.Fatal(err)
			}
		}
		want := "c\na\nd\n"
		if keep {
			want = "a\nc\nd\n"
		}
		if out.String() != want || errs.String() != "C\n" || p.bytes != 0 {
			t.Errorf("keep %v: stdout %q, stderr %q, %d bytes held; want %q", keep, out.String(), errs.String(), p.bytes, want)
		}
	}
}

func TestOutputThatWaitsTooLongGoesToFiles(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	p := newPrinter(&out, &errs, true)
	big := strings.Repeat("x", maxHeldBytes)
	if err := p.add(3, textOutput(big, "")); err != nil {
		t.Fatal(err)
	}
	if err := p.add(2, textOutput("two", "TWO")); err != nil {
		t.Fatal(err)
	}
	if o := p.held[2]; o.stdout.file == nil || o.stderr.file == nil || p.bytes != maxHeldBytes {
		t.Fatalf("held in memory: %d bytes, %+v", p.bytes, o)
	}
	if err := p.add(1, textOutput("one", "")); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "onetwo"+big || errs.String() != "TWO" {
		t.Errorf("output of %d bytes begins with %.10q; stderr %q", len(got), got, errs.String())
	}
}

func TestResultsAreSaved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	f, err := tempFile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("long"); err != nil {
		t.Fatal(err)
	}
	o := &taskOutput{stdout: bodyOf([]byte("lo"), f), stderr: body{data: []byte("e")}}
	defer o.close()
	if err := o.save(dir, 12, 3); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"stdout", "stderr", "exit"} {
		b, err := os.ReadFile(filepath.Join(dir, "12", name))
		if err != nil {
			t.Error(err)
		}
		got[name] = string(b)
	}
	if diff := cmp.Diff(map[string]string{"stdout": "long", "stderr": "e", "exit": "3\n"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	if err := o.stdout.copyTo(&out); err != nil || out.String() != "long" {
		t.Errorf("afterwards it is still there to print: %q (%v)", out.String(), err)
	}
}

func TestLinesAboveABarAreWhole(t *testing.T) {
	t.Parallel()
	var got []string
	w := &lineWriter{w: writerFunc(func(b []byte) { got = append(got, string(b)) })}
	p := newPrinter(w, w, false)
	if err := p.add(1, textOutput("a\nb", "c")); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"d", "e\nf", "\n"} {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a\n", "b\n", "c\n", "de\n", "f\n"}, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		res  driver.Result
		code int
		text string
	}{
		"success":             {driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskDone}}, 0, ""},
		"failure says enough": {driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskDone, ExitCode: 3}}, 3, ""},
		"a signal":            {driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskDone, ExitCode: -1, Signal: 11}}, 139, "signal 11"},
		"a time-out":          {driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskTimedOut, Signal: 15, RuntimeMicro: 2e6}}, 124, "after 2s"},
		"not run":             {driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskNotRun, ExitCode: -1, Error: "no disk"}}, 126, "could not be run: no disk"},
		"success without all of its output": {
			driver.Result{TaskResult: model.TaskResult{Outcome: model.TaskDone}, OutputErr: errors.New("disk full")}, 126, "not complete: disk full",
		},
	} {
		code, text := verdict(&c.res)
		if code != c.code || !strings.Contains(text, c.text) || c.text == "" && text != "" {
			t.Errorf("%s: %d %q, want %d %q", name, code, text, c.code, c.text)
		}
	}
}
