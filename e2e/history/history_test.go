package history

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at makes an operation of one application with times in ms.
func at(call, ret int, kind Kind, outcome Outcome) Operation {
	op := Operation{
		Key: "a", Kind: kind, Outcome: outcome, App: "app-1",
		Call: time.Duration(call) * time.Millisecond, Return: time.Duration(ret) * time.Millisecond,
	}
	if kind == Register {
		op.App, op.Target, op.GotApp = "", 1, "app-1"
	}
	return op
}

func (o Operation) target(n int) Operation   { o.Target, o.GotTarget = n, n; return o }
func (o Operation) got(app string) Operation { o.GotApp = app; return o }
func (o Operation) ended() Operation         { o.GotEnded = true; return o }

func TestAHistoryIsAcceptedExactlyWhenACorrectClusterCouldAnswerSo(t *testing.T) {
	registered := at(0, 1, Register, Done)
	for _, tc := range []struct {
		name  string
		ops   []Operation
		legal bool
	}{
		{"register, set, read, kill, read", []Operation{
			registered, at(2, 3, SetTarget, Done).target(5), at(4, 5, Read, Done).target(5), at(6, 7, Kill, Done), at(8, 9, Read, Done).ended(),
		}, true},
		{"a repeated registration gives the same application", []Operation{registered, at(2, 3, Register, Done)}, true},
		{"a repeated registration gives another application", []Operation{registered, at(2, 3, Register, Done).got("app-2")}, false},
		{"an acknowledged application is gone", []Operation{registered, at(2, 3, Read, Absent)}, false},
		{"an acknowledged target is lost", []Operation{registered, at(2, 3, SetTarget, Done).target(5), at(4, 5, Read, Done).target(1)}, false},
		{"an acknowledged kill is lost", []Operation{registered, at(2, 3, Kill, Done), at(4, 5, Read, Done).target(1)}, false},
		{"a concurrent read sees the old or the new target", []Operation{
			registered, at(2, 9, SetTarget, Done).target(5), at(3, 4, Read, Done).target(1), at(5, 6, Read, Done).target(5),
		}, true},
		{"a read goes back in time", []Operation{
			registered, at(2, 9, SetTarget, Done).target(5), at(3, 4, Read, Done).target(5), at(5, 6, Read, Done).target(1),
		}, false},
		{"an unknown outcome never takes effect", []Operation{registered, at(2, 3, SetTarget, Unknown).target(5), at(8, 9, Read, Done).target(1)}, true},
		{"an unknown outcome takes effect long after its call returned", []Operation{
			registered, at(2, 3, SetTarget, Unknown).target(5), at(4, 5, Read, Done).target(1), at(6, 7, Read, Done).target(5),
		}, true},
		{"an unknown outcome takes effect twice", []Operation{
			registered, at(2, 3, SetTarget, Unknown).target(5), at(4, 5, Read, Done).target(5),
			at(6, 7, SetTarget, Done).target(2), at(8, 9, Read, Done).target(2), at(10, 11, Read, Done).target(5),
		}, false},
		{"an unknown outcome takes effect before its call", []Operation{registered, at(2, 3, Read, Done).target(5), at(4, 5, SetTarget, Unknown).target(5)}, false},
		{"what failed takes effect", []Operation{registered, at(2, 3, SetTarget, Failed).target(5), at(4, 5, Read, Done).target(5)}, false},
		{"what failed changes nothing", []Operation{registered, at(2, 3, Kill, Failed), at(4, 5, Read, Done).target(1)}, true},
		{"a registration of unknown outcome is found by its repeat", []Operation{at(0, 1, Register, Unknown).got(""), at(2, 3, Register, Done), at(4, 5, Read, Done).target(1)}, true},
		{"a call is refused because of a kill of unknown outcome", []Operation{registered, at(2, 3, Kill, Unknown), at(4, 5, SetTarget, Ended).target(2), at(6, 7, Read, Done).ended()}, true},
		{"a call is refused although nobody killed", []Operation{registered, at(2, 3, SetTarget, Ended).target(2)}, false},
		{"an ended application lives again", []Operation{registered, at(2, 3, SetTarget, Ended).target(2), at(4, 5, Kill, Unknown), at(6, 7, Read, Done).target(1)}, false},
		{"a target is taken after the end", []Operation{registered, at(2, 3, Kill, Done), at(4, 5, SetTarget, Done).target(2)}, false},
		{"a second kill is acknowledged", []Operation{registered, at(2, 3, Kill, Done), at(4, 5, Kill, Done)}, true},
		{"a read of what nobody registered", []Operation{at(2, 3, Read, Done).target(1)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Check(tc.ops, 10*time.Second)
			if tc.legal != (err == nil) {
				t.Errorf("legal: want %t, got error %v", tc.legal, err)
			}
			if errors.Is(err, ErrUndecided) {
				t.Errorf("undecided: %v", err)
			}
		})
	}
}

