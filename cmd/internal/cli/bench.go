package cli

import (
	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

// newBench is the parent of the benchmark commands, one file each.
func newBench(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Hearth beside this machine's limits and beside peers",
		Long: "Each benchmark starts what it measures, with ordinary settings and every sync, on a real\n" +
			"file system, in turns with its peer where there is one, and takes it down again. What the\n" +
			"machine itself can do is measured by probes in the same run. Ratios count; absolute times\n" +
			"say something about this machine only, and nothing on a busy one.",
		Args: cobra.NoArgs,
	}
	for _, sub := range benchCommands(s) {
		cmd.AddCommand(sub)
	}
	return cmd
}

// benchCommands are the verbs below hearth bench.
func benchCommands(s Streams) []*cobra.Command {
	return []*cobra.Command{newBenchDecide(s), newBenchIdle(s), newBenchPlace(s), newBenchLaunch(s), newBenchTasks(s), newBenchEcho(s), newBenchRun(s)}
}

// benchFlags are those of every benchmark.
type benchFlags struct {
	out   output
	check bool
}

func (f *benchFlags) bind(cmd *cobra.Command) {
	f.out.bind(cmd)
	cmd.Flags().BoolVar(&f.check, "check", false, "exit with 1 if a claim is not met")
}

// bindRig adds the flags of a benchmark that starts processes.
func (f *benchFlags) bindRig(cmd *cobra.Command, rig *bench.Rig) {
	f.bind(cmd)
	cmd.Flags().StringVar(&rig.Dir, "dir", "", "where data goes: a directory on a disk (default: that for temporary files)")
	cmd.Flags().IntVar(&rig.Pairs, "pairs", 7, "pairs of runs")
}

// print writes the report, and fails if that was asked for and a claim is not
// met.
func (f *benchFlags) print(s Streams, r *bench.Report) error {
	if err := f.out.print(s.Out, r, r.WriteTable); err != nil {
		return err
	}
	if f.check && !r.Met() {
		return exit(exitFailed)
	}
	return nil
}
