package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// timeline prints what happens, with the milliseconds since its start. Safe
// for concurrent use.
type timeline struct {
	start time.Time

	mu sync.Mutex
	w  io.Writer
}

func newTimeline(w io.Writer) *timeline { return &timeline{w: w, start: time.Now()} }

// say prints one event of now.
func (t *timeline) say(format string, args ...any) { t.at(time.Now(), format, args...) }

func (t *timeline) at(when time.Time, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// There is nowhere to report a broken terminal.
	_, _ = fmt.Fprintf(t.w, "%8s  %s\n", millis(when.Sub(t.start)), fmt.Sprintf(format, args...))
}

// plain prints a line that is no event.
func (t *timeline) plain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.w, format+"\n", args...)
}

// millis shows a duration in whole milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
