package run

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestHaltPoliciesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Halt{
		"never":          {When: HaltNever},
		"soon,fail=3":    {When: HaltSoon, Fail: 3},
		"now,fail=1":     {When: HaltNow, Fail: 1},
		"now,fail=20%":   {When: HaltNow, FailPercent: 20},
		"soon,success=2": {When: HaltSoon, Success: 2},
	} {
		got, err := ParseHalt(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{
		"now", "now,", "later,fail=1", "now,fail", "now,fail=0", "now,fail=-1", "now,fail=+1", "now,fail=x",
		"now,fail=101%", "now,success=5%", "now,done=1", "never,fail=1", "now,fail=1,success=1", "now,fail=%",
	} {
		if h, err := ParseHalt(text); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%q is read as %+v (%v), want ErrInvalid", text, h, err)
		}
	}
}

func TestHaltPoliciesAreReached(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy            string
		failed, succeeded int
		want              bool
	}{
		"never":                            {"never", 1000, 1000, false},
		"too few failures":                 {"now,fail=2", 1, 50, false},
		"enough failures":                  {"now,fail=2", 2, 0, true},
		"a percentage of two says nothing": {"soon,fail=50%", 2, 0, false},
		"a percentage below":               {"soon,fail=50%", 1, 2, false},
		"a percentage reached":             {"soon,fail=50%", 2, 2, true},
		"too few successes":                {"now,success=2", 9, 1, false},
		"enough successes":                 {"now,success=2", 9, 2, true},
	} {
		h, err := ParseHalt(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.reached(c.failed, c.succeeded); got != c.want {
			t.Errorf("%s: reached %v, want %v", name, got, c.want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		halted bool
		failed int
		want   int
	}{
		"all succeeded":                  {"never", false, 0, 0},
		"the number of failures":         {"never", false, 7, 7},
		"at most 101":                    {"never", false, 300, MaxFailureCode},
		"halted now by one: its own":     {"now,fail=1", true, 1, 42},
		"not halted: the number":         {"now,fail=1", false, 0, 0},
		"halted soon by one: the number": {"soon,fail=1", true, 1, 1},
		"halted now by two: the number":  {"now,fail=2", true, 2, 2},
		"halted by success":              {"now,success=1", true, 3, 0},
	} {
		h, err := ParseHalt(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.exitCode(c.halted, c.failed, 42); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
