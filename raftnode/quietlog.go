package raftnode

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// quietInterval is how often the same complaint about the same peer is
	// written.
	quietInterval = time.Minute
	// quietKeys bounds the complaints that are remembered.
	quietKeys = 256
)

// quietLog is the logger the library gets. The library complains about a peer
// it cannot reach several times a second, at error level, for as long as the
// peer is away; here the first complaint is written, then one a minute with the
// number that was left out. Everything else passes.
type quietLog struct {
	hclog.Logger
	memory *complaints
}

type complaints struct {
	mu   sync.Mutex
	last map[string]*complaint
}

type complaint struct {
	at      time.Time
	omitted int
}

func newQuietLog(inner hclog.Logger) quietLog {
	return quietLog{Logger: inner, memory: &complaints{last: make(map[string]*complaint)}}
}

// peerKey returns the name of the argument that says whom a repetitive message
// is about.
func peerKey(message string) (key string, repetitive bool) {
	switch message {
	case "failed to heartbeat to", "failed to appendEntries to", "failed to pipeline appendEntries",
		"failed to send snapshot to", "failed to install snapshot":
		return "peer", true
	case "failed to make requestVote RPC", "failed to make requestPreVote RPC", "failed to make RequestVote RPC":
		return "target", true
	case "failed to contact":
		return "server-id", true
	case "rejecting vote request since node is not in configuration", "rejecting pre-vote request since node is not in configuration":
		return "from", true
	case "failed to decode incoming command", "failed to flush response", "no known peers, aborting election",
		"not part of stable configuration, aborting election", "heartbeat timeout reached, starting election",
		"Election timeout reached, restarting election", "pre-vote campaign failed, waiting for election timeout":
		return "", true
	}
	return "", false
}

// Error implements hclog.Logger. What the library calls an error about a peer
// is a warning to us: another master being away is what the cluster is for.
func (l quietLog) Error(message string, args ...any) {
	if _, repetitive := peerKey(message); repetitive {
		l.Warn(message, args...)
		return
	}
	l.Logger.Error(message, args...)
}

// Warn implements hclog.Logger.
func (l quietLog) Warn(message string, args ...any) { l.pass(l.Logger.Warn, message, args) }

// Info implements hclog.Logger.
func (l quietLog) Info(message string, args ...any) { l.pass(l.Logger.Info, message, args) }

// Log implements hclog.Logger.
func (l quietLog) Log(level hclog.Level, message string, args ...any) {
	switch level {
	case hclog.Error:
		l.Error(message, args...)
	case hclog.Warn:
		l.Warn(message, args...)
	case hclog.Info:
		l.Info(message, args...)
	case hclog.NoLevel, hclog.Trace, hclog.Debug, hclog.Off:
		l.Logger.Log(level, message, args...)
	}
}

// With implements hclog.Logger.
func (l quietLog) With(args ...any) hclog.Logger { return quietLog{l.Logger.With(args...), l.memory} }

// Named implements hclog.Logger.
func (l quietLog) Named(name string) hclog.Logger { return quietLog{l.Logger.Named(name), l.memory} }

// ResetNamed implements hclog.Logger.
func (l quietLog) ResetNamed(name string) hclog.Logger {
	return quietLog{l.Logger.ResetNamed(name), l.memory}
}

func (l quietLog) pass(write func(string, ...any), message string, args []any) {
	key, repetitive := peerKey(message)
	if !repetitive {
		write(message, args...)
		return
	}
	omitted, due := l.memory.note(message+"\x00"+argument(args, key), time.Now())
	switch {
	case !due:
		l.Logger.Debug(message, args...)
	case omitted > 0:
		write(message, append(slices.Clip(args), "omitted", omitted)...)
	default:
		write(message, args...)
	}
}

// argument renders the value of one key.
func argument(args []any, key string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if name, ok := args[i].(string); ok && name == key {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// note counts a complaint and says whether it is due to be written, and how
// many like it were not.
func (c *complaints) note(key string, now time.Time) (omitted int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.last[key]
	if known == nil {
		if len(c.last) >= quietKeys {
			clear(c.last)
		}
		c.last[key] = &complaint{at: now}
		return 0, true
	}
	if now.Sub(known.at) < quietInterval {
		known.omitted++
		return 0, false
	}
	omitted = known.omitted
	known.at, known.omitted = now, 0
	return omitted, true
}
