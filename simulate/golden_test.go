package simulate_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/simulate"
)

// play plays a scenario of testdata.
func play(t *testing.T, name string) *simulate.Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	sc, err := simulate.Read(data)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	res, err := sc.Run()
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return res
}

// show renders placements, a line for each step that has some:
// "step: d1 w1, A/0 w2=4 gpu=0+1, A/1.3 w1=2" with the profile behind a dot when
// it is not the default one.
func show(r *simulate.Result) string {
	var lines []string
	for _, st := range r.Steps {
		var out []string
		for _, p := range st.Placements {
			what := p.Driver
			if p.Executor != nil {
				what = fmt.Sprintf("%s/%d", p.App, *p.Executor)
				if *p.Profile != 0 {
					what += fmt.Sprintf(".%d", *p.Profile)
				}
			}
			text := fmt.Sprintf("%s %s=%d", what, p.Worker, p.Cores)
			for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
				text += " " + name + "=" + strings.Join(p.Resources[name], "+")
			}
			out = append(out, text)
		}
		if len(out) > 0 {
			lines = append(lines, fmt.Sprintf("%d: %s", st.Step, strings.Join(out, ", ")))
		}
	}
	return strings.Join(lines, "\n")
}

// end renders the end: "A RUNNING 4 [0 1]" for applications, "d1 RUNNING w1"
// for drivers, "why" for what waits.
func end(r *simulate.Result) string {
	var out []string
	for _, a := range r.Final.Apps {
		out = append(out, fmt.Sprintf("%s %s %d %v%s", a.App, a.State, a.Cores, a.Executors, waits(a.Why)))
	}
	for _, d := range r.Final.Drivers {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Driver, d.State, d.Worker))+waits(d.Why))
	}
	return strings.Join(out, ", ")
}

func waits(why string) string {
	if why == "" {
		return ""
	}
	return " why"
}

