package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

// asExecutor makes the test binary the executor process: it holds the timings
// of that run, "name=duration,…".
const asExecutor = "HEARTH_TEST_EXECUTOR_TIMING"

func TestMain(m *testing.M) {
	if t, ok := os.LookupEnv(asExecutor); ok {
		os.Exit(executorMain(t))
	}
	goleak.VerifyTestMain(m)
}

// executorMain is what the hidden verb does.
func executorMain(timings string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := ConfigFromEnv(os.Environ())
	if err == nil {
		cfg.timing, err = parseTiming(timings)
	}
	if err == nil {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Debug})
		err = Run(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		return 1
	}
	return 0
}

func parseTiming(s string) (timing, error) {
	t := defaultTiming()
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		to, ok := map[string]*time.Duration{
			"driver": &t.driver, "silence": &t.silence, "killGrace": &t.killGrace, "sweep": &t.sweep,
		}[name]
		if name == "" {
			continue
		}
		if !ok {
			return t, errors.New("no timing " + name)
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			return t, err
		}
		*to = d
	}
	return t, nil
}
