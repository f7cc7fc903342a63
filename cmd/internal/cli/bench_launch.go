package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

// benchNoopVariable is the path of the executor of bench launch.
const benchNoopVariable = "HEARTH_BENCH_NOOP"

func newBenchLaunch(s Streams) *cobra.Command {
	var f benchFlags
	conf := bench.LaunchConfig{Noop: variable(s.Env, benchNoopVariable)}
	cmd := &cobra.Command{
		Use:   "launch",
		Short: "Starts of executors beside plain starts of processes",
		Long: "Starts three masters and two workers, and an application of many executors, which are\n" +
			"processes of a static binary that does nothing but register with its driver. Measured is\n" +
			"how many register in a second, beside starts of the same binary from Go in the same run,\n" +
			"and how long one takes from the submission on.\n\n" +
			"The binary is a module of its own: `make bench-launch` builds it and runs this.",
		Example: "  make bench-launch\n  hearth bench launch --noop ./noop --dir /var/tmp --pairs 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			switch {
			case conf.Noop == "":
				return usage("--noop: must name the executor's binary; `make bench-launch` builds it")
			case conf.Pairs < 1 || conf.Executors < 1 || conf.Single < 1:
				return usage("--pairs, --executors and --single: must be at least 1")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			conf.Exe, conf.Env, conf.Progress = self, s.Env, s.Err
			r, err := bench.Launch(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench launch: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&conf.Noop, "noop", conf.Noop, "binary of the executor ($"+benchNoopVariable+")")
	fs.IntVar(&conf.Executors, "executors", 500, "executors of one run")
	fs.IntVar(&conf.Single, "single", 50, "applications of one executor, for latency")
	f.bindRig(cmd, &conf.Rig)
	return cmd
}
