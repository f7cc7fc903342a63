package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// maxDepth bounds how deep values lie within each other.
const maxDepth = 32

// object is a JSON object as it was written. Package json would take a name
// twice, and in any case, and unknown ones; a scenario with a slip of the pen
// must not be something else instead.
type object struct {
	names  []string
	values map[string]any
}

// readJSON reads one value and nothing after it: nil, bool, json.Number, string,
// []any or *object.
//
// What is wrong within a step is a *StepError.
func readJSON(data []byte) (any, error) {
	r := reader{Decoder: json.NewDecoder(bytes.NewReader(data)), step: noStep}
	r.UseNumber()
	v, err := r.value(0)
	switch {
	case err != nil && r.step != noStep:
		return nil, &StepError{Step: r.step, Err: err}
	case err != nil:
		return nil, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the end of the scenario", model.ErrInvalid)
	}
	return v, nil
}

// noStep is where a reader is outside of the steps.
const noStep = -1

// reader reads values and knows in which step it is.
type reader struct {
	*json.Decoder
	field string // of the scenario itself
	step  int
}

func (r *reader) value(depth int) (any, error) {
	tok, err := r.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the scenario ends too early", model.ErrInvalid)
	case err != nil:
		return nil, fmt.Errorf("%w: not JSON: %w", model.ErrInvalid, err)
	case depth > maxDepth:
		return nil, fmt.Errorf("%w: values lie more than %d deep", model.ErrInvalid, maxDepth)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if delim == '[' {
		return r.list(depth)
	}
	return r.object(depth)
}

func (r *reader) list(depth int) (any, error) {
	list, ofSteps := []any{}, depth == 1 && r.field == "steps"
	for r.More() {
		if ofSteps {
			r.step = len(list)
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if ofSteps {
		r.step = noStep
	}
	return list, r.end()
}

func (r *reader) object(depth int) (any, error) {
	o := &object{values: make(map[string]any)}
	for r.More() {
		tok, err := r.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: not JSON: %w", model.ErrInvalid, err)
		}
		name, _ := tok.(string)
		if _, twice := o.values[name]; twice {
			return nil, fmt.Errorf("%w: %q appears twice in one object", model.ErrInvalid, name)
		}
		if depth == 0 {
			r.field = name
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.names = append(o.names, name)
		o.values[name] = v
	}
	return o, r.end()
}

// end reads the bracket behind the last value.
func (r *reader) end() error {
	if _, err := r.Token(); err != nil {
		return fmt.Errorf("%w: not JSON: %w", model.ErrInvalid, err)
	}
	return nil
}

// fields reads the values of an object by name and keeps the first error. What
// was not asked for is unknown.
type fields struct {
	o     *object
	err   error
	asked []string
}

func fieldsOf(v any) *fields {
	o, ok := v.(*object)
	if !ok {
		return &fields{o: &object{}, err: fmt.Errorf("%w: want an object, not %s", model.ErrInvalid, describe(v))}
	}
	return &fields{o: o}
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s: "+format, append([]any{model.ErrInvalid, name}, args...)...)
	}
}

// get returns a value, or nil if it is null or missing.
func (f *fields) get(name string) any {
	if !slices.Contains(f.asked, name) {
		f.asked = append(f.asked, name)
	}
	return f.o.values[name]
}

// done returns the first error, which may be a field that nobody knows.
func (f *fields) done() error {
	for _, name := range f.o.names {
		if f.err == nil && !slices.Contains(f.asked, name) {
			f.err = fmt.Errorf("%w: unknown field %q: known are %s", model.ErrInvalid, name, strings.Join(f.asked, ", "))
		}
	}
	return f.err
}

// need reads a text that must be there and not be empty.
func (f *fields) need(name string) string {
	s := f.text(name, "")
	if s == "" {
		f.fail(name, "is missing or empty")
	}
	return s
}

func (f *fields) text(name, otherwise string) string {
	switch v := f.get(name).(type) {
	case nil:
	case string:
		return v
	default:
		f.fail(name, "want a text, not %s", describe(v))
	}
	return otherwise
}

func (f *fields) boolean(name string, otherwise bool) bool {
	switch v := f.get(name).(type) {
	case nil:
	case bool:
		return v
	default:
		f.fail(name, "want true or false, not %s", describe(v))
	}
	return otherwise
}

// number reads a whole number of at least low. What is missing or null is
// otherwise, and an error if that is below low too.
func (f *fields) number(name string, low, otherwise int64) int64 {
	v := f.get(name)
	if v == nil {
		if otherwise < low {
			f.fail(name, "is missing")
		}
		return otherwise
	}
	n, err := whole(v)
	if err != nil {
		f.fail(name, "%v", err)
	} else if n < low {
		f.fail(name, "%d: must be at least %d", n, low)
	}
	return n
}

// optional is number for what may be left out; ok is false then.
func (f *fields) optional(name string, low int64) (n int64, ok bool) {
	if f.get(name) == nil {
		return 0, false
	}
	return f.number(name, low, low), true
}

// cores is a number of cores that the state can hold: a larger one would be cut
// to some other number there.
func (f *fields) cores(name string, n int64) int {
	if n > model.MaxCores {
		f.fail(name, "%d: must be at most %d", n, model.MaxCores)
		return 1
	}
	return int(n)
}

func whole(v any) (int64, error) {
	lit, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("want a whole number, not %s", describe(v))
	}
	n, err := strconv.ParseInt(lit.String(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: must be a whole number", lit)
	}
	return n, nil
}

// each calls visit for the members of an object that may be missing.
func (f *fields) each(name string, visit func(key string, v any) error) {
	switch o := f.get(name).(type) {
	case nil:
	case *object:
		for _, key := range o.names {
			if err := visit(key, o.values[key]); err != nil {
				f.fail(name, "%q: %v", key, err)
			}
		}
	default:
		f.fail(name, "want an object, not %s", describe(o))
	}
}

// list returns the elements of a list that may be missing.
func (f *fields) list(name string) []any {
	switch v := f.get(name).(type) {
	case nil:
	case []any:
		return v
	default:
		f.fail(name, "want a list, not %s", describe(v))
	}
	return nil
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + v.String()
	case string:
		return "the text " + strconv.Quote(v)
	case []any:
		return "a list"
	}
	return "an object"
}
