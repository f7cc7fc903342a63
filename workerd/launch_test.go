//go:build linux

package workerd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

func testWorkDir(t *testing.T) *workDir {
	t.Helper()
	w, err := openWorkDir(filepath.Join(t.TempDir(), "work"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.close() })
	return w
}

func TestALaunchedProcessGetsWhatIsPromised(t *testing.T) {
	w := testWorkDir(t)
	l := &launcher{
		worker: "worker-20261130061500-00000000", dir: w, executor: []string{"hearth", "executor"},
		environ: []string{"PATH=/bin", "HEARTH_MASTERS=x", "HEARTH_CONFIG_TLS_KEY_FILE=y", "LANG=C"},
		logURL:  "http://h:1", bind: "0.0.0.0", advertise: "h",
	}
	o := &model.LaunchOrder{
		Ref: ref(3), Cores: 2, MemoryMiB: 512, Secret: "s3cret", MasterAddr: []string{"m1:1", "m2:2"},
		Resources: model.Resources{"gpu": {"0", "1"}, "fpga.x": {"a"}},
		Spec: model.AppSpec{
			Kind: model.AppKindDriver, DriverAddr: "d:9",
			Command: model.Command{Env: []string{"LANG=de", "HEARTH_WORKER_ID=forged", "EMPTY="}},
			Files:   []model.File{{Name: "bin/run.sh", Mode: 0o750, Data: []byte("#!")}, {Name: "conf", Mode: 0o400}},
		},
	}
	got, err := l.prepare(o, []string{"other:1"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.path, string(app1), "3")
	want := []string{
		"EMPTY=", "HEARTH_APP_ID=" + string(app1), "HEARTH_CORES=2", "HEARTH_DRIVER_ADDR=d:9", "HEARTH_EXECUTOR_ID=3",
		"HEARTH_LOCAL_DIRS=" + filepath.Join(w.path, string(app1), "scratch"),
		"HEARTH_LOG_URL_STDERR=http://h:1/logs/" + string(app1) + "/3/stderr",
		"HEARTH_LOG_URL_STDOUT=http://h:1/logs/" + string(app1) + "/3/stdout",
		"HEARTH_MASTERS=m1:1,m2:2", "HEARTH_MEMORY_MIB=512", "HEARTH_RESOURCES_FILE=" + filepath.Join(dir, resourcesFile), "HEARTH_RESOURCE_FPGA_X=a", "HEARTH_RESOURCE_GPU=0,1",
		"HEARTH_SECRET_FILE=" + filepath.Join(dir, secretFile), "HEARTH_WORKER_ID=worker-20261130061500-00000000",
		"LANG=de", "PATH=/bin",
	}
	if diff := cmp.Diff(want, got.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got.Dir != dir || !slices.Equal(got.Argv, l.executor) || got.Key != ref(3).String() || got.MemoryLimitMiB != 512 {
		t.Errorf("request %+v", got)
	}
	for path, mode := range map[string]os.FileMode{
		"": 0o700, secretFile: 0o600, resourcesFile: 0o600, "bin/run.sh": 0o750, "conf": 0o400, "../scratch": 0o700, "..": 0o700,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: %v, %v; want mode %o", path, info, err, mode)
		}
	}
	if _, err := l.prepare(o, nil); err == nil {
		t.Error("the same executor was prepared twice")
	}
}

// A driver in cluster mode is told that it is one, in its environment and in its resources file.
func TestALaunchedDriverFindsItsResourcesAsADriver(t *testing.T) {
	w := testWorkDir(t)
	l := &launcher{worker: "worker-20261130061500-00000000", dir: w, bind: "0.0.0.0", advertise: "w1.example"}
	id := model.DriverID("driver-20261130061500-0001")
	spec := model.DriverSpec{Name: "d", Cores: 1, MemoryMiB: 64, Command: model.Command{Argv: []string{"run"}}}
	got, err := l.prepare(&model.LaunchOrder{Ref: id.Ref(2), Cores: 1, MemoryMiB: 64, Resources: model.Resources{"gpu": {"1"}}, Spec: spec.Launch()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.path, string(id), "2", resourcesFile)
	for _, want := range []string{EnvResourcesFile + "=" + path, "HEARTH_RESOURCE_GPU=1", keeper.EnvDriverID + "=" + string(id), keeper.EnvDriverAttempt + "=2", "HEARTH_DRIVER_BIND=0.0.0.0", "HEARTH_DRIVER_ADVERTISE=w1.example"} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("the environment lacks %s: %v", want, got.Env)
		}
	}
	text, err := os.ReadFile(path)
	if want := `[{"id":{"componentName":"spark.driver","resourceName":"gpu"},"addresses":["1"]}]` + "\n"; err != nil || string(text) != want {
		t.Errorf("%s, error %v; want %s", text, err, want)
	}
}

