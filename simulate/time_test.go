package simulate_test

import (
	"strings"
	"testing"

	"github.com/hearthd/hearth/simulate"
)

// placedAt lists who was placed after each step, as "A B" for instance.
func placedAt(t *testing.T, scenario string) []string {
	t.Helper()
	res, err := run(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return placedBy(res)
}

func placedBy(res *simulate.Result) []string {
	var out []string
	for _, s := range res.Steps {
		var who []string
		for _, p := range s.Placements {
			who = append(who, p.App+p.Driver)
		}
		out = append(out, strings.Join(who, " "))
	}
	return out
}

func wantPlaced(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("placed %q, want %q", got, want)
	}
}

// A gang of three waits for two workers of two cores. Until it is due, whoever
// wants them takes cores that become free; from then on they are kept for it, at
// most half of all.
func TestCoresAreKeptForAGangAfterTheTimeOfTheScenario(t *testing.T) {
	t.Parallel()
	begin := `{"settings":{"gang_after":"90s"},"steps":[
		{"op":"add_worker","id":"w1","cores":2,"memory_mib":8192},
		{"op":"add_worker","id":"w2","cores":2,"memory_mib":8192},
		{"op":"submit_app","app":"A","executor_cores":2,"cores_max":4},
		{"op":"submit_app","app":"G","executor_cores":1,"cores_max":3,"initial_executors":3,"min_executors":3},`
	kill := func(n string) string { return `{"op":"kill_executors","app":"A","executors":[` + n + `]}` }
	wantPlaced(t, placedAt(t, begin+kill("0")+`]}`), "", "", "A A", "", "A")
	wantPlaced(t, placedAt(t, begin+`{"op":"advance","seconds":89},`+kill("0")+`]}`), "", "", "A A", "", "", "A")
	wantPlaced(t, placedAt(t, begin+`{"op":"advance","seconds":90},`+kill("0")+`]}`), "", "", "A A", "", "", "")
}

func TestAUserGetsNoMoreThanTheCapOverAllApplications(t *testing.T) {
	t.Parallel()
	got := placedAt(t, `{"settings":{"user_cores":3},"steps":[
		{"op":"add_worker","id":"w1","cores":16,"memory_mib":65536},
		{"op":"submit_app","app":"A","user":"ann","executor_cores":1,"initial_executors":2},
		{"op":"submit_app","app":"B","user":"ann","executor_cores":1,"initial_executors":2},
		{"op":"submit_app","app":"C","user":"bob","executor_cores":1,"initial_executors":2},
		{"op":"submit_app","app":"D","executor_cores":1,"initial_executors":2},
		{"op":"submit_app","app":"E","executor_cores":1,"initial_executors":2},
		{"op":"finish_app","app":"A"}]}`)
	wantPlaced(t, got, "", "A A", "B", "C C", "D D", "E", "B")
}

func TestWhatIsWrongWithTimeAndUsersIsSaid(t *testing.T) {
	t.Parallel()
	for scenario, want := range map[string]string{
		`{"steps":[{"op":"advance"}]}`:                         "step 0: advance: ",
		`{"steps":[{"op":"advance","seconds":0}]}`:             "seconds",
		`{"steps":[{"op":"advance","seconds":-1}]}`:            "seconds",
		`{"steps":[{"op":"advance","seconds":1.5}]}`:           "seconds",
		`{"steps":[{"op":"advance","seconds":31622401}]}`:      "must be at most 31622400",
		`{"steps":[{"op":"advance","seconds":1,"minutes":1}]}`: `unknown field "minutes"`,
		`{"settings":{"gang_after":90},"steps":[]}`:            "want a text",
		`{"settings":{"gang_after":"soon"},"steps":[]}`:        "must be a duration",
		`{"settings":{"gang_after":"-1s"},"steps":[]}`:         "settings: ",
		`{"settings":{"gang_after":"900h"},"steps":[]}`:        "settings: ",
		`{"settings":{"user_cores":-1},"steps":[]}`:            "user_cores",
		`{"steps":[{"op":"submit_app","app":"A","user":7}]}`:   "user",
		`{"steps":[{"op":"advance","seconds":1e3}]}`:           "seconds",
	} {
		if _, err := run(scenario); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", scenario, err, want)
		}
	}
}
