package run

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hearthd/hearth/model"
)

// argSeparator begins a list of inputs on the command line.
const argSeparator = ":::"

// SplitArgs divides the words of a command line into the command and the
// lists of inputs, each begun by ":::".
func SplitArgs(words []string) (command string, lists [][]string) {
	var cmd []string
	for _, w := range words {
		switch {
		case w == argSeparator:
			lists = append(lists, []string{})
		case len(lists) > 0:
			lists[len(lists)-1] = append(lists[len(lists)-1], w)
		default:
			cmd = append(cmd, w)
		}
	}
	return strings.Join(cmd, " "), lists
}

// source yields inputs one by one.
type source interface {
	// next returns io.EOF after the last input.
	next() (string, error)
}

type listSource struct{ rest []string }

func (l *listSource) next() (string, error) {
	if len(l.rest) == 0 {
		return "", io.EOF
	}
	s := l.rest[0]
	l.rest = l.rest[1:]
	return s, nil
}

// recordSource reads records that end with sep; the last one may lack it.
type recordSource struct {
	name string
	sep  byte
	sc   *bufio.Scanner
}

func newRecordSource(name string, r io.Reader, sep byte) *recordSource {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), MaxInputBytes+1)
	sc.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, sep); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return &recordSource{name: name, sep: sep, sc: sc}
}

func (r *recordSource) next() (string, error) {
	if !r.sc.Scan() {
		err := r.sc.Err()
		switch {
		case err == nil:
			return "", io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			return "", fmt.Errorf("read inputs from %s: %w: one has more than %d bytes", r.name, model.ErrTooLarge, MaxInputBytes)
		}
		return "", fmt.Errorf("read inputs from %s: %w", r.name, err)
	}
	s := r.sc.Text()
	if strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("read inputs from %s: %w: one contains a NUL byte", r.name, model.ErrInvalid)
	}
	return s, nil
}

// inputs yields the inputs of one task after the other.
type inputs struct {
	sources int
	total   int // tasks; -1 = unknown until the end
	single  source
	lists   [][]string // of several sources
	index   []int      // of the next combination, nil at the end
	closers []io.Closer
}

// sources is how many sources of inputs there are: standard input if there is
// no other.
func (o *Options) sources() int { return max(1, len(o.ArgFiles)+len(o.Args)) }

// openInputs opens the sources: files first, then lists, else stdin.
func openInputs(o *Options, stdin io.Reader) (in *inputs, err error) {
	in = &inputs{total: -1}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	sep := byte('\n')
	if o.NullSeparated {
		sep = 0
	}
	var all []source
	for _, name := range o.ArgFiles {
		r := stdin
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return in, fmt.Errorf("%w: inputs: %w", model.ErrInvalid, err)
			}
			in.closers = append(in.closers, f)
			r = f
		}
		all = append(all, newRecordSource(name, r, sep))
	}
	for _, list := range o.Args {
		all = append(all, &listSource{list})
	}
	if len(all) == 0 {
		all = append(all, newRecordSource("standard input", stdin, sep))
	}
	in.sources = len(all)
	if len(all) > maxSources {
		return in, fmt.Errorf("%w: %d input sources, the limit is %d", model.ErrInvalid, len(all), maxSources)
	}
	if len(all) == 1 {
		in.single = all[0]
		if l, ok := all[0].(*listSource); ok {
			in.total = len(l.rest)
		}
		return in, nil
	}
	return in, in.product(all)
}

// product reads several sources whole.
func (in *inputs) product(all []source) error {
	in.total = 1
	for _, s := range all {
		list, err := readAll(s)
		if err != nil {
			return fmt.Errorf("%w: %w", model.ErrInvalid, err)
		}
		in.lists = append(in.lists, list)
		in.total *= len(list)
		if in.total > MaxCombinations {
			return fmt.Errorf("%w: the inputs make more than %d combinations", model.ErrTooLarge, MaxCombinations)
		}
	}
	if in.total > 0 {
		in.index = make([]int, len(all))
	}
	return nil
}

func readAll(s source) ([]string, error) {
	var out []string
	for {
		v, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(out) >= MaxSourceInputs:
			return nil, fmt.Errorf("%w: more than %d inputs in one of several sources", model.ErrTooLarge, MaxSourceInputs)
		}
		out = append(out, v)
	}
}

// next returns the inputs of the next task, io.EOF after the last one. The
// last source turns fastest.
func (in *inputs) next() ([]string, error) {
	if in.single != nil {
		s, err := in.single.next()
		if err != nil {
			return nil, err
		}
		return []string{s}, nil
	}
	if in.index == nil {
		return nil, io.EOF
	}
	out := make([]string, len(in.lists))
	for i, n := range in.index {
		out[i] = in.lists[i][n]
	}
	for i := len(in.index) - 1; ; i-- {
		if i < 0 {
			in.index = nil
			break
		}
		if in.index[i]++; in.index[i] < len(in.lists[i]) {
			break
		}
		in.index[i] = 0
	}
	return out, nil
}

func (in *inputs) close() {
	for _, c := range in.closers {
		_ = c.Close() // only read
	}
}

// record is one task's inputs, or why there are no more.
type record struct {
	inputs []string
	err    error
}

// feed sends records until the end of the inputs or of ctx, then closes the
// channel. A read that blocks is not interrupted by ctx.
func (in *inputs) feed(ctx context.Context, to chan<- record) {
	defer close(to)
	for {
		v, err := in.next()
		if errors.Is(err, io.EOF) {
			return
		}
		select {
		case to <- record{inputs: v, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
