//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 20 * time.Millisecond

// eventually waits until missing returns "", and returns how long that took. It
// fails the test with the last answer when within has passed.
func eventually(t testing.TB, within time.Duration, what string, missing func() string) time.Duration {
	t.Helper()
	started := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		why := missing()
		if why == "" {
			return time.Since(started)
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %s", what, within, why)
		}
	}
}

// steady checks that a condition holds during the whole of a time.
func steady(t testing.TB, during time.Duration, what string, violated func() string) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	end := time.NewTimer(during)
	defer end.Stop()
	for {
		if why := violated(); why != "" {
			t.Fatalf("%s: %s", what, why)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}
