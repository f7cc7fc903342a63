// Package logline keeps the lines of a daemon's log within a bound.
//
// A line that is too long is shortened where it is long, and says by how much; in JSON it stays one object that can be
// parsed. It does not own levels, formats or where the log goes: go-hclog writes through it, one line with each Write.
//
// It imports nothing of ours. cmd/internal/cli imports it.
package logline