// The scenarios are those of spark-standalone 3.2 to 3.4 by their numbers, and
// of what goes beyond Spark. What is expected was worked out by hand from the
// rules.
func TestTheGoldenCasesAreScheduledAsSparkDoes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, placed, end string }{
		{"case24-cores_free_asc-spread", "3: A/0 10001=2, A/1 10002=2", "A RUNNING 4 [0 1]"},
		{"case24-cores_free_asc-pack", "3: A/0 10001=2, A/1 10001=2", "A RUNNING 4 [0 1]"},
		{"case24-cores_free_desc-spread", "3: A/0 10003=2, A/1 10002=2", "A RUNNING 4 [0 1]"},
		{"case24-cores_free_desc-pack", "3: A/0 10003=2, A/1 10003=2", "A RUNNING 4 [0 1]"},
		{"case24-memory_free_asc-spread", "3: A/0 10001=2, A/1 10003=2", "A RUNNING 4 [0 1]"},
		{"case24-memory_free_asc-pack", "3: A/0 10001=2, A/1 10001=2", "A RUNNING 4 [0 1]"},
		{"case24-memory_free_desc-spread", "3: A/0 10002=2, A/1 10003=2", "A RUNNING 4 [0 1]"},
		{"case24-memory_free_desc-pack", "3: A/0 10002=2, A/1 10002=2", "A RUNNING 4 [0 1]"},
		{"case24-worker_id-spread", "3: A/0 10001=2, A/1 10002=2", "A RUNNING 4 [0 1]"},
		{"case24-worker_id-pack", "3: A/0 10001=2, A/1 10001=2", "A RUNNING 4 [0 1]"},
		{"case25-profiles", "4: A/0 w3=2, A/1.3 w2=1, A/2.4 w1=1, A/3.4 w2=1", "A RUNNING 5 [0 1 2 3] why"},
		{"case26-profiles-max-4", "4: A/0 w3=2, A/1.3 w2=1, A/2.4 w1=1", "A RUNNING 4 [0 1 2]"},
		{"case28-ties", "3: A/0 w3=4, A/1 w2=3, A/2 w1=3", "A RUNNING 10 [0 1 2]"},
		{"case30-spread", "3: A/0 w3=4, A/1 w3=4, A/2 w2=4, A/3 w1=4", "A RUNNING 16 [0 1 2 3]"},
		{"case31-pack", "3: A/0 w3=4, A/1 w3=4, A/2 w3=4, A/3 w3=4", "A RUNNING 16 [0 1 2 3]"},
		{"case33-below-size", "", "A WAITING 0 [] why"},
		{"case34-left-over", "2: A/0 w2=2, A/1 w1=2", "A RUNNING 4 [0 1]"},
		{"case35-first-takes-all", "2: A/0 w2=8, A/1 w1=8", "A RUNNING 16 [0 1], B WAITING 0 [] why"},
		{"case37-no-head-of-line", "3: B/0 w2=2, B/1 w1=2", "A WAITING 0 [] why, B RUNNING 4 [0 1]"},
		{"case38-default-cores", "2: A/0 w2=3, A/1 w1=2", "A RUNNING 5 [0 1]"},
		{"case40-memory-once", "2: A/0 w1=8", "A RUNNING 8 [0]"},
		{
			"case43-gpus", "3: A/0 w2=2 gpu=0, A/1 w2=2 gpu=1, A/2 w1=2 gpu=0, A/3 w1=2 gpu=1, A/4 w1=2 gpu=2, A/5 w1=2 gpu=3",
			"A RUNNING 12 [0 1 2 3 4 5]",
		},
		{"case46-dynamic", "2: A/0 w2=10, A/1 w1=10\n5: A/2 w2=10\n6: A/3 w1=10\n9: A/4 w2=10\n12: A/5 w2=10, A/6 w1=10", "A RUNNING 20 [5 6] why"},
		{"case47-dynamic-max-8", "2: A/0 w2=4, A/1 w1=4\n5: A/2 w2=8\n9: A/3 w2=4, A/4 w1=4\n12: A/5 w2=4, A/6 w1=4", "A RUNNING 8 [5 6]"},
		{
			"case49-dynamic-size-2",
			"2: A/0 w2=2, A/1 w2=2, A/2 w2=2, A/3 w2=2, A/4 w2=2, A/5 w1=2, A/6 w1=2, A/7 w1=2, A/8 w1=2, A/9 w1=2\n" +
				"5: A/10 w2=2\n6: A/11 w1=2, A/12 w1=2, A/13 w2=2\n" +
				"7: A/14 w2=2, A/15 w2=2, A/16 w2=2, A/17 w1=2, A/18 w1=2, A/19 w1=2\n9: A/20 w2=2, A/21 w1=2",
			"A RUNNING 16 [14 15 16 17 18 19 20 21]",
		},
		{
			"case51-max-drivers", "1: d1 w1=1\n2: d2 w1=1\n3: d3 w1=1\n4: d4 w1=1",
			"d1 RUNNING w1, d2 RUNNING w1, d3 RUNNING w1, d4 RUNNING w1, d5 SUBMITTED why, d6 SUBMITTED why",
		},
		{"case52-drivers-spread", "3: d1 w1=1\n4: d2 w2=1\n5: d3 w3=1", "d1 RUNNING w1, d2 RUNNING w2, d3 RUNNING w3"},
		{"drivers-packed", "3: d1 w1=4\n4: d2 w1=4\n5: d3 w2=4", "d1 RUNNING w1, d2 RUNNING w1, d3 RUNNING w2"},
		{"case55-driver-first", "2: d1 w1=2, A/0 w1=2", "A RUNNING 2 [0], d1 RUNNING w1"},
		{"case56-driver-resources", "1: d1 w1=1 fpga=a+b+c gpu=0+1+2", "d1 FINISHED w1"},
		{"case57-disjoint", "1: d1 w1=1 fpga=a+b+c gpu=0+1+2\n2: A/0 w1=1 fpga=d+e+f gpu=3+4+5", "A RUNNING 1 [0], d1 RUNNING w1"},
		{"supervised-keep-their-place", "2: s w1=3\n3: u w2=3\n7: s w1=3", "s RUNNING w1, u ERROR w2, q SUBMITTED why"},
		{"queues-priority", "2: B/0 w1=1, B/1 w1=1, B/2 w1=1, B/3 w1=1, B/4 w1=1, A/0 w1=1, A/1 w1=1, A/2 w1=1", "A RUNNING 3 [0 1 2], B RUNNING 5 [0 1 2 3 4]"},
		{"queues-weight", "2: A/0 w1=1, B/0 w1=1, B/1 w1=1, B/2 w1=1, A/1 w1=1, B/3 w1=1, B/4 w1=1, B/5 w1=1", "A RUNNING 2 [0 1], B RUNNING 6 [0 1 2 3 4 5]"},
		{"queues-cap", "1: A/0 w1=2, A/1 w1=2\n2: B/0 w1=1\n3: C/0 w1=1, C/1 w1=1, C/2 w1=1", "A RUNNING 4 [0 1], B RUNNING 1 [0], C RUNNING 3 [0 1 2]"},
		{"gang", "2: B/0 w1=1\n3: A/0 w2=2, A/1 w2=2, A/2 w1=2", "A RUNNING 6 [0 1 2], B RUNNING 1 [0]"},
		{"require-and-prefer", "3: A/0 w2=4\n4: B/0 w1=4", "A RUNNING 4 [0], B RUNNING 4 [0] why, C WAITING 0 [] why"},
		{"driver-share", "2: d1 w1=2\n3: d2 w2=2", "d1 RUNNING w1, d2 RUNNING w2, d3 SUBMITTED why"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			res := play(t, tc.file)
			if diff := cmp.Diff(tc.placed, show(res)); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.end, end(res)); diff != "" {
				t.Errorf("the end (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachScenarioOfTestdataIsExpectedToGiveSomething(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %v, %v", files, err)
	}
	source, err := os.ReadFile("golden_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".json"); !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("%s is in no table", f)
		}
	}
}
