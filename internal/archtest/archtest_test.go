package archtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

func TestTheTreeObeysTheRules(t *testing.T) {
	packages, err := Load(t.Context(), root, ModulePath)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("got no packages: the check looked at nothing")
	}
	for _, violation := range Check(HearthRules(), packages) {
		t.Error(violation)
	}
}

func TestNoModuleReplacesAnother(t *testing.T) {
	for _, dir := range []string{root, filepath.Join(root, "tools")} {
		found, err := Replacements(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			t.Errorf("%s/go.mod: replace %s: a module that replaces another cannot be imported or installed", dir, r)
		}
	}
}

func TestAReplaceDirectiveIsFound(t *testing.T) {
	got, err := Replacements(t.Context(), filepath.Join("testdata", "replace"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/a => ../a"}, got); diff != "" {
		t.Errorf("replacements (-want +got):\n%s", diff)
	}
}

// A rule about a package that is not in the table would never fail again.
func TestTheRulesNameOnlyPackagesOfTheTable(t *testing.T) {
	rules := HearthRules()
	known := func(where, name string) {
		if _, ok := rules.Layers[name]; !ok {
			t.Errorf("%s: %s is not in layers()", where, name)
		}
	}
	ours := func(where, target string) {
		first, _, _ := strings.Cut(target, "/")
		dot := strings.Contains(first, ".")
		std := []string{"crypto", "io", "log", "math", "net", "os", "sync", "time"}
		if !dot && !slices.Contains(std, first) {
			known(where, target)
		}
	}
	for _, b := range rules.Bans {
		known("ban", b.From)
		for _, target := range b.Targets {
			ours("ban of "+b.From, target)
		}
		if b.Why == "" {
			t.Errorf("ban of %s has no reason", b.From)
		}
	}
	for _, e := range rules.Exclusives {
		ours("exclusive", e.Target)
		for _, only := range e.Only {
			known("exclusive "+e.Target, only)
		}
	}
	for _, p := range rules.Pairs {
		known("pair", p.From)
		known("pair", p.To)
	}
	for _, r := range rules.NoGoroutines {
		known("no goroutines", r.Package)
	}
	for name, l := range rules.Layers {
		if l.Why == "" {
			t.Errorf("layer of %s has no reason", name)
		}
	}
}
