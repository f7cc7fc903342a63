package cli

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

func newBenchRun(s Streams) *cobra.Command {
	var f benchFlags
	var conf bench.RunConfig
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Shell tasks beside xargs and GNU parallel",
		Long: "Starts three masters and a worker, and measures hearth run of commands that do nothing in turns\n" +
			"with xargs -P and with GNU parallel, and plain starts of the shell beside them. A peer that is\n" +
			"missing fails the claim about it.",
		Example: "  hearth bench run\n  hearth bench run --pairs 3 --tasks 200 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			if conf.Pairs < 1 || conf.Tasks < 1 || conf.Jobs < 1 {
				return usage("--pairs, --tasks and --jobs: must be at least 1")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			conf.Exe, conf.Env, conf.Progress = self, s.Env, s.Err
			conf.Xargs, _ = exec.LookPath("xargs") // "" = missing
			conf.Parallel, _ = exec.LookPath("parallel")
			r, err := bench.Run(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench run: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&conf.Tasks, "tasks", 1000, "tasks of a run")
	fs.IntVar(&conf.Jobs, "jobs", 2, "tasks at once")
	f.bindRig(cmd, &conf.Rig)
	return cmd
}
