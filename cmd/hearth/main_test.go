package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/hearthd/hearth/demo"
)

// leakChecked is the tests of this package with a look for goroutines after.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		return 1
	}
	return code
}

// TestMain lets the test binary be the program, so that its exit codes, its
// signals and the processes it starts are real.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"hearth": main})
}

func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Whatever a script that failed has left running.
			env.Defer(func() {
				if err := demo.Stop(context.Background(), filepath.Join(env.WorkDir, "kept")); err != nil && !errors.Is(err, demo.ErrUsage) {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"ready":   ready,
			"appears": appears,
			"capture": capture,
		},
	})
}

// exits runs a program that must end with a code: exits 2 hearth status --bad.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

// patience bounds the waits of the scripts for other processes.
const patience = 30 * time.Second

// await polls until ok, and fails the script with what it waited for.
func await(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// ready waits for a daemon and puts its address into a variable: ready
// DIR/ready.json VARIABLE.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ready FILE VARIABLE")
	}
	var where struct {
		GRPC string `json:"grpc"`
	}
	await(ts, args[0], func() bool {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		ts.Check(err)
		ts.Check(json.Unmarshal(data, &where))
		return true
	})
	ts.Setenv(args[1], where.GRPC)
}

// appears repeats a command until it succeeds and prints a text: appears TEXT
// PROGRAM [ARG...].
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: appears TEXT PROGRAM [ARG...]")
	}
	await(ts, args[0]+" from "+args[1], func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0])
	})
}

// capture puts what matches in the last output into a variable: capture
// VARIABLE REGEXP.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture VARIABLE REGEXP")
	}
	match := regexp.MustCompile(args[1]).FindString(ts.ReadFile("stdout"))
	if match == "" {
		ts.Fatalf("no match for %s in the output", args[1])
	}
	ts.Setenv(args[0], match)
}
