package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const referencePath = "../docs/configuration.md"

// The reference is written from the keys, so that it cannot miss one: UPDATE=1
// rewrites it.
func TestTheReferenceListsEveryKey(t *testing.T) {
	want := reference(t)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not current, run make golden (-want +got):\n%s", referencePath, diff)
	}
}

// reference is the head, which is prose, and a table for each kind of process.
func reference(t *testing.T) string {
	t.Helper()
	head, err := os.ReadFile("testdata/reference-head.md")
	if err != nil {
		t.Fatal(err)
	}
	m, w, c := DefaultMaster(), DefaultWorker(), DefaultClient()
	var b strings.Builder
	b.Write(head)
	for _, kind := range []struct {
		title string
		keys  []key
	}{{"`hearth master`", masterKeys(&m)}, {"`hearth worker`", workerKeys(&w)}, {"Client commands", clientKeys(&c)}} {
		fmt.Fprintf(&b, "\n## %s\n\n| key | flag | default | meaning |\n| --- | --- | --- | --- |\n", kind.title)
		for _, k := range kind.keys {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(k.field()), code(flagName(k)), code(k.value.text()), k.usage)
		}
	}
	return b.String()
}

func flagName(k key) string {
	if k.flag == "" {
		return ""
	}
	return "--" + k.flag
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
