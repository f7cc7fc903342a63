package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

// specOf is what submit makes of a command line.
func specOf(t *testing.T, env []string, args ...string) (model.AppSpec, error) {
	t.Helper()
	var f submitFlags
	cmd := &cobra.Command{Use: "submit"}
	f.bind(cmd)
	cmd.Flags().SetInterspersed(false)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.spec(cmd, Streams{Env: env}, cmd.Flags().Args())
}

func TestSubmitDescribesWhatWasAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := specOf(t, []string{"MINE=1", "OTHER=2"},
		"--name", "n", "--executor-cores", "2", "--max-cores", "8", "--memory", "1g", "--resource", "gpu=1",
		"--env", "MINE", "--env", "A=b", "--file", file+":in", "--completions", "5", "--restart", "never", "--max-runtime", "1s", "--disconnect", "singleton",
		"--", "prog", "--flag")
	if err != nil {
		t.Fatal(err)
	}
	want := model.AppSpec{
		Name: "n", User: userName(), Kind: model.AppKindCommand, CoresMax: 8, Executors: got.Executors,
		Profile:     model.Profile{Cores: 2, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}},
		Command:     model.Command{Argv: []string{"prog", "--flag"}, Env: []string{"MINE=1", "A=b"}},
		Files:       []model.File{{Name: "in", Mode: 0o600, Data: []byte("x")}},
		Completions: 5, Restart: model.RestartNever, MaxRuntimeMilli: 1000, Disconnect: model.DisconnectSingleton,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNumberOfCopiesFollowsFromTheFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"one by default", nil, 1},
		{"as many as asked for", []string{"--executors", "3"}, 3},
		{"all completions at a time", []string{"--completions", "5"}, 5},
		{"fewer than the completions", []string{"--completions", "5", "--executors", "2"}, 2},
		{"as many as the cores allow", []string{"--max-cores", "8"}, model.TargetUnlimited},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec, err := specOf(t, nil, append(tc.args, "--", "true")...)
			if err != nil {
				t.Fatal(err)
			}
			if spec.Executors != tc.want {
				t.Errorf("got %d, want %d", spec.Executors, tc.want)
			}
		})
	}
}

func TestAnUnknownDisconnectPolicyIsAUsageError(t *testing.T) {
	_, err := specOf(t, nil, "--disconnect", "twice", "--", "true")
	if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "singleton") {
		t.Errorf("got %v, want a usage error that names the policies", err)
	}
}
