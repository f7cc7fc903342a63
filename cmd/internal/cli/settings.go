package cli

import (
	"context"
	"fmt"
	"io"
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
}

// settingsSetView is `hearth settings set -o json`.
type settingsSetView struct {
	Version int               `json:"version"`
	Set     map[string]string `json:"set"`
}

func settingsOf(v model.Settings) settingsView {
	return settingsView{
		Version: model.ViewVersion, SpreadOutApps: v.SpreadOutApps,
		WorkerSelectionPolicy: v.WorkerSelectionPolicy, DefaultCores: v.DefaultCores,
	}
}

func settingsTable(v settingsView) func(io.Writer) error {
	return func(w io.Writer) error {
		t := newTable(w, "SETTING", "VALUE")
		t.row("spread_out_apps", v.SpreadOutApps)
		t.row("worker_selection_policy", v.WorkerSelectionPolicy)
		t.row("default_cores", v.DefaultCores)
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
		view := settingsOf(v)
		return view, settingsTable(view), nil
	})
	set := question(s, &cobra.Command{
		Use:     "set NAME=VALUE...",
		Short:   "Change settings, all of them or none",
		Example: "  hearth settings set spread_out_apps=false default_cores=8",
		Args:    cobra.MinimumNArgs(1),
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
			_, err := fmt.Fprintf(w, "%d settings changed\n", len(values))
			return err
		}, nil
	})
	cmd.AddCommand(get, set)
	return cmd
}
