package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// body is one output stream of a task: in memory, or in a file that has no
// name any more and goes when it is closed.
type body struct {
	data []byte
	file *os.File
}

// tempFile opens such a file.
func tempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "hearth-run-*")
	if err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep output: %w", err), f.Close())
	}
	return f, nil
}

func bodyOf(data []byte, spilled io.WriteCloser) body {
	if f, ok := spilled.(*os.File); ok {
		return body{file: f}
	}
	return body{data: data}
}

// copyTo writes the whole stream.
func (b *body) copyTo(w io.Writer) error {
	if b.file == nil {
		if len(b.data) == 0 {
			return nil
		}
		_, err := w.Write(b.data)
		return err //nolint:wrapcheck // the caller knows what w is
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read kept output: %w", err)
	}
	_, err := io.Copy(w, b.file)
	return err //nolint:wrapcheck // the caller knows what w is
}

// toFile moves the stream out of memory.
func (b *body) toFile() error {
	if b.file != nil || len(b.data) == 0 {
		return nil
	}
	f, err := tempFile()
	if err != nil {
		return err
	}
	if _, err := f.Write(b.data); err != nil {
		return errors.Join(fmt.Errorf("keep output: %w", err), f.Close())
	}
	b.data, b.file = nil, f
	return nil
}

func (b *body) close() {
	if b.file != nil {
		_ = b.file.Close() // its content has been read
	}
}

// taskOutput is what one task has written.
type taskOutput struct {
	stdout, stderr body
	notes          string // ours, shown on stderr after the task's own
}

func outputOf(r *driver.Result) *taskOutput {
	return &taskOutput{stdout: bodyOf(r.Stdout, r.StdoutFile), stderr: bodyOf(r.Stderr, r.StderrFile)}
}

func (o *taskOutput) bytes() int { return len(o.stdout.data) + len(o.stderr.data) }

func (o *taskOutput) close() {
	o.stdout.close()
	o.stderr.close()
}

// prepareResults makes the directory of --results and sees that it takes files:
// a task that has run and whose output can't be kept has run for nothing.
func prepareResults(dir string) error {
	if dir == "" {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("results %q: %w: %w", dir, model.ErrInvalid, err) }
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // for the user, under the user's umask
		return fail(err)
	}
	f, err := os.CreateTemp(dir, ".hearth-run-*")
	if err != nil {
		return fail(err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fail(err)
	}
	return nil
}

// save writes the files of --results.
func (o *taskOutput) save(dir string, seq, code int) error {
	dir = filepath.Join(dir, strconv.Itoa(seq))
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // for the user, under the user's umask
		return fmt.Errorf("save the results of task %d: %w", seq, err)
	}
	exit := body{data: fmt.Appendf(nil, "%d\n", code)}
	for _, x := range []struct {
		name string
		from *body
	}{{"stdout", &o.stdout}, {"stderr", &o.stderr}, {"exit", &exit}} {
		f, err := os.Create(filepath.Join(dir, x.name))
		if err == nil {
			err = errors.Join(x.from.copyTo(f), f.Close())
		}
		if err != nil {
			return fmt.Errorf("save the results of task %d: %w", seq, err)
		}
	}
	return nil
}

// printer writes the output of each task in one piece, in the order in which
// they end or in that of the inputs.
type printer struct {
	stdout, stderr io.Writer
	keepOrder      bool
	due            int // next task with keepOrder
	held           map[int]*taskOutput
	bytes          int // of held, in memory
}

func newPrinter(stdout, stderr io.Writer, keepOrder bool) *printer {
	return &printer{stdout: stdout, stderr: stderr, keepOrder: keepOrder, due: 1, held: make(map[int]*taskOutput)}
}

// add takes the output of an ended task; each task has exactly one, which may
// be nil.
func (p *printer) add(seq int, o *taskOutput) error {
	if o == nil {
		o = &taskOutput{}
	}
	if !p.keepOrder {
		return p.print(o)
	}
	if seq != p.due && p.bytes+o.bytes() > maxHeldBytes {
		if err := errors.Join(o.stdout.toFile(), o.stderr.toFile()); err != nil {
			return err
		}
	}
	p.held[seq] = o
	p.bytes += o.bytes()
	for {
		next := p.held[p.due]
		if next == nil {
			return nil
		}
		delete(p.held, p.due)
		p.bytes -= next.bytes()
		p.due++
		if err := p.print(next); err != nil {
			return err
		}
	}
}

// print writes and closes an output.
func (p *printer) print(o *taskOutput) error {
	defer o.close()
	if err := write(p.stdout, &o.stdout); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	err := write(p.stderr, &o.stderr)
	if err == nil && o.notes != "" {
		_, err = io.WriteString(p.stderr, o.notes)
	}
	if err != nil {
		return fmt.Errorf("write to standard error: %w", err)
	}
	return nil
}

func write(w io.Writer, b *body) error {
	err := b.copyTo(w)
	if l, ok := w.(*lineWriter); ok && err == nil {
		err = l.flush()
	}
	return err
}

// close frees what was never printed.
func (p *printer) close() {
	for _, o := range p.held {
		o.close()
	}
}

// maxTail bounds an unfinished line that lineWriter keeps.
const maxTail = 64 << 10

// lineWriter passes whole lines on: what is written above a progress bar must
// not share its line. flush ends an unfinished line.
type lineWriter struct {
	w    io.Writer
	tail []byte
}

// Write keeps what comes after the last newline.
func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		if _, err := l.w.Write(append(l.tail, b[:i+1]...)); err != nil {
			return 0, err //nolint:wrapcheck // the caller's writer
		}
		l.tail, b = nil, b[i+1:]
	}
	l.tail = append(l.tail, b...)
	if len(l.tail) >= maxTail {
		return n, l.flush()
	}
	return n, nil
}

func (l *lineWriter) flush() error {
	if len(l.tail) == 0 {
		return nil
	}
	_, err := l.w.Write(append(l.tail, '\n'))
	l.tail = nil
	return err //nolint:wrapcheck // the caller's writer
}
