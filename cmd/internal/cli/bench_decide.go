package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench/decide"
)

func newBenchDecide(s Streams) *cobra.Command {
	var f benchFlags
	var conf decide.Config
	cmd := &cobra.Command{
		Use:   "decide",
		Short: "Placement decisions beside a full scan of all workers",
		Long: "Decides placements in this process on 100 to 50,000 pretended workers, in turns with a full\n" +
			"scan that decides the same, and fails if they ever differ. Nothing is started, sent or\n" +
			"written: it measures the scheduler alone.",
		Example: "  hearth bench decide\n  hearth bench decide --pairs 3 --turns 50000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			if conf.Pairs < 1 || conf.Turns < 1 {
				return usage("--pairs and --turns: must be at least 1")
			}
			r, err := decide.Run(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench decide: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&conf.Pairs, "pairs", 9, "pairs of runs")
	fs.IntVar(&conf.Turns, "turns", 200_000, "decisions of a run")
	f.bind(cmd)
	return cmd
}
