package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
)

const (
	registerProbeApp    = model.AppID("app-20000101000000-0001")
	registerProbeSecret = model.Secret("registered-without-hearth")
)

// registerProbe starts the executor's binary n times with os/exec, parallel at a
// time, and returns how many a second have registered with the server: what the
// same executors cost on this machine if nobody places, records or watches them.
// Like those of a run they end, by SIGTERM, after the last has registered; that
// time does not count.
func (s *executorServer) registerProbe(ctx context.Context, dir, binary string, parallel, n int) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, launchLimit)
	defer cancel()
	secret := filepath.Join(dir, "register-probe-secret")
	if err := os.WriteFile(secret, []byte(registerProbeSecret.Reveal()), 0o600); err != nil {
		return 0, fmt.Errorf("register probe: %w", err)
	}
	d := newLaunchDriver(registerProbeApp, n)
	for id := range n {
		d.secrets[model.ExecutorID(id)] = registerProbeSecret
	}
	defer close(d.ended) // what its executors' streams wait for
	s.announce(d)

	p := &registering{binary: binary, env: append(os.Environ(),
		"HEARTH_DRIVER_ADDR="+s.addr, "HEARTH_APP_ID="+string(registerProbeApp), "HEARTH_SECRET_FILE="+secret)}
	defer func() { err = errors.Join(err, p.end()) }()
	begin := time.Now()
	if err := p.start(parallel, n); err != nil {
		return 0, err
	}
	at, err := d.await(ctx)
	if err != nil {
		return 0, fmt.Errorf("register probe: %w", err)
	}
	return float64(n) / at.Sub(begin).Seconds(), nil
}

// registering are the processes of one probe.
type registering struct {
	binary string
	env    []string

	mu   sync.Mutex
	cmds []*exec.Cmd
	errs []error
}

// start starts all of them.
func (p *registering) start(parallel, n int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for id := next.Add(1) - 1; id < int64(n); id = next.Add(1) - 1 {
				cmd := exec.Command(p.binary) //nolint:gosec,noctx // the caller's program, which end ends
				cmd.Env = append(slices.Clip(p.env), "HEARTH_EXECUTOR_ID="+strconv.FormatInt(id, 10))
				err := cmd.Start()
				p.mu.Lock()
				if err != nil {
					p.errs = append(p.errs, fmt.Errorf("register probe: start %s: %w", p.binary, err))
				} else {
					p.cmds = append(p.cmds, cmd)
				}
				p.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(p.errs...)
}

// end ends them, and waits.
func (p *registering) end() error {
	for _, cmd := range p.cmds {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.errs = append(p.errs, fmt.Errorf("register probe: end process %d: %w", cmd.Process.Pid, err))
		}
	}
	for _, cmd := range p.cmds {
		_ = cmd.Wait() // the signal is how they end
	}
	p.cmds = nil
	return errors.Join(p.errs...)
}
