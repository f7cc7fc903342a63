package logline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

func TestEveryLineOfAJSONLogIsBoundedAndParseable(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Name: "hearth", JSONFormat: true, Level: hclog.Trace, Output: NewWriter(&out, true)}).Named("part").With("node", "m1")
	long := strings.Repeat("ä\"\\\n\x00\x1b", 20_000)
	many := []any{}
	for i := range 2000 {
		many = append(many, fmt.Sprint("key", i), long[:200])
	}
	log.Info(long)
	log.Error("panic", "stack", long, "err", errors.New(long))
	log.Warn("many", many...)
	log.Debug("structure", "v", map[string]any{"a": strings.Split(long, "\n")})
	log.Info("invalid utf-8", "v", "\xff\xfe", "f", func() {})
	log.Info("odd", "key")
	log.Info("short", "n", 1)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("not JSON: %v: %.200s", err, line)
			continue
		}
		if len(line) >= Max {
			t.Errorf("a line of %d bytes: %.100s", len(line), line)
		}
		for _, field := range []string{"@level", "@message", "@timestamp", "@module"} {
			if v[field] == nil {
				t.Errorf("%s is missing: %.200s", field, line)
			}
		}
	}
	if len(lines) < 7 {
		t.Errorf("%d lines, want those of seven entries", len(lines))
	}
}

func TestALongLineOfTextIsCutWithinACharacterOfNone(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: NewWriter(&out, false)})
	log.Info("x" + strings.Repeat("ä", 20_000))
	if out.Len() > Max || !utf8.Valid(out.Bytes()) || !strings.HasSuffix(out.String(), "bytes cut)\n") {
		t.Errorf("%d bytes, ends in %q", out.Len(), out.String()[max(0, out.Len()-40):])
	}
	out.Reset()
	log.Info("short", "n", 1)
	if !strings.HasSuffix(out.String(), "short: n=1\n") {
		t.Errorf("got %q", out.String())
	}
}

func FuzzJSONLine(f *testing.F) {
	f.Add([]byte(`{"@level":"info","@message":"` + strings.Repeat("x", Max) + `"}`))
	f.Add([]byte(strings.Repeat("{", Max+1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		line := shortJSON(data)
		if !json.Valid(line) || len(line) > Max {
			t.Errorf("%d bytes: %.200s", len(line), line)
		}
	})
}
