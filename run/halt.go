package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// HaltWhen says what happens to the tasks that run when a run halts.
type HaltWhen string

// When a run halts.
const (
	HaltNever HaltWhen = "never" // every task is run
	HaltSoon  HaltWhen = "soon"  // no further task starts; those that run end
	HaltNow   HaltWhen = "now"   // those that run are killed
)

// Halt is a policy for stopping early. The zero value never does.
type Halt struct {
	When HaltWhen
	// One of these is not 0.
	Fail        int // failed tasks
	FailPercent int // failed tasks in a hundred that have ended
	Success     int // successful tasks
}

// stops reports whether the policy can ever stop a run.
func (h Halt) stops() bool { return h.When == HaltSoon || h.When == HaltNow }

// ParseHalt reads never, or soon or now with fail=N, fail=N% or success=N, as
// in "now,fail=1". Errors wrap model.ErrInvalid.
func ParseHalt(s string) (Halt, error) {
	bad := func() (Halt, error) {
		return Halt{}, fmt.Errorf("halt %q: %w: want never, or soon or now with fail=N, fail=N%% or success=N, as in now,fail=1", s, model.ErrInvalid)
	}
	if s == "" || s == string(HaltNever) {
		return Halt{When: HaltNever}, nil
	}
	when, what, ok := strings.Cut(s, ",")
	h := Halt{When: HaltWhen(when)}
	if !ok || h.When != HaltSoon && h.When != HaltNow {
		return bad()
	}
	name, value, _ := strings.Cut(what, "=")
	digits, percent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || digits[0] == '+' || percent && n > 100 {
		return bad()
	}
	switch {
	case name == "fail" && percent:
		h.FailPercent = n
	case name == "fail":
		h.Fail = n
	case name == "success" && !percent:
		h.Success = n
	default:
		return bad()
	}
	return h, nil
}

// String is what ParseHalt reads.
func (h Halt) String() string {
	switch {
	case h.Fail > 0:
		return fmt.Sprintf("%s,fail=%d", h.When, h.Fail)
	case h.FailPercent > 0:
		return fmt.Sprintf("%s,fail=%d%%", h.When, h.FailPercent)
	case h.Success > 0:
		return fmt.Sprintf("%s,success=%d", h.When, h.Success)
	}
	return string(HaltNever)
}

// reached reports whether to halt after this many tasks.
func (h Halt) reached(failed, succeeded int) bool {
	switch ended := failed + succeeded; {
	case h.Fail > 0:
		return failed >= h.Fail
	case h.FailPercent > 0:
		return ended >= minHaltSample && failed*100 >= h.FailPercent*ended
	case h.Success > 0:
		return succeeded >= h.Success
	}
	return false
}

// exitCode is that of the whole run; failCode is that of the task that failed
// first.
func (h Halt) exitCode(halted bool, failed, failCode int) int {
	switch {
	case halted && h.Success > 0:
		return 0
	case halted && h.When == HaltNow && h.Fail == 1:
		return failCode
	}
	return min(failed, MaxFailureCode)
}
