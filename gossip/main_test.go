package gossip

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settled is a test run after which the libraries' short-lived goroutines (probes under way, a state sync) get the time
// they are allowed, and no more.
type settled struct{ *testing.M }

const settleLimit = 10 * time.Second

func (s settled) Run() int {
	code := s.M.Run()
	deadline := time.After(settleLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for goleak.Find() != nil {
		select {
		case <-tick.C:
		case <-deadline:
			return code
		}
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(settled{m}) }
