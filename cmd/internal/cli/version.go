package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is `hearth version -o json`.
type versionView struct {
	Version  int    `json:"version"`
	Build    string `json:"build_version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionView {
	v := versionView{Version: 1, Build: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Build = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersion(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what was built from what",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			v := buildVersion()
			return out.print(s.Out, v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "hearth %s (revision %s, %s, %s)\n", v.Build, orDash(v.Revision), v.Go, v.Platform)
				return err
			})
		},
	}
	out.bind(cmd)
	return cmd
}
