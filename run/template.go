package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// Template is a shell command with places for a task's input:
//
//	{}    the input            {/}   its last path component
//	{.}   without extension    {//}  its directory
//	{#}   the task's number    {/.}  {/} without extension
//	{2}   the input of the second source
//
// With several sources the first five take all inputs, with spaces between.
type Template struct {
	parts []part
	max   int // highest source number that is named
}

// part is a literal text or, with a kind, a place.
type part struct {
	text   string
	kind   string
	source int // of kind "n"
}

// The kinds of places, as they stand between braces; "n" is a number.
const (
	kindInput   = ""
	kindNoExt   = "."
	kindBase    = "/"
	kindDir     = "//"
	kindBaseExt = "/."
	kindSeq     = "#"
	kindSource  = "n"
	kindLiteral = "literal"
)

// maxSources bounds source numbers and sources.
const maxSources = 99

// ParseTemplate reads a template. One without any place gets " {}" appended.
// Errors wrap model.ErrInvalid.
func ParseTemplate(s string) (Template, error) {
	if strings.TrimSpace(s) == "" {
		return Template{}, fmt.Errorf("command: %w: it is empty", model.ErrInvalid)
	}
	if strings.ContainsRune(s, 0) {
		return Template{}, fmt.Errorf("command: %w: it contains a NUL byte", model.ErrInvalid)
	}
	t := parsePlaces(s)
	if !t.hasPlaces() {
		t.parts = append(t.parts, part{kind: kindLiteral, text: " "}, part{kind: kindInput})
	}
	return t, nil
}

// parsePlaces reads places; braces around anything else are text.
func parsePlaces(s string) Template {
	var t Template
	literal := func(text string) {
		if text != "" {
			t.parts = append(t.parts, part{kind: kindLiteral, text: text})
		}
	}
	for {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			literal(s)
			return t
		}
		end := strings.IndexByte(s[open:], '}')
		if end < 0 {
			literal(s)
			return t
		}
		p, ok := place(s[open+1 : open+end])
		if !ok {
			literal(s[:open+1])
			s = s[open+1:]
			continue
		}
		literal(s[:open])
		t.parts = append(t.parts, p)
		t.max = max(t.max, p.source)
		s = s[open+end+1:]
	}
}

func place(name string) (part, bool) {
	switch name {
	case kindInput, kindNoExt, kindBase, kindDir, kindBaseExt, kindSeq:
		return part{kind: name}, true
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > maxSources || strconv.Itoa(n) != name {
		return part{}, false
	}
	return part{kind: kindSource, source: n}, true
}

// checkSources refuses a place for a source that there is none of: it would
// stand for nothing in every task.
func (t Template) checkSources(what string, sources int) error {
	if t.max <= sources {
		return nil
	}
	return fmt.Errorf("%s: %w: {%d} is the input of source %d, and there is %d: add a list after %s or a file with --arg-file",
		what, model.ErrInvalid, t.max, t.max, sources, argSeparator)
}

func (t Template) hasPlaces() bool {
	for _, p := range t.parts {
		if p.kind != kindLiteral {
			return true
		}
	}
	return false
}

// Expand fills in the places for the shell: every value is quoted. There is
// one input for each source.
func (t Template) Expand(inputs []string, seq int) string { return t.expand(inputs, seq, Quote) }

// Plain fills in the places without quoting, for what is not read by a shell.
func (t Template) Plain(inputs []string, seq int) string {
	return t.expand(inputs, seq, func(s string) string { return s })
}

func (t Template) expand(inputs []string, seq int, quote func(string) string) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch p.kind {
		case kindLiteral:
			b.WriteString(p.text)
		case kindSeq:
			b.WriteString(strconv.Itoa(seq))
		case kindSource:
			if p.source <= len(inputs) {
				b.WriteString(quote(inputs[p.source-1]))
			}
		default:
			for i, in := range inputs {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(quote(transform(p.kind, in)))
			}
		}
	}
	return b.String()
}

// transform cuts an input as GNU parallel does.
func transform(kind, s string) string {
	switch kind {
	case kindNoExt:
		return withoutExt(s)
	case kindBase:
		return s[strings.LastIndexByte(s, '/')+1:]
	case kindBaseExt:
		return withoutExt(s[strings.LastIndexByte(s, '/')+1:])
	case kindDir:
		i := strings.LastIndexByte(s, '/')
		switch {
		case i < 0:
			return "."
		case strings.Trim(s[:i+1], "/") == "":
			return "/"
		}
		return strings.TrimRight(s[:i], "/")
	}
	return s
}

func withoutExt(s string) string {
	dot := strings.LastIndexByte(s, '.')
	if dot < 0 || dot < strings.LastIndexByte(s, '/') {
		return s
	}
	return s[:dot]
}

// Quote makes one word of a POSIX shell out of s.
func Quote(s string) string {
	if s == "" {
		return "''"
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+:,./-", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
