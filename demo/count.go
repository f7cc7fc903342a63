package demo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// Counts are those of one file, as wc counts them: newlines, words between
// white space, bytes.
type Counts struct {
	Lines, Words, Bytes int64
}

func (c *Counts) add(o Counts) {
	c.Lines += o.Lines
	c.Words += o.Words
	c.Bytes += o.Bytes
}

// CountFiles is what one task does: it writes a line for each file, in order,
// with its counts and its quoted name.
func CountFiles(w io.Writer, paths []string) error {
	out := bufio.NewWriter(w)
	for _, path := range paths {
		c, err := countFile(path)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%d %d %d %q\n", c.Lines, c.Words, c.Bytes, path); err != nil {
			return fmt.Errorf("write counts: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write counts: %w", err)
	}
	return nil
}

func countFile(path string) (Counts, error) {
	f, err := os.Open(path)
	if err != nil {
		return Counts{}, fmt.Errorf("count: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	c, err := countStream(f)
	if err != nil {
		return Counts{}, fmt.Errorf("count %s: %w", path, err)
	}
	return c, nil
}

// countStream holds one rune at a time, whatever the size.
func countStream(r io.Reader) (Counts, error) {
	var c Counts
	inWord := false
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		ch, size, err := in.ReadRune()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
		c.Bytes += int64(size)
		if ch == '\n' {
			c.Lines++
		}
		space := unicode.IsSpace(ch)
		if !space && !inWord {
			c.Words++
		}
		inWord = !space
	}
}

// expectedCounts is the comparison: another way to the same numbers.
func expectedCounts(data []byte) Counts {
	c := Counts{Lines: int64(bytes.Count(data, []byte{'\n'})), Bytes: int64(len(data))}
	for range bytes.FieldsSeq(data) {
		c.Words++
	}
	return c
}

// parseCounts reads the output of a task that was given paths.
func parseCounts(out []byte, paths []string) ([]Counts, error) {
	text, ok := strings.CutSuffix(string(out), "\n")
	lines := strings.Split(text, "\n")
	if !ok || len(lines) != len(paths) {
		return nil, fmt.Errorf("want %d whole lines of counts, got %q", len(paths), clip(string(out)))
	}
	counts := make([]Counts, len(paths))
	for n, line := range lines {
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 {
			return nil, fmt.Errorf("line %q: want three counts and a name", clip(line))
		}
		for k, to := range []*int64{&counts[n].Lines, &counts[n].Words, &counts[n].Bytes} {
			v, err := strconv.ParseInt(fields[k], 10, 64)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("line %q: %q is not a count", clip(line), fields[k])
			}
			*to = v
		}
		name, err := strconv.Unquote(fields[3])
		if err != nil || name != paths[n] {
			return nil, fmt.Errorf("line %q: want the counts of %q", clip(line), paths[n])
		}
	}
	return counts, nil
}

// clip keeps messages readable.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
