package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/internal/leaktest"
	"github.com/hearthd/hearth/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// runLine runs a command line in this process.
func runLine(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: []string{"HOME=/nonexistent"}})
	return code, out.String(), errs.String()
}

func TestErrorsBecomeTheExitCodesOfTheManual(t *testing.T) {
	_, _, confErr := config.LoadMaster("", []string{"HEARTH_CONFIG_NOTHING=1"}, nil)
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"whatever else fails", errors.New("broken"), 1},
		{"an unknown application", model.ErrNotFound, 1},
		{"an error of the configuration", confErr, 2},
		{"a value that the cluster finds invalid", model.ErrInvalid, 2},
		{"a description that is too large", model.ErrTooLarge, 2},
		{"no leader", model.ErrNoLeader, 3},
		{"a refusal", model.ErrRefused, 4},
		{"an unknown caller", model.ErrUnauthenticated, 4},
		{"another cluster", model.ErrForeignCluster, 4},
		{"a timeout", context.DeadlineExceeded, 124},
		{"an interrupt, whatever else is said", fmt.Errorf("%w: %w", model.ErrUnavailable, context.Canceled), 130},
		{"no master answers", fmt.Errorf("%w: %w", model.ErrUnavailable, context.DeadlineExceeded), 3},
		{"no leader within the timeout", fmt.Errorf("%w: %w", context.DeadlineExceeded, model.ErrNoLeader), 3},
		{"what the verb decided", exit(42), 42},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exitCode(fmt.Errorf("register application: %w", tc.err)); got != tc.want {
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
		})
	}
	if exit(0) != nil {
		t.Error("exit code 0 is an error")
	}
}

func TestAnEndedApplicationGivesTheCodeOfItsWork(t *testing.T) {
	for _, tc := range []struct {
		name string
		view model.AppView
		want int
	}{
		{"all succeeded", model.AppView{State: model.AppFinished}, 0},
		{"a copy failed", model.AppView{State: model.AppFailed, ExitCode: 7}, 7},
		{"a copy was ended by a signal", model.AppView{State: model.AppFailed, ExitCode: 137}, 137},
		{"the cluster is to blame", model.AppView{State: model.AppFailed}, 255},
		{"a user killed it", model.AppView{State: model.AppKilled, ExitCode: 143}, 130},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var errs bytes.Buffer
			got := 0
			if err := endedCode(&errs, tc.view); err != nil {
				got = exitCode(err)
			}
			if got != tc.want {
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
			if said := errs.Len() > 0; said != (tc.view.State != model.AppFinished) {
				t.Errorf("stderr is %q", errs.String())
			}
		})
	}
}

func TestFaultsOfTheClusterAreToldFromFailuresOfTheWork(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		wait bool
		err  error
		want int
	}{
		{"who waits gets 255", true, broken, 255},
		{"who does not wait gets 1", false, broken, 1},
		{"no leader stays 3", true, model.ErrNoLeader, 3},
	} {
		if got := exitCode(faultCode(tc.wait, tc.err)); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestAViewWithoutALeaderIsShownAndWarnedOf(t *testing.T) {
	var errs bytes.Buffer
	if err := leaderless(&errs, model.Staleness{Master: "m1", Leader: "m2"}); err != nil || errs.Len() > 0 {
		t.Errorf("with a leader: got error %v and %q", err, errs.String())
	}
	err := leaderless(&errs, model.Staleness{Master: "m1", LeaderlessFor: 1234, AppliedIndex: 7})
	if err == nil || exitCode(err) != exitNoLeader {
		t.Errorf("without a leader: got error %v, want exit code %d", err, exitNoLeader)
	}
	for _, want := range []string{"no leader since 1.2s", "m1", "index 7"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing in %q", want, errs.String())
		}
	}
}

func TestEachProblemIsALineOfItsOwn(t *testing.T) {
	code, stdout, stderr := runLine(t, "worker", "--cores", "x", "--memory", "y")
	if code != exitUsage || stdout != "" {
		t.Errorf("got exit code %d and output %q", code, stdout)
	}
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) != 3 {
		t.Errorf("got %d lines, want a head and two problems:\n%s", len(lines), stderr)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "hearth: ") {
			t.Errorf("line %q does not name the program", l)
		}
	}
}

// TestEveryVerbExplainsItself walks the tree as a reader of --help does.
func TestEveryVerbExplainsItself(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q: want one without a full stop", c.CommandPath(), c.Short)
		}
		if c.RunE == nil {
			t.Errorf("%s: does nothing", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" { // cobra's own
				walk(sub)
			}
		}
	}
	walk(newRoot(Streams{}))
}

func TestHelpIsNoError(t *testing.T) {
	for _, verb := range []string{"master", "worker", "demo", "run", "submit", "wait", "status", "apps", "app", "workers", "logs", "kill", "settings", "operator", "version", "keeper", "executor"} {
		code, stdout, stderr := runLine(t, verb, "--help")
		if code != exitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%s --help: got exit code %d, output %q, errors %q", verb, code, stdout, stderr)
		}
	}
}

func TestErrorsOfTheDemonstration(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"bad arguments", t.Context(), fmt.Errorf("x: %w", demo.ErrUsage), 2},
		{"a job that was too slow has failed", t.Context(), context.DeadlineExceeded, 1},
		{"interrupted", cancelled, context.Canceled, 130},
	} {
		if got := exitCode(demoError(tc.ctx, tc.err)); got != tc.want {
			t.Errorf("%s: got exit code %d, want %d", tc.name, got, tc.want)
		}
	}
	if err := demoError(cancelled, nil); err != nil {
		t.Errorf("success became %v", err)
	}
}
