package config

import (
	"fmt"
	"strconv"
	"strings"
)

// sourceDefault is the source of a value nobody set.
const sourceDefault = "default"

// Problem is one thing wrong with a configuration.
type Problem struct {
	// Source is where the value came from: "file:line", the name of an
	// environment variable, "--flag" or "default".
	Source string
	// Field is the key with its section, such as "network.grpc_port"; empty when
	// the problem is not about one key (bad syntax).
	Field string
	// Value is the value as it was written; empty when there is none.
	Value string
	// Rule is what a value must be.
	Rule string
}

// String returns the problem on one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Source)
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field)
		if p.Value != "" {
			b.WriteString(" ")
			b.WriteString(strconv.Quote(p.Value))
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Rule)
	return b.String()
}

// Error is the error of every Load and Validate function: all problems there
// are, in the order file, environment, flags, rules across fields.
type Error struct {
	Problems []Problem
}

// Error lists the problems, one a line when there are several.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	lines := make([]string, 0, len(e.Problems)+1)
	lines = append(lines, fmt.Sprintf("configuration: %d problems", len(e.Problems)))
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// asError returns nil for no problems, and never a nil *Error in an error.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}
