package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

// settingsView is `hearth settings get -o json`.
type settingsView struct {
	Version               int                   `json:"version"`
	SpreadOutApps         bool                  `json:"spread_out_apps"`
	WorkerSelectionPolicy model.SelectionPolicy `json:"worker_selection_policy"`
	DefaultCores          int                   `json:"default_cores"`
	SpreadOutDrivers      bool                  `json:"spread_out_drivers"`
	MaxDrivers            int                   `json:"max_drivers"`
	DriverShare           float64               `json:"driver_share"`
	Queues                []queueView           `json:"queues"`
	UserCores             int                   `json:"user_cores"`
	GangAfterMilli        int64                 `json:"gang_after_ms"`
}

// queueView is one queue of the settings.
type queueView struct {
	Name     string `json:"name"`
	Weight   int    `json:"weight"`
	Priority int    `json:"priority"`
	CapCores int    `json:"cap_cores"`
}

// settingsSetView is `hearth settings set -o json`.
type settingsSetView struct {
	Version int               `json:"version"`
	Set     map[string]string `json:"set"`
}

func settingsOf(v model.Settings) settingsView {
	out := settingsView{
		Version: model.ViewVersion, SpreadOutApps: v.SpreadOutApps,
		WorkerSelectionPolicy: v.WorkerSelectionPolicy, DefaultCores: v.DefaultCores,
		SpreadOutDrivers: v.SpreadOutDrivers, MaxDrivers: v.MaxDrivers, DriverShare: float64(v.DriverShareMilli) / 1000,
		Queues: make([]queueView, 0, len(v.Queues)), UserCores: v.UserCores, GangAfterMilli: v.GangAfterMilli,
	}
	for _, q := range v.Queues {
		out.Queues = append(out.Queues, queueView(q))
	}
	return out
}

func settingsTable(v model.Settings) func(io.Writer) error {
	return func(w io.Writer) error {
		t := newTable(w, "SETTING", "VALUE")
		for _, name := range model.SettingNames() {
			t.row(name, v.Get(name))
		}
		return t.flush()
	}
}

func newSettings(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Read or change the scheduler's replicated settings",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	get := question(s, &cobra.Command{
		Use: "get", Short: "Show the settings", Args: cobra.NoArgs,
	}, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		v, err := c.Settings(ctx)
		if err != nil {
			return nil, nil, err
		}
		return settingsOf(v), settingsTable(v), nil
	})
	set := question(s, &cobra.Command{
		Use:   "set NAME=VALUE...",
		Short: "Change settings, all of them or none",
		Long: `Changes settings, all of them or none. Queues are given together, separated by ";",
each as its name and what differs from the default: weight=1, priority=0 and cap_cores=0
(no limit). driver_share is between 0 (no limit) and 1, gang_after a duration.`,
		Example: "  hearth settings set spread_out_apps=false default_cores=8\n" +
			"  hearth settings set 'queues=prod,priority=10,cap_cores=64;batch,weight=2'",
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		values := make(map[string]string, len(args))
		for _, a := range args {
			name, value, ok := strings.Cut(a, "=")
			if !ok || name == "" {
				return nil, nil, usage("setting %q: want NAME=VALUE", a)
			}
			if _, twice := values[name]; twice {
				return nil, nil, usage("setting %q is given twice", name)
			}
			values[name] = value
		}
		if err := c.SetSettings(ctx, values); err != nil {
			return nil, nil, err
		}
		v := settingsSetView{Version: model.ViewVersion, Set: values}
		return v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "set %s\n", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
			return err
		}, nil
	})
	cmd.AddCommand(get, set)
	return cmd
}
