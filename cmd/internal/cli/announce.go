package cli

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/demo"
)

// announced runs a daemon and keeps ready.json in its data directory from when
// ready is closed until the daemon has ended. A file that cannot be written
// does not end the daemon.
func announced(ctx context.Context, log hclog.Logger, dataDir string, ready <-chan struct{}, where func() demo.Endpoints, run func(context.Context) error) error {
	ended := make(chan struct{})
	written := make(chan struct{})
	go func() {
		defer close(written)
		select {
		case <-ready:
			if err := demo.WriteEndpoints(dataDir, demo.ReadyFile, where()); err != nil {
				log.Warn("readiness is not written down", "err", err)
			}
		case <-ended:
		}
	}()
	err := run(ctx)
	close(ended)
	<-written
	demo.RemoveEndpoints(dataDir)
	return err
}
