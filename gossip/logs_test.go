package gossip

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestLinesOfTheLibrariesGetTheirLevels(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"information becomes debug":   {"[INFO] serf: EventMemberJoin: a", "[DEBUG] serf: EventMemberJoin: a"},
		"debug becomes trace":         {"[DEBUG] memberlist: Stream connection", "[TRACE] memberlist: Stream connection"},
		"a warning stays one":         {"[WARN] memberlist: Refuting", "[WARN]  memberlist: Refuting"},
		"an error becomes a warning":  {"[ERR] memberlist: Push/Pull failed", "[WARN]  memberlist: Push/Pull failed"},
		"no level becomes trace":      {"something", "[TRACE] something"},
		"the echo of a refusal":       {"[ERR] memberlist: " + refusalMark + "x", "[TRACE] memberlist: " + refusalMark + "x"},
		"a bracket that never closes": {"[oops", "[TRACE] [oops"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var logs lockedBuffer
			w := newLogWriter(hclog.New(&hclog.LoggerOptions{Output: &logs, Level: hclog.Trace}), func(string) {})
			fmt.Fprintln(w, tt.line)
			if !strings.Contains(logs.String(), tt.want) {
				t.Errorf("got %q, want %q in it", logs.String(), tt.want)
			}
		})
	}
}

func TestComplaintsAreBoundedPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs lockedBuffer
		w := newLogWriter(hclog.New(&hclog.LoggerOptions{Output: &logs, Level: hclog.Warn}), func(string) {})
		for i := range 10 * maxComplaints {
			fmt.Fprintln(w, "[ERR] memberlist: the same")
			fmt.Fprintf(w, "[WARN] memberlist: different %d\n", i)
		}
		if got := strings.Count(logs.String(), "\n"); got != maxComplaints {
			t.Errorf("lines in the first minute: got %d, want %d", got, maxComplaints)
		}
		time.Sleep(complaintInterval)
		fmt.Fprintln(w, "[ERR] memberlist: the same")
		if got := strings.Count(logs.String(), "the same"); got != 2 {
			t.Errorf("lines about the same after another minute: got %d, want 2", got)
		}
		if !strings.Contains(logs.String(), "suppressed") {
			t.Errorf("what was left out is not mentioned:\n%s", logs.String())
		}
	})
}
