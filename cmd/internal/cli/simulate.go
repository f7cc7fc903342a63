package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/simulate"
)

func newSimulate(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Say what the scheduler would do with a scenario, without a cluster",
		Long: `Plays a scenario (JSON; "-" reads standard input) against the real scheduler and
state: after each step one scheduling pass, at the end how things stand. Executors
and drivers run as soon as they are placed, kills take effect at once. The steps are
add_worker, remove_worker, submit_app, request_executors, kill_executors, finish_app,
submit_driver, finish_driver and advance.

Whatever pauses has paused by the next step. Only with the setting gang_after time counts:
it then goes by in steps {"op":"advance","seconds":N} alone. With user_cores each
submit_app may name a "user"; those that name none are of one user.

What is wrong with a scenario, fields that nobody knows included, is said with the
number of the step and nothing is printed; the exit code is then 2.`,
		Example: `  echo '{"steps":[{"op":"add_worker","id":"w1","cores":8,"memory_mib":8192},
                  {"op":"submit_app","app":"A","executor_cores":2}]}' | hearth simulate -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			res, err := simulateFile(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return out.print(s.Out, res, simulationTable(res))
		},
	}
	out.bind(cmd)
	return cmd
}

// simulateFile reads and plays a scenario. What is wrong with it is an error of
// usage.
func simulateFile(stdin io.Reader, path string) (*simulate.Result, error) {
	r := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usage("read scenario: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, simulate.MaxBytes+1))
	if err != nil {
		return nil, usage("read scenario %s: %w", path, err)
	}
	sc, err := simulate.Read(data)
	if err != nil {
		return nil, usage("scenario %s: %w", path, err)
	}
	res, err := sc.Run()
	if errors.Is(err, simulate.ErrRefused) {
		return nil, fmt.Errorf("scenario %s: %w", path, err)
	}
	if err != nil {
		return nil, usage("scenario %s: %w", path, err)
	}
	return res, nil
}

func simulationTable(r *simulate.Result) func(io.Writer) error {
	return func(w io.Writer) error {
		t := newTable(w, "STEP", "PLACED", "WORKER", "CORES", "MEMORY MIB", "PROFILE", "RESOURCES")
		for _, st := range r.Steps {
			if len(st.Placements) == 0 {
				t.row(st.Step, "", "", "", "", "", "")
			}
			for _, p := range st.Placements {
				what, profile := "driver "+p.Driver, ""
				if p.Executor != nil {
					what, profile = fmt.Sprintf("%s/%d", p.App, *p.Executor), fmt.Sprint(*p.Profile)
				}
				t.row(st.Step, what, p.Worker, p.Cores, p.MemoryMiB, profile, addressText(p.Resources))
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
		for _, table := range []*tableWriter{simulatedApps(w, r), simulatedDrivers(w, r), simulatedWorkers(w, r)} {
			if table == nil {
				continue
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return fmt.Errorf("write table: %w", err)
			}
			if err := table.flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

func simulatedApps(w io.Writer, r *simulate.Result) *tableWriter {
	if len(r.Final.Apps) == 0 {
		return nil
	}
	t := newTable(w, "APP", "STATE", "CORES", "EXECUTORS", "WHY")
	for _, a := range r.Final.Apps {
		t.row(a.App, a.State, a.Cores, executorText(a.Executors), a.Why)
	}
	return t
}

func simulatedDrivers(w io.Writer, r *simulate.Result) *tableWriter {
	if len(r.Final.Drivers) == 0 {
		return nil
	}
	t := newTable(w, "DRIVER", "STATE", "WORKER", "WHY")
	for _, d := range r.Final.Drivers {
		t.row(d.Driver, d.State, d.Worker, d.Why)
	}
	return t
}

func simulatedWorkers(w io.Writer, r *simulate.Result) *tableWriter {
	if len(r.Final.Workers) == 0 {
		return nil
	}
	t := newTable(w, "WORKER", "CORES USED", "MEMORY MIB USED", "RESOURCES USED")
	for _, x := range r.Final.Workers {
		t.row(x.ID, x.CoresUsed, x.MemoryUsedMiB, addressText(x.ResourcesUsed))
	}
	return t
}

// executorText lists ids, runs of them as a range.
func executorText(ids []model.ExecutorID) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		} else {
			parts = append(parts, fmt.Sprint(ids[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// addressText is "gpu=0,1 fpga=3".
func addressText(r map[string][]string) string {
	parts := make([]string, 0, len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, name+"="+strings.Join(r[name], ","))
	}
	return strings.Join(parts, " ")
}
