package model_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestFitsIsTheOneRuleOfWhatFitsWhere(t *testing.T) {
	t.Parallel()
	free := model.Free{
		Cores: 4, MemoryMiB: 1024,
		Offered: model.Resources{"gpu": {"0", "1", "2"}}, Used: model.Resources{"gpu": {"1"}},
	}
	for _, tc := range []struct {
		name   string
		cores  int
		memory int64
		need   map[string]int
		want   bool
	}{
		{"exactly what is free fits", 4, 1024, map[string]int{"gpu": 2}, true},
		{"one core too many does not", 5, 1, nil, false},
		{"one MiB too many does not", 1, 1025, nil, false},
		{"one address too many does not", 1, 1, map[string]int{"gpu": 3}, false},
		{"an unknown resource does not", 1, 1, map[string]int{"fpga": 1}, false},
		{"no cores at all do not", 0, 1, nil, false},
	} {
		if got := model.Fits(free, tc.cores, tc.memory, tc.need); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
	got, ok := model.TakeAddresses(free, map[string]int{"gpu": 2})
	if diff := cmp.Diff(model.Resources{"gpu": {"0", "2"}}, got); !ok || diff != "" {
		t.Errorf("taken in order of the offer (-want +got):\n%s", diff)
	}
	if _, ok := model.TakeAddresses(free, map[string]int{"gpu": 3}); ok {
		t.Error("took more addresses than are free")
	}
}

func TestEveryFinalStateHasNoSuccessor(t *testing.T) {
	t.Parallel()
	for _, s := range model.ExecutorStates() {
		for _, next := range model.ExecutorStates() {
			if s.Terminal() && s.CanBecome(next) {
				t.Errorf("%s can become %s although it is final", s, next)
			}
		}
		if !s.Terminal() && !s.CanBecome(model.ExecutorLost) {
			t.Errorf("%s has no way out: it cannot become LOST", s)
		}
		if s.Live() && s.Terminal() {
			t.Errorf("%s is both live and final", s)
		}
	}
}

func TestIDsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	id := model.AppIDFor(1795993200000, 12345)
	if n, err := id.Number(); err != nil || n != 12345 {
		t.Errorf("number of %s: got %d, %v", id, n, err)
	}
	ref, err := model.ParseExecutorRef(string(id) + "/7")
	if want := (model.ExecutorRef{App: id, Executor: 7}); err != nil || ref != want {
		t.Errorf("got %+v, %v, want %+v", ref, err, want)
	}
	for _, bad := range []string{"", "app-1/2", string(id), string(id) + "/", string(id) + "/-1", string(id) + "/x", "worker-20261130061500-0001/0"} {
		if _, err := model.ParseExecutorRef(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got error %v, want one that names it", bad, err)
		}
	}
}

func TestAPeerOfAnotherClusterOrEpochIsRefused(t *testing.T) {
	t.Parallel()
	own := model.ClusterIdentity{ID: "a", Epoch: 2, EpochID: 7}
	for _, tc := range []struct {
		name string
		peer model.ClusterIdentity
		want error
	}{
		{"the same identity is accepted", own, nil},
		{"one without a cluster is accepted", model.ClusterIdentity{}, nil},
		{"a higher epoch is accepted", model.ClusterIdentity{ID: "a", Epoch: 3, EpochID: 1}, nil},
		{"another cluster is refused", model.ClusterIdentity{ID: "b", Epoch: 2, EpochID: 7}, model.ErrForeignCluster},
		{"a lower epoch is refused", model.ClusterIdentity{ID: "a", Epoch: 1, EpochID: 7}, model.ErrStaleEpoch},
		{"the same epoch with another id is refused", model.ClusterIdentity{ID: "a", Epoch: 2, EpochID: 8}, model.ErrStaleEpoch},
	} {
		if err := own.Accepts(tc.peer); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestADescriptionReportsAllItsProblemsAtOnce(t *testing.T) {
	t.Parallel()
	err := model.AppSpec{
		Kind: model.AppKindCommand, CoresMax: -1, Executors: 1, Restart: "sometimes",
		Profile: model.Profile{Cores: -2}, Command: model.Command{Env: []string{"=x"}, Dir: "rel"},
		Files: []model.File{{Name: "../up"}},
	}.Validate()
	if !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	for _, field := range []string{"name", "cores_max -1", "restart \"sometimes\"", "executor_cores -2", "executor_memory_mib 0", "\"=x\"", "\"rel\"", "\"../up\"", "command: must not be empty"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not mention %s:\n%v", field, err)
		}
	}
	big := model.AppSpec{
		Name: "big", Kind: model.AppKindCommand, Executors: 1, Restart: model.RestartNever,
		Profile: model.Profile{Cores: 1, MemoryMiB: 1}, Command: model.Command{Argv: []string{"true"}},
		Files: []model.File{{Name: "blob", Data: make([]byte, model.MaxSpecBytes+1)}},
	}
	if err := big.Validate(); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("got %v, want too large", err)
	}
}

func TestEveryRejectionHasASentinel(t *testing.T) {
	t.Parallel()
	for _, r := range model.Rejections() {
		err := r.Err("text")
		if errors.Unwrap(err) == nil || !strings.Contains(err.Error(), string(r)) {
			t.Errorf("%s: got %v, want an error that names it and wraps a sentinel", r, err)
		}
	}
	if model.RejectNone.Err("text") != nil {
		t.Error("no rejection is an error")
	}
}

func TestAFailureIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		e    model.Executor
		want string
	}{
		{model.Executor{ExitCode: 4}, "exit code 4"},
		{model.Executor{ExitCode: 4, Reason: "exit code 4"}, "exit code 4"},
		{model.Executor{ExitCode: 1, Reason: "out of luck"}, "exit code 1 (out of luck)"},
		{model.Executor{Signal: 9, Reason: "ended by signal 9 (SIGKILL)"}, "ended by signal 9 (SIGKILL)"},
		{model.Executor{Signal: 9, Reason: "killed by the kernel"}, "signal 9 (killed by the kernel)"},
		{model.Executor{Cause: model.CauseStart, ExitCode: -1, Reason: "could not be started: no such file"}, "could not be started: no such file"},
		{model.Executor{Cause: model.CauseStart, ExitCode: -1, Reason: "no such file"}, "it could not be started (no such file)"},
	} {
		if got := tc.e.Failure(); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.e, got, tc.want)
		}
	}
}
