package logline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Limits of a line. A stack of a panic, the longest thing we log, is 8 KiB.
const (
	// Max bounds a line, its end included.
	Max = 16 << 10
	// keepText is how much of each long text a shortened JSON line keeps, and keepFields how many fields.
	keepText   = 1 << 10
	keepFields = 12
)

// Writer bounds the lines that are written through it. It is as safe for concurrent use as the writer below it: each Write
// makes one Write.
type Writer struct {
	out  io.Writer
	json bool
}

// NewWriter bounds lines to out, each of which is a JSON object if asJSON is set.
func NewWriter(out io.Writer, asJSON bool) *Writer { return &Writer{out: out, json: asJSON} }

// Write implements io.Writer for one line. Line breaks within it, which only values can have, stay as they are.
func (w *Writer) Write(p []byte) (int, error) {
	line := p
	if len(line) > Max {
		if w.json {
			line = shortJSON(p)
		} else {
			line = shortText(p)
		}
	}
	if _, err := w.out.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil // the caller has no use for what was left out
}

func shortText(p []byte) []byte {
	end := fmt.Sprintf(" … (%d bytes cut)\n", len(p)-Max)
	return append([]byte(strings.ToValidUTF8(string(p[:Max-len(end)-8]), "")), end...)
}

// shortJSON shortens texts first and then leaves fields out, those of the logger itself excepted.
func shortJSON(p []byte) []byte {
	var fields map[string]any
	if err := json.Unmarshal(p, &fields); err != nil {
		fields = map[string]any{"@message": "a line of the log that could not be read again: " + cut(string(bytes.TrimSpace(p)))}
	}
	kept := make(map[string]any, keepFields)
	for _, name := range []string{"@level", "@message", "@module", "@timestamp", "@caller"} {
		if v, there := fields[name]; there {
			kept[name] = cutValue(v)
			delete(fields, name)
		}
	}
	for name, v := range fields {
		if len(kept) >= keepFields {
			break
		}
		kept[cut(name)] = cutValue(v)
	}
	kept["bytes_cut"] = len(p)
	line, err := json.Marshal(kept)
	if err != nil || len(line) >= Max {
		line = []byte(`{"@level":"error","@message":"a line of the log was too long"}`)
	}
	return append(line, '\n')
}

// cutValue shortens texts and replaces structures by the beginning of their JSON.
func cutValue(v any) any {
	switch x := v.(type) {
	case string:
		return cut(x)
	case map[string]any, []any:
		data, err := json.Marshal(x)
		if err != nil {
			return "…"
		}
		return cut(string(data))
	}
	return v
}

func cut(s string) string {
	if len(s) <= keepText {
		return s
	}
	return strings.ToValidUTF8(s[:keepText], "") + "…"
}
