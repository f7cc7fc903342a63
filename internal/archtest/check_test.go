package archtest

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small is a set of rules with one of each kind.
func small() Rules {
	return Rules{
		Module: "m",
		Layers: map[string]Layer{
			"low": {0, "low things"}, "mid": {1, "mid things"}, "mate": {1, "mates"},
			"high": {2, "high things"}, "tests": {3, "tests"},
		},
		Pairs:        []Pair{{"mate", "mid", "they belong together"}},
		Bans:         []Ban{{"high", []string{"low", "x.org/raft/..."}, false, "it hangs"}, {"mid", []string{"time"}, true, "no clocks"}},
		Exclusives:   []Exclusive{{"x.org/serf/...", []string{"mid"}, "one adapter"}, {"tests", nil, "tests only"}},
		NoGoroutines: []Reasoned{{"low", "pure"}},
		MaxLines:     10,
	}
}

// pkg is a documented package with imports.
func pkg(name string, imports ...string) Package {
	return Package{Name: name, Imports: imports, Files: []File{{Name: "doc.go", PackageDoc: "Package x does."}}}
}

func TestCheck(t *testing.T) {
	with := func(p Package, files ...File) Package {
		p.Files = append(p.Files, files...)
		return p
	}
	for _, test := range []struct {
		name     string
		packages []Package
		want     []string
	}{
		{
			"a tree that obeys has no violation",
			[]Package{pkg("low", "fmt"), pkg("mid", "m/low", "x.org/serf/serf"), pkg("mate", "m/mid", "m/low"), pkg("high", "os")},
			nil,
		},
		{
			"a higher layer is not imported",
			[]Package{pkg("low", "m/mid"), pkg("mid")},
			[]string{"low (layer 0: low things) must not import mid (layer 1: mid things): imports go to lower layers only"},
		},
		{
			"nor is the same layer, unless the pair is listed",
			[]Package{pkg("mid", "m/mate"), pkg("mate", "m/mid")},
			[]string{"mid (layer 1: mid things) must not import mate (layer 1: mates): imports go to lower layers only"},
		},
		{
			"a package in no layer names the fix",
			[]Package{pkg("new/thing")},
			[]string{"new/thing: is in no layer: add it to layers() in internal/archtest/table.go, with what it is for"},
		},
		{
			"a ban sees through packages of the module",
			[]Package{pkg("low"), pkg("mid", "m/low"), pkg("high", "m/mid")},
			[]string{"high -> mid must not import low: it hangs"},
		},
		{
			"a ban with dots covers what is below, but not what has the same beginning",
			[]Package{pkg("high", "x.org/raft/v2", "x.org/raft-other")},
			[]string{"high must not import x.org/raft/v2: it hangs"},
		},
		{
			"a direct ban does not see through",
			[]Package{pkg("low", "time"), pkg("mid", "m/low")},
			nil,
		},
		{
			"a direct ban sees the package itself",
			[]Package{pkg("mid", "time")},
			[]string{"mid must not import time: no clocks"},
		},
		{
			"an exclusive import is for its owner",
			[]Package{pkg("high", "x.org/serf/serf", "m/tests"), pkg("tests")},
			[]string{
				"high (layer 2: high things) must not import tests (layer 3: tests): imports go to lower layers only",
				"high must not import x.org/serf/serf: only mid may: one adapter",
				"high must not import tests: no package may: tests only",
			},
		},
		{
			"a package without doc.go, or with an empty one, is reported",
			[]Package{{Name: "low", Files: []File{{Name: "a.go", PackageDoc: "Package low."}}}, {Name: "mid", Files: []File{{Name: "doc.go"}}}},
			[]string{
				`low: needs doc.go with a comment that begins with "Package ": what it owns, what it does not, who may import it`,
				`mid: needs doc.go with a comment that begins with "Package ": what it owns, what it does not, who may import it`,
			},
		},
		{
			"a command is documented in main.go, a generated package elsewhere",
			[]Package{{Name: "high", Files: []File{{Name: "main.go", Command: true, PackageDoc: "Command x."}}}, {Name: "low", Files: []File{{Name: "a.pb.go", Generated: true, Lines: 99}}}},
			nil,
		},
		{
			"a long file is reported, unless it is generated",
			[]Package{with(pkg("low"), File{Name: "long_test.go", Lines: 11, Test: true}, File{Name: "gen.go", Lines: 999, Generated: true}, File{Name: "fits.go", Lines: 10})},
			[]string{"low/long_test.go: has 11 lines, the limit is 10: split it by entity"},
		},
		{
			"a goroutine in a pure package is reported, unless it is in a test",
			[]Package{with(pkg("low"), File{Name: "a.go", GoLine: 7}, File{Name: "a_test.go", GoLine: 8, Test: true})},
			[]string{"low/a.go:7: must not start a goroutine: pure"},
		},
		{
			"a sleep in a test is reported, unless the file starts bubbles, itself or through its package",
			[]Package{with(
				pkg("low"), File{Name: "a.go", SleepLine: 7},
				File{Name: "a_test.go", SleepLine: 8, Test: true, Calls: []string{"other"}},
				File{Name: "b_test.go", SleepLine: 9, Test: true, Bubbles: []string{"simulate"}},
				File{Name: "c_test.go", SleepLine: 9, Test: true, Calls: []string{"simulate"}, CalledBy: []Call{{From: "few", To: "simulate"}}},
				File{Name: "d_test.go", SleepLine: 9, Test: true, Calls: []string{"few"}},
			)},
			[]string{"low/a_test.go:8: must not sleep outside a testing/synctest bubble: wait for the thing itself, with a deadline"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Check(small(), test.packages)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	for _, test := range []struct {
		file string
		want File
	}{
		{"doc.go", File{Name: "doc.go", Lines: 2, PackageDoc: "Package source is read by a test.\n"}},
		{"goroutine.go", File{Name: "goroutine.go", Lines: 6, GoLine: 4, Calls: []string{"f"}, CalledBy: []Call{{"start", "f"}}}},
		{"sleep_test.go", File{Name: "sleep_test.go", Lines: 12, SleepLine: 10, Test: true, Bubbles: []string{"simulate"}, Calls: []string{"sleep"}, CalledBy: []Call{{"simulate", "sleep"}}}},
		{"generated.go", File{Name: "generated.go", Lines: 3, Generated: true}},
	} {
		got, err := ReadFile(filepath.Join("testdata", "source", test.file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.file, diff)
		}
	}
}
