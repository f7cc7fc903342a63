package masterd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/hearthd/hearth/raftnode"
)

// Serve runs m as [Master.Run] does, with one difference: a master whose Raft
// has come to a state that only a restart cures is closed, and another one is
// opened in its place, on the same data directory and the same addresses, as
// after a crash. replaced is called with each of those before it runs. It
// returns the error if the old one cannot be closed or the new one not opened.
func Serve(ctx context.Context, m *Master, replaced func(*Master)) error {
	for {
		err := m.Run(ctx)
		if !errors.Is(err, raftnode.ErrStuck) || ctx.Err() != nil || m.closed != nil {
			return err
		}
		m.log.Error("restarting this master in its process", "reason", err)
		again, cfgErr := m.sameAgain()
		if cfgErr != nil {
			return errors.Join(err, cfgErr)
		}
		if m, cfgErr = New(again, m.deps); cfgErr != nil {
			return errors.Join(err, fmt.Errorf("restart the master: %w", cfgErr))
		}
		replaced(m)
	}
}

// sameAgain is the configuration that opens this master again, with the ports
// that the kernel has chosen.
func (m *Master) sameAgain() (Config, error) {
	cfg := m.cfg
	var errs []error
	for _, p := range []struct {
		addr string
		port *int
	}{
		{m.grpcLis.Addr().String(), &cfg.GRPCPort},
		{m.raftLis.Addr().String(), &cfg.RaftPort},
		{m.httpLis.Addr().String(), &cfg.HTTPPort},
		{m.SerfAddr(), &cfg.SerfPort},
	} {
		_, text, err := net.SplitHostPort(p.addr)
		if err == nil {
			*p.port, err = strconv.Atoi(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read a port: %w", err))
		}
	}
	return cfg, errors.Join(errs...)
}
