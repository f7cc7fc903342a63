package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Where the command of `hearth submit` runs: as copies that the cluster keeps, whose
// life this command follows, or as a driver of the cluster.
const (
	deployClient  = "client"
	deployCluster = "cluster"
)

// defaultDriverMemory is Spark's (spark.driver.memory).
const defaultDriverMemory = "1g"

// deployFlags are those of `hearth submit` that are about drivers.
type deployFlags struct {
	mode      string
	supervise bool
	artifacts []string
}

func (d *deployFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&d.mode, "deploy-mode", deployClient, "client: run copies of the command; cluster: run it as a driver on a worker")
	fs.BoolVar(&d.supervise, "supervise", false, "with --deploy-mode cluster: launch the driver again when it fails or is lost")
	fs.StringArrayVar(&d.artifacts, "artifact", nil, "with --deploy-mode cluster: file that the worker fetches, URL or URL#sha256=DIGEST&name=PATH (repeatable)")
}

// driverOnly and copiesOnly are the flags that say nothing in the other mode.
func driverOnly() []string { return []string{"supervise", "artifact"} }

func copiesOnly() []string {
	return []string{"executors", "completions", "executor-cores", "max-cores", "restart", "queue", "min-executors", "require", "prefer"}
}

// asDriver is what `hearth driver submit` makes of these flags; nil if the command is
// to run as copies.
func (f *submitFlags) asDriver(cmd *cobra.Command) (*driverFlags, error) {
	misplaced := func(names []string, mode string) error {
		names = slices.DeleteFunc(names, func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(names) == 0 {
			return nil
		}
		return fmt.Errorf("--%s: goes with --deploy-mode %s only", strings.Join(names, ", --"), mode)
	}
	switch f.deploy.mode {
	case deployClient:
		return nil, misplaced(driverOnly(), deployCluster)
	case deployCluster:
	default:
		return nil, fmt.Errorf("--deploy-mode %q: must be %s or %s", f.deploy.mode, deployClient, deployCluster)
	}
	resources, err := cmd.Flags().GetStringArray("resource")
	if err := errors.Join(err, misplaced(copiesOnly(), deployClient)); err != nil {
		return nil, err
	}
	d := &driverFlags{workFlags: f.workFlags, resources: resources, artifacts: f.deploy.artifacts, supervise: f.deploy.supervise}
	if !cmd.Flags().Changed("memory") {
		d.memory = defaultDriverMemory
	}
	return d, nil
}
