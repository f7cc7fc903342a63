package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/internal/logline"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// newLogger makes the only logger of a process; everything is handed a part of
// it. Its lines are bounded.
func newLogger(name string, c config.Log, w io.Writer) hclog.Logger {
	asJSON := c.Format == config.LogFormatJSON
	return hclog.New(&hclog.LoggerOptions{
		Name: name, Level: hclog.LevelFromString(c.Level), JSONFormat: asJSON, Output: logline.NewWriter(w, asJSON),
	})
}

// lastWord is the end of a daemon. Where the log is JSON its error belongs there:
// a line of another kind could not be read by what reads the log.
func lastWord(log hclog.Logger, c config.Log, err error) error {
	if err == nil || c.Format != config.LogFormatJSON {
		return err
	}
	log.Error("ended with an error", "err", err)
	return exit(exitCode(err))
}

func warn(log hclog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
}

// tlsSource loads the files of c; nil without any.
func tlsSource(c config.TLS) (*tlsconf.Source, error) {
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = c.Paths()
	src, err := tlsconf.Load(files)
	if err != nil {
		return nil, &codedError{code: exitUsage, err: fmt.Errorf("load TLS files: %w", err)}
	}
	return src, nil
}

// daemonTLS loads the files of a daemon, whose certificate must be for its role.
func daemonTLS(c config.TLS, role tlsconf.Role) (*tlsconf.Source, error) {
	src, err := tlsSource(c)
	if err != nil {
		return nil, err
	}
	if err := src.Require(role); err != nil {
		return nil, &codedError{code: exitUsage, err: fmt.Errorf("load TLS files: %w", err)}
	}
	return src, nil
}

// gossipKeys reads the keys of a daemon's gossip; none without a file.
func gossipKeys(path string) ([][]byte, error) {
	if path == "" {
		return nil, nil
	}
	keys, err := gossip.ReadKeyFile(path)
	if err != nil {
		return nil, &codedError{code: exitUsage, err: fmt.Errorf("%w; hearth operator gossip keys generate makes one", err)}
	}
	return keys, nil
}

// reloader is what a daemon does about SIGHUP, and about TLS files that change.
type reloader struct {
	log hclog.Logger
	tls *tlsconf.Source
	// level reads the configuration again and returns the log level of it.
	level func() (string, error)
}

// watch reloads on every SIGHUP until the returned function is called or ctx
// ends. A reload that fails changes nothing and is logged. TLS files that have
// changed are taken up without a signal.
func (r *reloader) watch(ctx context.Context) (stop func()) {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.tls.Watch(ctx, r.log.Named("tls"))
	}()
	go func() {
		defer close(done)
		for {
			select {
			case <-hups:
				r.reload()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(hups)
		cancel()
		<-done
		<-watched
	}
}

func (r *reloader) reload() {
	if err := r.tls.Reload(); err != nil {
		r.log.Error("TLS files were not reloaded", "err", err)
	}
	level, err := r.level()
	if err != nil {
		r.log.Error("log level was not reloaded", "err", err)
		return
	}
	r.log.SetLevel(hclog.LevelFromString(level))
	r.log.Info("reloaded", "log_level", level)
}
