package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loadFixture loads a file by the kind of process its name begins with.
func loadFixture(path string) error {
	kind, _, _ := strings.Cut(filepath.Base(path), "-")
	var err error
	switch kind {
	case "master":
		_, _, err = LoadMaster(path, nil, nil)
	case "worker":
		_, _, err = LoadWorker(path, nil, nil)
	case "client":
		_, _, err = LoadClient(path, nil, nil)
	default:
		err = errors.New("a fixture begins with master-, worker- or client-")
	}
	return err
}

func TestEveryGoodFileLoads(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.good.hcl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d fixtures and error %v, want some", len(paths), err)
	}
	for _, path := range paths {
		if err := loadFixture(path); err != nil {
			t.Errorf("%s: got error %v, want none", path, err)
		}
	}
}

// Each bad file lists the expected problems, all of them, in "# want: " lines.
func TestEveryBadFileReportsEveryProblem(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.bad.hcl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d fixtures and error %v, want some", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for line := range strings.Lines(string(src)) {
				if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: "); ok {
					want = append(want, text)
				}
			}
			var problems *Error
			if err := loadFixture(path); !errors.As(err, &problems) {
				t.Fatalf("got error %v, want an *Error", err)
			}
			for _, p := range problems.Problems {
				got = append(got, strings.TrimPrefix(p.String(), "testdata/"))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMasterFileSetsEveryKey(t *testing.T) {
	got, warnings, err := LoadMaster("testdata/master-full.good.hcl", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := MasterConfig{
		DataDir: "/var/lib/hearth/master",
		Network: MasterNetwork{
			Network:  Network{Bind: "10.0.0.1", Advertise: "master-1.example.com", GRPCPort: 17070, SerfPort: 17072},
			RaftPort: 17071,
		},
		Cluster: model.Settings{
			WorkerSelectionPolicy: model.MemoryFreeDesc, DefaultCores: 8, MaxDrivers: 12, DriverShareMilli: 250,
			Queues:    []model.Queue{{Name: "batch", Weight: 2}, {Name: "prod", Weight: 1, Priority: 10, CapCores: 64}},
			UserCores: 32, GangAfterMilli: 300_000,
		},
		Raft:      Raft{BootstrapExpect: 3, Preset: PresetWAN, LogStore: LogStoreBoltDB, SnapshotThreshold: 1000, SnapshotInterval: 30 * time.Second},
		Gossip:    Gossip{Join: []string{"master-2.example.com:7072", "10.0.0.3:7000", "[fd00::3]:7072", "[fd00::4]:7001"}, KeyFile: "/etc/hearth/gossip.key"},
		HTTP:      HTTP{ClientAuth: ClientAuthOptional},
		Access:    Access{Tokens: TokensRequired},
		TLS:       TLS{Dir: "/etc/hearth/tls", CAFile: "/etc/hearth/ca.pem", CertFile: "/etc/hearth/master.pem", KeyFile: "/etc/hearth/master.key"},
		Scheduler: Scheduler{WorkerBeat: 500 * time.Millisecond, WorkerTimeout: 20 * time.Second, DriverTimeout: time.Minute},
		Log:       Log{Level: "debug", Format: "json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Errorf("got warnings %q, want none", warnings)
	}
}

func TestAWorkerFileSetsEveryKey(t *testing.T) {
	got, _, err := LoadWorker("testdata/worker-full.good.hcl", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultWorker()
	want.DataDir = "/var/lib/hearth/worker"
	want.Network = Network{Bind: "::1"}
	want.Gossip = Gossip{Join: []string{"master-1:7072"}, KeyFile: "/etc/hearth/gossip.key"}
	want.HTTP.ClientAuth = ClientAuthOptional
	want.Worker = Worker{
		Masters: []string{"master-1:7070", "master-2:17070"}, Cores: 16, MemoryMiB: 1536,
		Resources: model.Resources{"gpu": {"0", "1"}, "fpga": {"f1"}},
		Labels:    map[string]string{"zone": "a", "disk": "ssd"},
		WorkDir:   "/scratch/hearth", WorkBudgetMiB: 40 << 10, ProgramCacheMiB: 512,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestAWorkerReadsItsResourcesFromAFile(t *testing.T) {
	got, _, err := LoadWorker("testdata/worker-resources-file.good.hcl", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Resources{"fpga": {"f1"}, "gpu": {"0", "1"}}
	if diff := cmp.Diff(want, got.Worker.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestABareMasterIsTheDefaultWithOneWarning(t *testing.T) {
	got, warnings, err := LoadMaster("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultMaster()
	if want.DataDir, err = filepath.Abs(want.DataDir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "single master") {
		t.Errorf("got warnings %q, want the one about a single master", warnings)
	}
}

func TestABareWorkerLooksForAMasterOnLoopback(t *testing.T) {
	got, warnings, err := LoadWorker("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:7070"}, got.Worker.Masters); diff != "" {
		t.Errorf("masters (-want +got):\n%s", diff)
	}
	if !filepath.IsAbs(got.DataDir) || got.Worker.WorkDir != filepath.Join(got.DataDir, "work") {
		t.Errorf("got data_dir %q and work_dir %q, want absolute ones, the second in the first", got.DataDir, got.Worker.WorkDir)
	}
	if len(warnings) != 0 {
		t.Errorf("got warnings %q, want none", warnings)
	}
}

// masterFlags parses arguments as `hearth master` does.
func masterFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("master", pflag.ContinueOnError)
	BindMasterFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestFlagsGoBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.hcl")
	text := "network {\n  grpc_port = 1001\n  raft_port = 1002\n  serf_port = 1003\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"HEARTH_CONFIG_NETWORK_RAFT_PORT=2002", "HEARTH_CONFIG_NETWORK_SERF_PORT=2003",
		"HEARTH_CONFIG_WORKER_CORES=4", "HEARTH_MASTERS=m1", "PATH=/bin",
	}
	got, _, err := LoadMaster(path, env, masterFlags(t, "--serf-port=3003"))
	if err != nil {
		t.Fatal(err)
	}
	want := MasterNetwork{Network: Network{Bind: "127.0.0.1", GRPCPort: 1001, SerfPort: 3003, HTTPPort: 8080}, RaftPort: 2002}
	if diff := cmp.Diff(want, got.Network); diff != "" {
		t.Errorf("network (-want +got):\n%s", diff)
	}
}

func TestProblemsNameTheirSourceWhateverItIs(t *testing.T) {
	env := []string{"HEARTH_CONFIG_RAFT_PRESET=slow", "HEARTH_CONFIG_NETWORK_BINDS=x", "HEARTH_CONFIG_DATA_DIR="}
	_, _, err := LoadMaster("", env, masterFlags(t, "--grpc-port=x", "--join=a,b", "--join=c:d"))
	want := `configuration: 5 problems
  HEARTH_CONFIG_RAFT_PRESET: raft.preset "slow": must be one of lan, fast, wan, rig
  HEARTH_CONFIG_NETWORK_BINDS: no such setting; did you mean HEARTH_CONFIG_NETWORK_BIND?
  --grpc-port: network.grpc_port "x": must be a port between 1 and 65535, or 0 to let the kernel choose
  --join: gossip.join "a,b,c:d": the port of "c:d" must be between 1 and 65535
  HEARTH_CONFIG_DATA_DIR: data_dir: must not be empty`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestListsAndPairsReadAlikeFromFlagsAndEnvironment(t *testing.T) {
	want := Worker{
		Masters:   []string{"a:7070", "b:1"},
		Resources: model.Resources{"gpu": {"0", "1"}, "fpga": {"f"}},
		Labels:    map[string]string{"zone": "a", "disk": "ssd"},
		WorkDir:   "/w", WorkBudgetMiB: DefaultWorkBudgetMiB, ProgramCacheMiB: DefaultProgramCacheMiB,
	}
	fs := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	BindWorkerFlags(fs)
	args := []string{"--masters=a", "--masters=b:1", "--resources=gpu=0,1", "--resources=fpga=f", "--label=zone=a", "--label=disk=ssd", "--work-dir=/w"}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	byFlags, _, err := LoadWorker("", nil, fs)
	if err != nil {
		t.Fatal(err)
	}
	byEnv, _, err := LoadWorker("", []string{
		"HEARTH_CONFIG_WORKER_MASTERS=a,b:1", "HEARTH_CONFIG_WORKER_RESOURCES=gpu=0,1;fpga=f",
		"HEARTH_CONFIG_WORKER_LABELS=zone=a,disk=ssd", "HEARTH_CONFIG_WORKER_WORK_DIR=/w",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, byFlags.Worker); diff != "" {
		t.Errorf("by flags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, byEnv.Worker); diff != "" {
		t.Errorf("by environment (-want +got):\n%s", diff)
	}
}

func TestAClientFindsItsMasters(t *testing.T) {
	flags := func(args ...string) *pflag.FlagSet {
		fs := pflag.NewFlagSet("client", pflag.ContinueOnError)
		BindClientFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return fs
	}
	for _, test := range []struct {
		name string
		env  []string
		fs   *pflag.FlagSet
		want []string
	}{
		{"on loopback by default", nil, nil, []string{"127.0.0.1:7070"}},
		{"in HEARTH_MASTERS", []string{"HEARTH_MASTERS=a,b:1"}, flags(), []string{"a:7070", "b:1"}},
		{"in the long name before the short one", []string{"HEARTH_CONFIG_CLIENT_MASTERS=c", "HEARTH_MASTERS=a"}, flags(), []string{"c:7070"}},
		{"in the flag before all", []string{"HEARTH_MASTERS=a"}, flags("--masters", "d,e"), []string{"d:7070", "e:7070"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := LoadClient("", test.env, test.fs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Masters); diff != "" {
				t.Errorf("masters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"an even number of masters", []string{"--bootstrap-expect=4", "--join=m2"}, "bootstrap_expect is 4: 4 masters survive no more failures than 3, use an odd number"},
		{"an open port that was asked for", []string{"--bootstrap-expect=1", "--bind=10.0.0.1", "--allow-insecure"}, "listening on 10.0.0.1 without TLS: anyone who reaches this address can run code on the cluster"},
		{"a single master that was asked for", []string{"--bootstrap-expect=1"}, ""},
		{"people without tokens beyond this machine", []string{"--bootstrap-expect=1", "--bind=10.0.0.1", "--tls-dir=tls"}, `access.tokens is not "required": whoever has a client's certificate is an operator and nobody can be given less; to tell people apart set it on all masters`},
		{"people without tokens on this machine", []string{"--bootstrap-expect=1", "--tls-dir=tls"}, ""},
		{"people with tokens", []string{"--bootstrap-expect=1", "--bind=10.0.0.1", "--tls-dir=tls", "--tokens=required"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := LoadMaster("", nil, masterFlags(t, test.args...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(warnings, "\n"); got != test.want {
				t.Errorf("got warnings %q, want %q", got, test.want)
			}
		})
	}
}

func TestAFileThatIsMissingOrTooLargeIsAProblem(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.hcl")
	if err := os.WriteFile(large, make([]byte, MaxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{large, large + ".missing"} {
		_, _, err := LoadMaster(path, nil, nil)
		var problems *Error
		if !errors.As(err, &problems) || problems.Problems[0].Source != path {
			t.Errorf("got error %v, want one problem of %s", err, path)
		}
	}
}
