package simulate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/simulate"
)

// run reads and plays a scenario.
func run(text string) (*simulate.Result, error) {
	sc, err := simulate.Read([]byte(text))
	if err != nil {
		return nil, err
	}
	return sc.Run()
}

func TestTheOutcomeHasTheDocumentedShape(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[
	  {"op":"add_worker","id":"w3","cores":6,"memory_mib":8192,"resources":{"gpu":["1","0"]}},
	  {"op":"submit_driver","driver":"d1"},
	  {"op":"submit_app","app":"A","executor_cores":4,"cores_max":4,"executor_resources":{"gpu":1}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"steps":[{"step":0,"placements":[]},` +
		`{"step":1,"placements":[{"driver":"d1","worker":"w3","cores":1,"memory_mib":1024,"resources":{}}]},` +
		`{"step":2,"placements":[{"app":"A","executor":0,"worker":"w3","cores":4,"memory_mib":1024,"profile":0,"resources":{"gpu":["1"]}}]}],` +
		`"final":{"apps":[{"app":"A","state":"RUNNING","cores":4,"executors":[0],"why":""}],` +
		`"drivers":[{"driver":"d1","state":"RUNNING","worker":"w3","why":""}],` +
		`"workers":[{"id":"w3","cores_used":5,"memory_used_mib":2048,"resources_used":{"gpu":["1"]}}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestAnOutcomeOfNothingHasAllLists(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"steps":[],"final":{"apps":[],"drivers":[],"workers":[]}}`, string(got)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestWhatIsWrongWithAScenarioIsSaidWithTheStep(t *testing.T) {
	t.Parallel()
	const worker = `{"op":"add_worker","id":"w1","cores":4,"memory_mib":4096}`
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", ``, "ends too early"},
		{"not JSON", `steps`, "not JSON"},
		{"something behind it", `{"steps":[]} {}`, "something follows"},
		{"a brace too many", `{"steps":[]}}`, "something follows"},
		{"a list", `[]`, "want an object, not a list"},
		{"no steps", `{}`, "steps: is missing"},
		{"an unknown field", `{"steps":[],"step":1}`, `unknown field "step"`},
		{"a field twice", `{"steps":[],"steps":[]}`, `"steps" appears twice`},
		{"a field in capitals", `{"Steps":[]}`, "steps: is missing"},
		{"an unknown setting", `{"settings":{"color":1},"steps":[]}`, `settings: invalid: unknown field "color"`},
		{"an unknown policy", `{"settings":{"worker_selection_policy":"BEST"},"steps":[]}`, `worker_selection_policy "BEST"`},
		{"a share above all", `{"settings":{"driver_share":1.5},"steps":[]}`, "driver_share"},
		{"a queue twice", `{"settings":{"queues":[{"name":"a"},{"name":"a"}]},"steps":[]}`, "each name is given once"},
		{"a step that is none", `{"steps":[1]}`, "step 0: invalid: want an object"},
		{"no op", `{"steps":[{"id":"w1"}]}`, "step 0: invalid: op: is missing"},
		{"an unknown op", `{"steps":[{"op":"add_master"}]}`, `step 0: invalid: unknown op "add_master"`},
		{"an unknown field of a step", `{"steps":[` + worker + `,{"op":"finish_app","app":"A","why":1}]}`, `step 1: finish_app: invalid: unknown field "why"`},
		{"a field of a step twice", `{"steps":[` + worker + `,{"op":"finish_app","app":"A","app":"A"}]}`, `step 1: invalid: "app" appears twice`},
		{"a step that is no JSON", `{"steps":[` + worker + `,{"op":"add_worker","id":"w2","cores":NaN,"memory_mib":1}]}`, "step 1: invalid: not JSON"},
		{"a scenario that ends in a step", `{"steps":[` + worker + `,{"op":"add_worker"`, "step 1: invalid: "},
		{"steps twice, the first with a step", `{"steps":[` + worker + `],"steps":[]}`, `invalid: "steps" appears twice`},
		{"a step too deep", `{"steps":[` + worker + `,` + strings.Repeat("[", 40), "step 1: invalid: values lie"},
		{"a worker without cores", `{"steps":[{"op":"add_worker","id":"w1","cores":0,"memory_mib":1}]}`, "step 0: add_worker: invalid: cores: 0: must be at least 1"},
		{"a worker with cores missing", `{"steps":[{"op":"add_worker","id":"w1","memory_mib":1}]}`, "cores: is missing"},
		{"negative memory", `{"steps":[{"op":"add_worker","id":"w1","cores":1,"memory_mib":-1}]}`, "must be at least 1"},
		{"half a core", `{"steps":[{"op":"add_worker","id":"w1","cores":0.5,"memory_mib":1}]}`, "must be a whole number"},
		{"cores as a text", `{"steps":[{"op":"add_worker","id":"w1","cores":"4","memory_mib":1}]}`, `want a whole number, not the text "4"`},
		{"a worker twice", `{"steps":[` + worker + `,` + worker + `]}`, `step 1: add_worker: invalid: worker "w1" is there already`},
		{"an address twice", `{"steps":[{"op":"add_worker","id":"w1","cores":1,"memory_mib":1,"resources":{"gpu":["0","0"]}}]}`, "given twice"},
		{"an unknown worker", `{"steps":[{"op":"remove_worker","id":"w1"}]}`, `step 0: remove_worker: invalid: there is no worker "w1"`},
		{"an application twice", `{"steps":[{"op":"submit_app","app":"A"},{"op":"submit_app","app":"A"}]}`, `step 1: submit_app: invalid: application "A" was submitted already`},
		{"the name of an ended application", `{"steps":[{"op":"submit_app","app":"A"},{"op":"finish_app","app":"A"},{"op":"submit_app","app":"A"}]}`, "step 2: submit_app"},
		{"an ended application", `{"steps":[{"op":"submit_app","app":"A"},{"op":"finish_app","app":"A"},{"op":"kill_executors","app":"A","executors":[0]}]}`, `step 2: kill_executors: invalid: application "A" has ended`},
		{"an unknown application", `{"steps":[{"op":"request_executors","app":"A","totals":{"0":1}}]}`, "was never submitted"},
		{"an unknown profile", `{"steps":[{"op":"submit_app","app":"A"},{"op":"request_executors","app":"A","totals":{"1":1}}]}`, "step 1: request_executors"},
		{"a total below 0", `{"steps":[{"op":"submit_app","app":"A"},{"op":"request_executors","app":"A","totals":{"0":-1}}]}`, "must be at least 0"},
		{"a profile with two names", `{"steps":[{"op":"submit_app","app":"A"},{"op":"request_executors","app":"A","totals":{"00":1}}]}`, "must be the number of a profile"},
		{"an unknown field of a profile", `{"steps":[{"op":"submit_app","app":"A"},{"op":"request_executors","app":"A","totals":{"1":1},"profiles":{"1":{"cores":1}}}]}`, `unknown field "cores"`},
		{"no cores per executor", `{"steps":[{"op":"submit_app","app":"A","executor_cores":0}]}`, "executor_cores: 0: must be at least 1"},
		{"more cores per executor than a number of the log holds", `{"steps":[{"op":"submit_app","app":"A","executor_cores":4294967297}]}`, "executor_cores: 4294967297: must be at most"},
		{"more cores of a profile than a number of the log holds", `{"steps":[{"op":"submit_app","app":"A"},{"op":"request_executors","app":"A","totals":{"1":1},"profiles":{"1":{"executor_cores":4294967297}}}]}`, "step 1: request_executors"},
		{"more cores of a driver than a number of the log holds", `{"steps":[{"op":"submit_driver","driver":"d","cores":4294967297}]}`, "cores: 4294967297: must be at most"},
		{"no cores at most", `{"steps":[{"op":"submit_app","app":"A","cores_max":0}]}`, "cores_max: 0"},
		{"an unknown queue", `{"steps":[{"op":"submit_app","app":"A","queue":"q"}]}`, `queue "q" is not one`},
		{"a gang above its cores", `{"steps":[{"op":"submit_app","app":"A","executor_cores":2,"cores_max":4,"min_executors":3}]}`, "min_executors 3"},
		{"a driver twice", `{"steps":[{"op":"submit_driver","driver":"d"},{"op":"submit_driver","driver":"d"}]}`, "was submitted already"},
		{"a driver without cores", `{"steps":[{"op":"submit_driver","driver":"d","cores":0}]}`, "cores: 0"},
		{"an ended driver", `{"steps":[` + worker + `,{"op":"submit_driver","driver":"d"},{"op":"finish_driver","driver":"d"},{"op":"finish_driver","driver":"d"}]}`, `step 3: finish_driver: invalid: driver "d" has ended`},
		{"an unknown driver", `{"steps":[{"op":"finish_driver","driver":"d"}]}`, "was never submitted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %q, want one with %q", err, tc.want)
			}
			if !errors.Is(err, model.ErrInvalid) {
				t.Errorf("%v is not model.ErrInvalid", err)
			}
		})
	}
}

func TestExecutorsThatAreNotLiveAreNotKilled(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[{"op":"add_worker","id":"w1","cores":4,"memory_mib":4096},
	  {"op":"submit_app","app":"A","executor_cores":2},
	  {"op":"kill_executors","app":"A","executors":[7,-1,0]},
	  {"op":"kill_executors","app":"A","executors":[0]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("1: A/0 w1=2, A/1 w1=2\n2: A/2 w1=2", show(res)); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
}

func TestAWorkerThatWasRemovedMayComeBack(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[{"op":"add_worker","id":"w1","cores":4,"memory_mib":4096},
	  {"op":"submit_app","app":"A"},{"op":"remove_worker","id":"w1"},
	  {"op":"add_worker","id":"w1","cores":2,"memory_mib":4096}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("1: A/0 w1=4\n3: A/1 w1=2", show(res)); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
}

func TestADriverThatIsFinishedWhileItWaitsIsFinished(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[{"op":"submit_driver","driver":"d"},{"op":"finish_driver","driver":"d"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]simulate.Driver{{Driver: "d", State: model.DriverFinished}}, res.Final.Drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}

// Its attempt was on a worker; it was in the queue again, and so on none, when it was finished.
func TestADriverThatIsFinishedWhileItWaitsAgainNamesNoWorker(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[{"op":"add_worker","id":"w1","cores":1,"memory_mib":1024},{"op":"submit_driver","driver":"d","supervise":true},
	  {"op":"submit_driver","driver":"e"},{"op":"remove_worker","id":"w1"},{"op":"finish_driver","driver":"d"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(simulate.Driver{Driver: "d", State: model.DriverFinished}, res.Final.Drivers[0]); diff != "" {
		t.Errorf("driver (-want +got):\n%s", diff)
	}
}

// 0.1 of 9 cores is less than one; of 10 it is one.
func TestAShareBelowOneCoreLeavesDriversNone(t *testing.T) {
	t.Parallel()
	res, err := run(`{"settings":{"driver_share":0.1},"steps":[{"op":"add_worker","id":"w1","cores":9,"memory_mib":9000},
	  {"op":"submit_driver","driver":"d"},{"op":"add_worker","id":"w2","cores":1,"memory_mib":1024},{"op":"remove_worker","id":"w2"},
	  {"op":"submit_driver","driver":"e"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("2: d w1=1", show(res)); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	if why := res.Final.Drivers[1].Why; !strings.Contains(why, "driver_share") {
		t.Errorf("the second driver waits because %q", why)
	}
}

// The default of programs that write scenarios: it means no gang.
func TestAGangOfNoneIsNoGang(t *testing.T) {
	t.Parallel()
	res, err := run(`{"steps":[{"op":"submit_app","app":"A","min_executors":0},{"op":"add_worker","id":"w1","cores":1,"memory_mib":1024}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("1: A/0 w1=1", show(res)); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
}

// The state keeps 200 ended drivers, fewer than end here at once.
func TestDriversThatEndTogetherNameTheirWorker(t *testing.T) {
	t.Parallel()
	const n = 210
	steps := []string{fmt.Sprintf(`{"op":"add_worker","id":"w1","cores":%d,"memory_mib":%d}`, n, n*1024)}
	for i := range n {
		steps = append(steps, fmt.Sprintf(`{"op":"submit_driver","driver":"d%d"}`, i))
	}
	steps = append(steps, `{"op":"remove_worker","id":"w1"}`)
	res, err := run(`{"steps":[` + strings.Join(steps, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range res.Final.Drivers {
		if want := (simulate.Driver{Driver: fmt.Sprint("d", i), State: model.DriverError, Worker: "w1"}); d != want {
			t.Fatalf("number %d: %+v, want %+v", i, d, want)
		}
	}
}

// The state keeps 200 ended applications and drivers; a scenario tells of all.
func TestAllThatHaveEndedAreTold(t *testing.T) {
	t.Parallel()
	steps := []string{`{"op":"add_worker","id":"w1","cores":4,"memory_mib":4096}`}
	const n = 210
	for i := range n {
		steps = append(steps,
			fmt.Sprintf(`{"op":"submit_app","app":"A%d"}`, i), fmt.Sprintf(`{"op":"finish_app","app":"A%d"}`, i),
			fmt.Sprintf(`{"op":"submit_driver","driver":"d%d"}`, i), fmt.Sprintf(`{"op":"finish_driver","driver":"d%d"}`, i))
	}
	res, err := run(`{"steps":[` + strings.Join(steps, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Final.Apps) != n || len(res.Final.Drivers) != n {
		t.Fatalf("%d applications and %d drivers, want %d", len(res.Final.Apps), len(res.Final.Drivers), n)
	}
	for i := range n {
		if a, d := res.Final.Apps[i], res.Final.Drivers[i]; a.State != model.AppFinished || d.State != model.DriverFinished || d.Worker != "w1" {
			t.Fatalf("number %d: %+v, %+v", i, a, d)
		}
	}
}

func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		sc, err := simulate.Read(data)
		if err != nil {
			return
		}
		if _, err := sc.Run(); errors.Is(err, simulate.ErrRefused) {
			t.Fatal(err)
		}
	})
}
