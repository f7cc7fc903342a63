package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/workerd/keeper"
)

// newKeeper is started by a worker, never by a person.
func newKeeper(s Streams) *cobra.Command {
	var stateDir, workerID string
	cmd := &cobra.Command{
		Use:    "keeper --state-dir DIR --worker-id ID",
		Short:  "Start and supervise the processes of one worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !filepath.IsAbs(stateDir):
				return usage("--state-dir %q: must be an absolute path", stateDir)
			case workerID == "":
				return usage("--worker-id: must be set")
			}
			relaxCollector(s.Env, workerGCPercent)
			log := newLogger("hearth.keeper", config.DefaultWorker().Log, s.Err)
			return keeper.Main(cmd.Context(), keeper.Config{StateDir: stateDir, WorkerID: workerID, Logger: log})
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "directory of socket, lock and exit files")
	cmd.Flags().StringVar(&workerID, "worker-id", "", "the worker whose processes these are")
	return cmd
}
