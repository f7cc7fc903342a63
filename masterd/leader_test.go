package masterd

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// entries counts the leader scopes that a master has entered.
type entries struct {
	mu sync.Mutex
	at []time.Time
}

func (e *entries) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes.Contains(p, []byte("entering leader scope")) {
		e.at = append(e.at, time.Now())
	}
	return len(p), nil
}

// A single master that was removed from its own table cannot serve, and has
// nobody to hand leadership to.
func TestAScopeThatFailsAtOnceIsTriedAgainAtAPace(t *testing.T) {
	m := startMaster(t, t.TempDir(), nil, 1)
	eventually(t, "a leader", func() error {
		if m.leading.Load() == nil {
			return errors.New("it does not lead")
		}
		return nil
	})
	err := m.propose(t.Context(), &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: string(m.ID())}}})
	if err != nil {
		t.Fatal(err)
	}
	m.stop(t)
	log := &entries{}
	startMaster(t, m.dir, nil, 1, func(d *Deps) {
		d.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: log})
	})
	eventually(t, "the second attempt", func() error {
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.at) < 3 {
			return errors.New("it has not come")
		}
		if got := log.at[2].Sub(log.at[0]); got < beliefInterval {
			t.Errorf("three attempts within %s, want them %s apart", got, beliefInterval)
		}
		return nil
	})
}
