package model

import (
	"slices"
	"strings"
)

const redacted = "*********(redacted)"

// Redact returns a command line for showing: what looks by its name like a
// secret is replaced, in NAME=value and in the word after --name.
func Redact(argv []string) []string {
	out := slices.Clone(argv)
	for i := range out {
		name, _, ok := strings.Cut(argv[i], "=")
		switch {
		case ok && secretName(name):
			out[i] = name + "=" + redacted
		case i > 0 && !strings.Contains(argv[i-1], "=") && strings.HasPrefix(argv[i-1], "-") && secretName(argv[i-1]):
			out[i] = redacted
		}
	}
	return out
}

func secretName(name string) bool {
	if strings.ContainsAny(name, " \t\n") {
		return false // a shell command, not a name
	}
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, word := range []string{"secret", "password", "passwd", "token", "accesskey", "apikey", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
