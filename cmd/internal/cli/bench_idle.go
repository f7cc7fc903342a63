package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

func newBenchIdle(s Streams) *cobra.Command {
	var f benchFlags
	conf := bench.IdleConfig{Etcd: variable(s.Env, benchEtcdVariable)}
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "What masters cost while nothing happens",
		Long: "Starts three masters, pretends workers by sessions of its own, lets one application take every\n" +
			"core and others wait, and measures the processor time and memory of each master while nothing\n" +
			"changes. Processor time says something on a busy machine too, if less than on a quiet one.\n" +
			"If its binary is there, empty masters are also measured beside three idle members of etcd. A\n" +
			"peer that is missing fails the claims about it.\n\n" +
			"The peer is of a module of its own: `make bench-idle` builds it and runs this.",
		Example: "  hearth bench idle\n  hearth bench idle --workers 1000 --apps 10000 --slices 3 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			if conf.Workers < 1 || conf.Apps < 1 || conf.Slices < 1 || conf.Slice < time.Second {
				return usage("--workers, --apps and --slices: must be at least 1; --slice: at least 1s")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			conf.Exe, conf.Env, conf.Progress = self, s.Env, s.Err
			r, err := bench.Idle(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench idle: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&conf.Dir, "dir", "", "where data goes: a directory on a disk (default: that for temporary files)")
	fs.IntVar(&conf.Workers, "workers", 100, "pretended workers")
	fs.IntVar(&conf.Apps, "apps", 1000, "applications that wait")
	fs.IntVar(&conf.Slices, "slices", 6, "times to measure")
	fs.DurationVar(&conf.Slice, "slice", 10*time.Second, "how long each time")
	fs.StringVar(&conf.Etcd, "etcd", conf.Etcd, "binary of the peer etcd ($"+benchEtcdVariable+")")
	f.bind(cmd)
	return cmd
}
