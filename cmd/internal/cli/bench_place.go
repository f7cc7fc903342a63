package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
)

// Environment of the benchmarks: peers that are built beside us.
const (
	benchEtcdVariable    = "HEARTH_BENCH_ETCD"
	benchMemRaftVariable = "HEARTH_BENCH_MEMRAFT"
)

func newBenchPlace(s Streams) *cobra.Command {
	var f benchFlags
	conf := bench.PlaceConfig{Etcd: variable(s.Env, benchEtcdVariable), MemRaft: variable(s.Env, benchMemRaftVariable)}
	cmd := &cobra.Command{
		Use:   "place",
		Short: "Durable placements beside etcd",
		Long: "Starts three masters and, if its binary is there, three members of embedded etcd, and measures\n" +
			"in turns: one application of one executor at a time; 1,024 submissions in flight, each of one\n" +
			"executor; 64 applications of 64 executors. Workers are pretended by sessions of the\n" +
			"benchmark: no process is started. A peer that is missing fails the claims about it.\n\n" +
			"Peers are a module of their own: `make bench-place` builds them and runs this.",
		Example: "  make bench-place\n  hearth bench place --dir /var/tmp --pairs 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.out.check(); err != nil {
				return err
			}
			if conf.Pairs < 1 || conf.Single < 1 || conf.Saturated < 1 {
				return usage("--pairs, --single and --saturated: must be at least 1")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the own binary: %w", err)
			}
			conf.Exe, conf.Env, conf.Progress = self, s.Env, s.Err
			r, err := bench.Place(cmd.Context(), conf)
			if err != nil {
				return fmt.Errorf("bench place: %w", err)
			}
			return f.print(s, r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&conf.Etcd, "etcd", conf.Etcd, "binary of the peer etcd ($"+benchEtcdVariable+")")
	fs.StringVar(&conf.MemRaft, "memraft", conf.MemRaft, "binary of Raft with stores in memory ($"+benchMemRaftVariable+")")
	fs.IntVar(&conf.Single, "single", 300, "placements of a run with one in flight")
	fs.IntVar(&conf.Saturated, "saturated", 20480, "placements of a run at saturation")
	f.bindRig(cmd, &conf.Rig)
	return cmd
}

// variable reads one variable of an environment; "" if it is not set.
func variable(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
