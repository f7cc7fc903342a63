package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// testNames finds names such as `raftnode.TestSimX` or
// `workerd/keeper.FuzzFrame` in documents.
var testNames = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")

// A document that names a test makes a promise; it must not outlive the test.
func TestEveryTestNamedInTheDocumentsExists(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]map[string]bool{}
	named := 0
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testNames.FindAllStringSubmatch(string(text), -1) {
			dir, name := m[1], m[2]
			if defined[dir] == nil {
				defined[dir] = testsIn(t, filepath.Join(root, filepath.FromSlash(dir)))
			}
			if !defined[dir][name] {
				t.Errorf("%s names %s.%s, which does not exist", filepath.Base(path), dir, name)
			}
			named++
		}
	}
	if named == 0 {
		t.Error("no document names a test: the pattern is wrong, or docs/reliability.md is gone")
	}
}

var testFuncs = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)\(`)

// testsIn lists the tests of one directory, whatever their build tags.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFuncs.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
	}
	return out
}
