package cli

import (
	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/bench"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/executor"
)

// newExecutor is started by a worker's keeper, never by a person. Between a
// driver and its executors there are no certificates of the cluster: they are
// for its members, and tasks are user code.
func newExecutor(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "executor",
		Short:  "Run the tasks of one application's driver",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := executor.ConfigFromEnv(s.Env)
			if err != nil {
				return &codedError{code: exitFailed, err: err}
			}
			conf.Functions = bench.Functions()
			conf.Logger = newLogger("hearth.executor", config.DefaultWorker().Log, s.Err)
			if err := executor.Run(cmd.Context(), conf); err != nil {
				return &codedError{code: exitFailed, err: err}
			}
			return nil
		},
	}
}
