package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settleLimit is how long goroutines may take to end by themselves.
const settleLimit = 10 * time.Second

// Main runs the tests, waits for goroutines that end by themselves, and fails if
// any is left then that is not known. It exits.
func Main(m *testing.M, known ...goleak.Option) {
	goleak.VerifyTestMain(settled{m: m, known: known}, known...)
}

// settled is a test run after which goroutines get the time they are allowed,
// and no more.
type settled struct {
	m     *testing.M
	known []goleak.Option
}

// Run implements goleak.TestingM.
func (s settled) Run() int {
	code := s.m.Run()
	deadline := time.After(settleLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for goleak.Find(s.known...) != nil {
		select {
		case <-tick.C:
		case <-deadline:
			return code
		}
	}
	return code
}