func TestOneBadKeyAmongManyIsNamedWithItsOperations(t *testing.T) {
	var ops []Operation
	for n := range 200 {
		for _, op := range []Operation{at(0, 1, Register, Done), at(2, 3, SetTarget, Done).target(n), at(4, 5, Read, Done).target(n)} {
			op.Key = fmt.Sprintf("key-%d", n)
			if n == 150 && op.Kind == Read {
				op.GotTarget++
			}
			ops = append(ops, op)
		}
	}
	err := Check(ops, 10*time.Second)
	if err == nil || !strings.Contains(err.Error(), "key-150:") || !strings.Contains(err.Error(), "target 151") {
		t.Errorf("error %v, want one that names key-150 and its read", err)
	}
}

func TestASearchThatDoesNotEndInTimeIsAnError(t *testing.T) {
	if err := Check([]Operation{at(0, 1, Register, Done)}, 0); !errors.Is(err, ErrUndecided) {
		t.Errorf("without time: %v, want %v", err, ErrUndecided)
	}
	// Half a thousand writes at once that are read in no order that fits.
	ops := []Operation{at(0, 1, Register, Done)}
	for n := range 500 {
		ops = append(ops, at(2, 1000, SetTarget, Done).target(n), at(2, 1000, Read, Done).target(n))
	}
	ops = append(ops, at(1001, 1002, Read, Done).target(-1))
	if err := Check(ops, 50*time.Millisecond); !errors.Is(err, ErrUndecided) {
		t.Errorf("a hard history: %v, want %v", err, ErrUndecided)
	}
}

func TestAReplicaIsComparedWithWhatWasAcknowledged(t *testing.T) {
	ops := []Operation{at(0, 1, Register, Done), at(2, 3, Kill, Done), at(4, 5, Kill, Failed)}
	for _, tc := range []struct {
		name  string
		held  map[string][]Held
		wants []string
	}{
		{"all is there", map[string][]Held{"a": {{"app-1", true}}}, nil},
		{"the application is lost", nil, []string{"application app-1 is lost", "application app-1 is lost"}},
		{"the kill is lost", map[string][]Held{"a": {{"app-1", false}}}, []string{"kill of app-1 is lost"}},
		{"it is there twice", map[string][]Held{"a": {{"app-1", true}, {"app-2", true}}}, []string{"2 times"}},
		{"nobody asked for it", map[string][]Held{"a": {{"app-1", true}}, "b": {{"app-2", false}}}, []string{"nobody can have registered"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Compare(ops, tc.held)
			if len(got) != len(tc.wants) {
				t.Fatalf("found %q, want %d violations", got, len(tc.wants))
			}
			for n, want := range tc.wants {
				if !strings.Contains(got[n], want) {
					t.Errorf("found %q, want it to say %q", got[n], want)
				}
			}
		})
	}
	failed := []Operation{at(0, 1, Register, Failed)}
	if got := Compare(failed, map[string][]Held{"a": {{"app-1", false}}}); len(got) != 1 {
		t.Errorf("a registration that failed is there: found %q, want one violation", got)
	}
	unknown := []Operation{at(0, 1, Register, Unknown)}
	for _, held := range []map[string][]Held{nil, {"a": {{"app-1", false}}}} {
		if got := Compare(unknown, held); len(got) != 0 {
			t.Errorf("a registration of unknown outcome with %v: found %q, want nothing", held, got)
		}
	}
}

func TestConcurrentClientsAreRecordedOnOneClock(t *testing.T) {
	r := NewRecorder()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 50 {
				r.Do(Operation{Client: n, Key: "a", Kind: Read}, func(op *Operation) { op.Outcome = Failed })
			}
		})
	}
	wg.Wait()
	ops := r.Operations()
	if len(ops) != 400 {
		t.Fatalf("%d operations, want 400", len(ops))
	}
	for _, op := range ops {
		if op.Return < op.Call || op.Outcome != Failed {
			t.Fatalf("recorded %v", op)
		}
	}
}
