package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

func newBenchTasks(s Streams) *cobra.Command {
	var f benchFlags
	var conf bench.TasksConfig
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Tasks from a driver to executors and back, beside a plain gRPC stream",
		Long: "Starts three masters and two workers, is the driver of two applications of two executors, and\n" +
			"measures in turns with a plain gRPC stream that echoes the same 256 bytes: tasks that do nothing,\n" +
			"one in a message and many in a message, 4,096 on the way at once; and one task at a time.",
		Example: "  hearth bench tasks\n  hearth bench tasks --pairs 3 --tasks 200000 -o json\n  hearth bench tasks --profile driver.pprof && go tool pprof -top driver.pprof",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			if conf.Pairs < 1 || conf.Tasks < 1 || conf.Single < 1 {
				return usage("--pairs, --tasks and --single: must be at least 1")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			conf.Exe, conf.Env, conf.Progress = self, s.Env, s.Err
			r, err := bench.Tasks(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench tasks: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&conf.Profile, "profile", "", "write a CPU profile of the driver to this file")
	fs.IntVar(&conf.Tasks, "tasks", 1_000_000, "tasks of a run")
	fs.IntVar(&conf.Single, "single", 5000, "tasks of a run with one at a time")
	f.bindRig(cmd, &conf.Rig)
	return cmd
}

// newBenchEcho is the other process of the gRPC stream.
func newBenchEcho(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "echo",
		Short:  "Send back what comes over a gRPC stream",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ServeEcho(cmd.Context(), s.In, s.Out)
		},
	}
}
