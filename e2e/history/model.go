package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrUndecided is returned when the search did not end in time.
var ErrUndecided = errors.New("undecided")

// app is one application as clients see it.
type app struct {
	exists bool
	id     string // "" while only a registration of unknown outcome has made it
	target int
	ended  bool
}

// is reports whether the application may be the one that a client knows as id,
// and what is known of it then.
func (a app) is(id string) (app, bool) {
	if !a.exists || (a.id != "" && a.id != id) {
		return a, false
	}
	a.id = id
	return a, true
}

// step says whether an operation may have been answered as it was in a state,
// and what the state is afterwards. It is the specification: an application is
// registered once per key, takes the last target, and stays ended.
func step(a app, op Operation) (bool, app) {
	switch op.Outcome {
	case Failed:
		return true, a
	case Unknown:
		return true, affected(a, op)
	case Absent:
		return !a.exists, a
	case Ended:
		known, ok := a.is(op.App)
		return ok && a.ended, known
	case Done:
		return acknowledged(a, op)
	}
	return false, a
}

// affected is the state after an operation whose answer is not known, at the
// moment it takes effect.
func affected(a app, op Operation) app {
	switch op.Kind {
	case Register:
		if !a.exists {
			return app{exists: true, target: op.Target}
		}
	case SetTarget:
		if a.exists && !a.ended {
			a.target = op.Target
		}
	case Kill:
		a.ended = a.exists
	case Read:
	}
	return a
}

func acknowledged(a app, op Operation) (bool, app) {
	if op.Kind == Register {
		if !a.exists {
			return op.GotApp != "", app{exists: true, id: op.GotApp, target: op.Target}
		}
		known, ok := a.is(op.GotApp)
		return ok, known
	}
	known, ok := a.is(op.App)
	if !ok {
		return false, a
	}
	switch op.Kind {
	case Kill:
		known.ended = true // ending what was killed is acknowledged too
		return true, known
	case SetTarget:
		if a.ended {
			return false, a
		}
		known.target = op.Target
		return true, known
	case Read:
		// What an ended application once wanted is no promise.
		return op.GotEnded == a.ended && (a.ended || op.GotTarget == a.target), known
	case Register:
	}
	return false, a
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return app{} },
		Step: func(state, input, _ any) (bool, any) { return step(state.(app), input.(Operation)) },
	}
}

// Check returns nil if the operations of every key are linearizable, within the
// time limit for all keys together. An error names the key and its operations;
// it wraps ErrUndecided if the search did not end.
func Check(ops []Operation, limit time.Duration) error {
	byKey := map[string][]Operation{}
	for _, op := range ops {
		byKey[op.Key] = append(byKey[op.Key], op)
	}
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	deadline := time.Now().Add(limit)
	for _, key := range keys {
		left := time.Until(deadline)
		if left <= 0 { // porcupine takes 0 for no limit
			return fmt.Errorf("check the history of %s: %w within %s", key, ErrUndecided, limit)
		}
		switch porcupine.CheckOperationsTimeout(model(), forPorcupine(byKey[key]), left) {
		case porcupine.Ok:
		case porcupine.Illegal:
			return fmt.Errorf("no correct cluster answers so about %s:\n%s", key, describe(byKey[key]))
		default:
			return fmt.Errorf("check the history of %s: %w within %s:\n%s", key, ErrUndecided, limit, describe(byKey[key]))
		}
	}
	return nil
}

func forPorcupine(ops []Operation) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops))
	for n, op := range ops {
		end := int64(op.Return)
		if op.Outcome == Unknown {
			end = math.MaxInt64
		}
		out[n] = porcupine.Operation{ClientId: op.Client, Input: op, Call: int64(op.Call), Return: end}
	}
	return out
}

func describe(ops []Operation) string {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}
