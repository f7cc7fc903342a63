package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

func TestWithoutAWorkerItsCommandsSayWhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, verb := range []string{"status", "restart", "stop", "rejoin"} {
		code, stdout, stderr := runLine(t, "worker", verb, "--data-dir", dir)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, dir) && !strings.Contains(stderr, "no worker has ever run") {
			t.Errorf("%s: exit code %d, output %q, errors %q", verb, code, stdout, stderr)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s has made the directory: %v", verb, err)
		}
	}
}

func TestWrongUseOfTheWorkersCommandsIsAUsageError(t *testing.T) {
	for _, args := range [][]string{
		{"restart", "--window", "1s"},
		{"restart", "--window", "1h"},
		{"restart", "now"},
		{"stop", "--window", "30s"},
		{"stop", "--force"},
		{"status", "-o", "xml"},
		{"rejoin", "please"},
		{"frobnicate"},
	} {
		if code, _, stderr := runLine(t, append([]string{"worker"}, args...)...); code != exitUsage || stderr == "" {
			t.Errorf("%q: exit code %d, errors %q", args, code, stderr)
		}
	}
}

func TestRejoinAsksBeforeItChangesAnything(t *testing.T) {
	var errs bytes.Buffer
	s := Streams{In: strings.NewReader("y\n"), Err: &errs}
	if err := confirmRejoin(s, false, "own", "theirs", 3); exitCode(err) != exitUsage {
		t.Errorf("without a terminal: %v, want a usage error", err)
	}
	for _, want := range []string{"own", "theirs", "3 executors"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q does not name %q", errs.String(), want)
		}
	}
	if err := confirmRejoin(s, true, "own", "theirs", 0); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

func TestAWorkerWithoutASessionIsExitCode3(t *testing.T) {
	var errs bytes.Buffer
	if err := sessionless(&errs, workerd.Status{Leader: "m1"}); err != nil || errs.Len() > 0 {
		t.Errorf("with a session: %v, %q", err, errs.String())
	}
	for _, v := range []workerd.Status{{}, {Cluster: "a", ForeignCluster: "b"}} {
		if err := sessionless(&errs, v); exitCode(err) != exitNoLeader {
			t.Errorf("%+v: %v, want exit code 3", v, err)
		}
	}
	if !strings.Contains(errs.String(), "rejoin") {
		t.Errorf("%q does not name the way out", errs.String())
	}
}

func TestAWorkersTableNamesItsProcesses(t *testing.T) {
	var out bytes.Buffer
	v := workerd.Status{
		Worker: "worker-1", Cluster: "c", Leader: "m:1", Heritage: workerd.Heritage{Adopted: 2, Ended: 1},
		Executors: []workerd.StatusExecutor{{ID: "app/0", State: model.ExecutorRunning, PID: 4711}},
	}
	if err := workerStatusTable(&out, v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"worker-1", "m:1", "2 executors adopted, 1 had ended", "app/0", "4711"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestASuccessorThatDoesNotRunIsFoundBefore(t *testing.T) {
	s, err := newSuccessor("no-such-program")
	if err != nil {
		t.Fatal(err)
	}
	if self, err := os.Executable(); err != nil || s.path != self {
		t.Errorf("successor %q of a program started by another name, want %q, %v", s.path, self, err)
	}
	broken := filepath.Join(t.TempDir(), "hearth")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho cannot >&2\nexit 3\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	fine := func() error { return nil }
	for path, want := range map[string]string{broken: "cannot", broken + "-missing": "no such file"} {
		if err := (successor{path}).check(context.Background(), fine); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
	if err := (successor{"/bin/true"}).check(t.Context(), fine); err != nil {
		t.Errorf("a program that runs: %v", err)
	}
	wrong := errors.New("bad settings")
	if err := (successor{"/bin/true"}).check(t.Context(), func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("with bad settings: %v", err)
	}
}
