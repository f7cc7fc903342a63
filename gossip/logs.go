package gossip

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of what serf and memberlist may write into our log: each complaint once per interval, and only so many
// different ones. What exceeds them goes to the debug level.
const (
	complaintInterval = time.Minute
	maxComplaints     = 32
	maxLogLineBytes   = 1024
)

// logWriter takes the lines of the libraries' standard logger and gives them to hclog. Their levels are shifted: what
// they call information is repeated by our typed lines, and every failed exchange with a peer, which they call an error,
// is no more than a warning to an operator.
type logWriter struct {
	logger hclog.Logger
	deaf   func(id string) // told of peers that answer by streams only

	mu         sync.Mutex
	window     time.Time
	seen       map[string]bool
	suppressed int
}

var _ io.Writer = (*logWriter)(nil)

func newLogWriter(logger hclog.Logger, deaf func(id string)) *logWriter {
	return &logWriter{logger: logger, deaf: deaf, seen: make(map[string]bool)}
}

// Write takes one line such as "[WARN] serf: text". It never fails.
func (w *logWriter) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line[:min(len(line), maxLogLineBytes)]))
	level := "[DEBUG]"
	if strings.HasPrefix(text, "[") {
		if i := strings.IndexByte(text, ']'); i > 0 {
			level, text = text[:i+1], strings.TrimSpace(text[i+1:])
		}
	}
	if id, ok := lostDatagrams(text); ok {
		w.deaf(id)
		w.logger.Trace(text)
		return len(line), nil
	}
	switch level {
	case "[ERR]", "[ERROR]", "[WARN]":
		w.complain(text)
	case "[INFO]":
		w.logger.Debug(text)
	default:
		w.logger.Trace(text)
	}
	return len(line), nil
}

// complain logs a warning unless it was logged a moment ago or is the echo of a refusal of ours.
func (w *logWriter) complain(text string) {
	if strings.Contains(text, refusalMark) {
		w.logger.Trace(text)
		return
	}
	w.mu.Lock()
	now := time.Now()
	suppressed := 0
	if now.Sub(w.window) >= complaintInterval {
		suppressed, w.suppressed = w.suppressed, 0
		w.window = now
		clear(w.seen)
	}
	fresh := !w.seen[text] && len(w.seen) < maxComplaints
	if fresh {
		w.seen[text] = true
	} else {
		w.suppressed++
	}
	w.mu.Unlock()
	switch {
	case fresh && suppressed > 0:
		w.logger.Warn(text, "suppressed", fmt.Sprintf("%d repeats in the last interval", suppressed))
	case fresh:
		w.logger.Warn(text)
	default:
		w.logger.Debug(text)
	}
}
