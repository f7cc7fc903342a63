package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/config"
)

// unit is the settings of a systemd unit by section and name, each with all its
// values.
type unit map[string]map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	u, section := unit{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch name, value, ok := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			u[section] = map[string][]string{}
		case !ok || section == "":
			t.Errorf("%s: %q is no setting of a section", path, line)
		default:
			u[section][name] = append(u[section][name], value)
		}
	}
	return u
}

func TestTheUnitsNameOnlyCommandsAndFlagsThatThereAre(t *testing.T) {
	const deploy = "../../../deploy"
	paths, err := filepath.Glob(filepath.Join(deploy, "*.service"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("units %v, %v; want two", paths, err)
	}
	for _, path := range paths {
		u := readUnit(t, path)
		commands := 0
		for _, name := range []string{"ExecStartPre", "ExecStart", "ExecReload", "ExecStop"} {
			for _, line := range u["Service"][name] {
				argv := strings.Fields(line)
				if argv[0] != "/usr/bin/hearth" {
					continue
				}
				commands++
				cmd, rest, err := newRoot(Streams{}).Find(argv[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %s=%s: %v", path, name, line, err)
				}
			}
		}
		if commands == 0 {
			t.Errorf("%s runs no hearth", path)
		}
	}
	worker := readUnit(t, filepath.Join(deploy, "hearth-worker.service"))["Service"]
	for name, want := range map[string]string{
		"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue", "Restart": "on-failure", "Type": "exec",
	} {
		if got := worker[name]; len(got) != 1 || got[0] != want {
			t.Errorf("worker: %s=%v, want %s", name, got, want)
		}
	}
	// What a master may be denied, executors would be denied too.
	for _, name := range []string{"NoNewPrivileges", "PrivateTmp", "MemoryDenyWriteExecute", "RestrictNamespaces", "UMask", "ProtectHome", "ProtectControlGroups", "CapabilityBoundingSet"} {
		if got := worker[name]; got != nil {
			t.Errorf("worker: %s=%v is inherited by executors", name, got)
		}
	}
}

func TestTheSettingsBesideTheUnitsAreValid(t *testing.T) {
	env := []string{"HEARTH_CONFIG_DATA_DIR=" + t.TempDir()}
	none := pflag.NewFlagSet("", pflag.ContinueOnError)
	if _, _, err := config.LoadMaster("../../../deploy/master.hcl", env, none); err != nil {
		t.Error(err)
	}
	if _, _, err := config.LoadWorker("../../../deploy/worker.hcl", env, none); err != nil {
		t.Error(err)
	}
}
