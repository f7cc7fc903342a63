//go:build linux

package workerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// script writes an executable shell script.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "find")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADiscoveryScriptFindsAddresses(t *testing.T) {
	t.Parallel()
	path := script(t, `echo "{\"name\": \"gpu\", \"addresses\": [\"0\", \"$ADDR\"]}"; [ -z "$HEARTH_MASTERS" ]`)
	got, err := discover(t.Context(), model.Resources{"fpga": {"a"}}, map[string]string{"gpu": path}, []string{"ADDR=7", "HEARTH_MASTERS=x"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(model.Resources{"fpga": {"a"}, "gpu": {"0", "7"}}, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if got, err := discover(t.Context(), nil, nil, nil); got != nil || err != nil {
		t.Errorf("nothing to find: %v, %v", got, err)
	}
}

func TestADiscoveryScriptThatFailsIsNamedWithItsRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"exit code":         {"echo no driver >&2; exit 3", `must run and exit with 0: exit status 3; it said: "no driver"`},
		"no JSON":           {"echo 0,1", `must print one JSON object such as {"name": "gpu"`},
		"more than one":     {`echo '{"name":"gpu","addresses":["0"]} {}'`, "nothing behind it"},
		"another name":      {`echo '{"name":"fpga","addresses":["0"]}'`, `must find "gpu", and says that it has found "fpga"`},
		"an unknown field":  {`echo '{"name":"gpu","adresses":["0"]}'`, "adresses"},
		"an address twice":  {`echo '{"name":"gpu","addresses":["0","0"]}'`, "given twice"},
		"no address":        {`echo '{"name":"gpu","addresses":[]}'`, "0 addresses, want 1 to"},
		"too much":          {"head -c 2000000 /dev/zero", "at most 1048576 bytes"},
		"not there":         {"", "no such file"},
		"not an executable": {"", "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := script(t, c.body)
			switch name {
			case "not there":
				path += "-not"
			case "not an executable":
				if err := os.Chmod(path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := discover(t.Context(), nil, map[string]string{"gpu": path}, []string{"PATH=/usr/bin:/bin"})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "resource gpu") {
				t.Errorf("error %v, want one that names gpu, %s and %q", err, path, c.want)
			}
		})
	}
	if _, err := discover(t.Context(), model.Resources{"gpu": {"0"}}, map[string]string{"gpu": "/x"}, nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a resource that is listed and to be found: %v", err)
	}
}

func TestADiscoveryScriptThatHangsIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	path := script(t, "sleep 600 & echo $! > "+pidFile+"; wait")
	began := time.Now()
	_, err := discoverWithin(t.Context(), 300*time.Millisecond, nil, map[string]string{"gpu": path}, []string{"PATH=/usr/bin:/bin"})
	if err == nil || !strings.Contains(err.Error(), "did not end within 300ms") {
		t.Fatalf("error %v after %s", err, time.Since(began))
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Skipf("the script had not begun: %v", err)
	}
	cmdline := "/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"
	eventually(t, "process "+strings.TrimSpace(string(pid))+" of the script is gone", func() bool {
		got, err := os.ReadFile(cmdline)
		return err != nil || !strings.HasPrefix(string(got), "sleep")
	})
}

func TestAProcessFindsItsAddressesInTheFormOfSpark(t *testing.T) {
	t.Parallel()
	for owner, component := range map[model.AppID]string{app1: "spark.executor", "driver-20261130061500-0001": "spark.driver"} {
		dir := t.TempDir()
		o := &model.LaunchOrder{Ref: model.ExecutorRef{App: owner, Executor: 1}, Resources: model.Resources{"gpu": {"0", "1"}, "fpga": {"a"}}}
		if err := writeResources(dir, o); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, resourcesFile))
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"id":{"componentName":"` + component + `","resourceName":"fpga"},"addresses":["a"]},{"id":{"componentName":"` + component + `","resourceName":"gpu"},"addresses":["0","1"]}]` + "\n"
		if string(got) != want {
			t.Errorf("%s: %s, want %s", owner, got, want)
		}
	}
	dir := t.TempDir()
	if err := writeResources(dir, &model.LaunchOrder{Ref: ref(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, resourcesFile)); !os.IsNotExist(err) {
		t.Errorf("a file for no resources: %v", err)
	}
}

func FuzzParseDiscovery(f *testing.F) {
	for _, seed := range []string{
		`{"name": "gpu", "addresses": ["0", "1"]}`, `{"name":"gpu","addresses":[]}`, `{"name":"gpu"} {}`, `{"name":"gpu","addresses":["0","0"]}`, `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		addrs, err := parseDiscovery("gpu", text)
		if err != nil {
			return
		}
		seen := make(map[string]bool)
		for _, a := range addrs {
			if a == "" || seen[a] {
				t.Errorf("%q passes with addresses %q", text, addrs)
			}
			seen[a] = true
		}
	})
}
