package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/bench"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// TestTheJSONOfEveryVerbKeepsItsFields fails when a field of -o json is gone,
// renamed or of another kind, which breaks programs that read it. A field that
// was added is recorded with -update.
func TestTheJSONOfEveryVerbKeepsItsFields(t *testing.T) {
	var b strings.Builder
	for _, v := range []struct {
		verb string
		view any
	}{
		{"app", model.AppView{}},
		{"apps", appsView{}},
		{"audit", auditView{}},
		{"audit -f, for each line", model.AuditView{}},
		{"ca show", caView{}},
		{"bench", bench.Report{}},
		{"demo --keep --no-job", demo.Cluster{}},
		{"drain, undrain", drainedView{}},
		{"kill, operator raft transfer, operator raft leave", doneView{}},
		{"operator gossip keys", gossipKeysView{}},
		{"operator gossip members", gossipView{}},
		{"operator raft list", raftView{}},
		{"queue", model.WaitingView{}},
		{"settings get", settingsView{}},
		{"settings set", settingsSetView{}},
		{"status", model.ClusterView{}},
		{"submit, wait", model.AppView{}},
		{"token create", tokenCreatedView{}},
		{"token list", tokensView{}},
		{"version", versionView{}},
		{"worker status, worker restart", workerd.Status{}},
		{"why", model.Why{}},
		{"workers", workersView{}},
	} {
		fmt.Fprintf(&b, "%s\n", v.verb)
		fields(&b, "  ", reflect.TypeOf(v.view))
	}
	path := filepath.Join("testdata", "schema.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the JSON of a verb has changed (-recorded +now); a field may be added (-update), never removed, renamed or retyped:\n%s", diff)
	}
}

var update = flag.Bool("update", false, "record the present schema")

// fields lists the JSON fields of a struct with their kinds, nested ones
// indented.
func fields(b *strings.Builder, indent string, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if options != "" {
			options = ", " + options
		}
		kind, nested := kindOf(f.Type)
		if f.Anonymous && name == "" { // its fields are ours in JSON
			fields(b, indent, nested)
			continue
		}
		fmt.Fprintf(b, "%s%s: %s%s\n", indent, name, kind, options)
		if nested != nil {
			fields(b, indent+"  ", nested)
		}
	}
}

// kindOf names a type as JSON has it, and returns the struct in it.
func kindOf(t reflect.Type) (kind string, nested reflect.Type) {
	if t == reflect.TypeFor[time.Time]() {
		return "time", nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return "object", t
	case reflect.Pointer: // null, or absent with omitempty
		return kindOf(t.Elem())
	case reflect.Slice:
		kind, nested = kindOf(t.Elem())
		return "list of " + kind, nested
	case reflect.Map:
		kind, nested = kindOf(t.Elem())
		return "map to " + kind, nested
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer", nil
	case reflect.Float64:
		return "number", nil
	default:
		return "UNEXPECTED " + t.String(), nil
	}
}

func TestNoFieldOfTheSchemaIsUnnamed(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "schema.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		name, _, field := strings.Cut(strings.TrimSpace(line), ": ")
		if field && (name == "" || name != strings.ToLower(name)) || strings.Contains(line, "UNEXPECTED") {
			t.Errorf("%q: want a name in snake_case and a kind that JSON has", line)
		}
	}
}