func TestWhatCannotBePreparedIsRefused(t *testing.T) {
	w := testWorkDir(t)
	l := &launcher{dir: w}
	foreign := model.AppID("app-20261130061500-0002")
	if err := os.MkdirAll(filepath.Join(w.path, string(foreign), "precious"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*model.LaunchOrder{
		"an id that leads elsewhere":      {Ref: model.ExecutorRef{App: "../etc"}},
		"a negative executor":             {Ref: ref(-1)},
		"no command":                      {Ref: ref(1)},
		"a file outside the directory":    {Ref: ref(2), Spec: model.AppSpec{Files: []model.File{{Name: "../x"}}}},
		"a file named like the output":    {Ref: ref(3), Spec: model.AppSpec{Files: []model.File{{Name: "stdout"}}}},
		"a file in place of the secret":   {Ref: ref(4), Secret: "s", Spec: model.AppSpec{Files: []model.File{{Name: secretFile}}}},
		"a directory somebody else made":  {Ref: model.ExecutorRef{App: foreign}},
		"an application id with a suffix": {Ref: model.ExecutorRef{App: app1 + "/.."}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "no command" {
				o.Spec.Command.Argv = []string{"true"}
			}
			o.Spec.Kind = model.AppKindCommand
			if _, err := l.prepare(o, nil); err == nil {
				t.Error("it was prepared")
			}
		})
	}
}

func TestTheHeaderHidesSecrets(t *testing.T) {
	argv := []string{
		"run", "--password=p1", "--token", "p2", "-api-key", "p3", "DB_PASSWORD=p4", "--name", "shown",
		"echo secret text", "--plain=shown2", "--access.key=p5", "sh", "-c", "token=x y",
	}
	got := header(argv)
	for _, secret := range []string{"p1", "p2", "p3", "p4", "p5"} {
		if strings.Contains(got, `"`+secret) || strings.Contains(got, "="+secret) {
			t.Errorf("%s is in %s", secret, got)
		}
	}
	for _, plain := range []string{"shown", "shown2", "echo secret text", "DB_PASSWORD="} {
		if !strings.Contains(got, plain) {
			t.Errorf("%s is not in %s", plain, got)
		}
	}
	if !strings.HasSuffix(got, "\n"+strings.Repeat("=", 40)+"\n") {
		t.Errorf("no rule of 40 at the end of %q", got)
	}
	if n := len(header([]string{strings.Repeat("x", 1<<20)})); n > maxHeaderArgBytes+100 {
		t.Errorf("header of %d bytes", n)
	}
}

// Who saw the application's directory before its marker, and another executor's
// in it, took it for somebody else's.
func TestExecutorsOfOneApplicationThatStartAtOnceAllGetTheirDirectory(t *testing.T) {
	w := testWorkDir(t)
	for app := range 100 {
		var starts sync.WaitGroup
		for n := range 16 {
			starts.Go(func() {
				if _, err := w.create(model.ExecutorRef{App: appN(app + 10), Executor: model.ExecutorID(n)}); err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
	}
}
