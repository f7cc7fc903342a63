package driver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/model"
)

func TestFunctionsAreCalledOnExecutors(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	ctx, cancel := context.WithCancel(context.Background())
	var joined sync.WaitGroup
	defer joined.Wait()
	defer cancel()
	r.cluster.place(0, 2)
	joined.Go(func() {
		err := executor.Run(ctx, executor.Config{
			App: testApp, DriverAddr: addr, Secret: secretOf(0), Cores: 2, Host: "h", WorkDir: t.TempDir(),
			Functions: map[string]executor.Function{
				"double": func(_ context.Context, arg []byte) ([]byte, error) { return append(arg, arg...), nil },
				"fail":   func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no luck") },
			},
		})
		if err != nil {
			t.Errorf("executor: %v", err)
		}
	})
	for range 3 {
		if _, err := r.Submit(ctx, Task{Function: "double", Argument: []byte("ab"), Tag: "abab"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if got := r.result(); got.Outcome != model.TaskDone || string(got.Value) != got.Tag {
			t.Errorf("result %+v", got)
		}
	}
	if _, err := r.Submit(ctx, Task{Function: "fail"}); err != nil {
		t.Fatal(err)
	}
	if got := r.result(); got.Outcome != model.TaskFailed || got.Error != "no luck" {
		t.Errorf("result %+v", got)
	}
}

func TestATaskIsEitherAProcessOrACall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		task Task
		err  error
		want string
	}{
		{Task{}, model.ErrInvalid, "neither a program nor a function"},
		{Task{Function: "f", Argv: []string{"x"}}, model.ErrInvalid, "a call has no program"},
		{Task{Argv: []string{"x"}, Argument: []byte("a")}, model.ErrInvalid, "an argument without a function"},
		{Task{Function: strings.Repeat("f", model.MaxFunctionName+1)}, model.ErrTooLarge, "257 bytes"},
		{Task{Function: "f\xff"}, model.ErrInvalid, "not UTF-8"},
		{Task{Function: "f", Argument: make([]byte, MaxArgument+1)}, model.ErrTooLarge, "4194305 bytes"},
		{Task{Function: "f", Timeout: -1}, model.ErrInvalid, "negative"},
		{Task{Function: "f", Argument: make([]byte, MaxArgument)}, nil, ""},
	} {
		err := tc.task.check()
		if !errors.Is(err, tc.err) || tc.err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.60v: error %v, want %v with %q", tc.task.Function, err, tc.err, tc.want)
		}
	}
}
