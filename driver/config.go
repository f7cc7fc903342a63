package driver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
)

// Config describes one driver.
type Config struct {
	// Client reaches the cluster. The driver does not close it.
	Client *client.Client
	// Spec is the application to register; Kind, DriverAddr and DriverCert are
	// filled in.
	Spec model.AppSpec
	// Listen is where executors are served; "" = 127.0.0.1:0.
	Listen string
	// Advertise is the host under which executors reach the driver; "" = that
	// of Listen, which must then be a definite one.
	Advertise string
	// ListenOn opens the listener; nil = TCP. Tests hand in a simulated network.
	ListenOn func(addr string) (net.Listener, error)
	// CoresPerTask says how many tasks an executor runs at once: its cores
	// divided by this, rounded down. 0 = 1.
	CoresPerTask int
	// MaxRunning bounds the tasks at once over all executors; 0 = what the
	// executors hold.
	MaxRunning int
	// StartFree sends a task only when there is a slot for it: what is cancelled
	// before has never started. Otherwise short ones wait in the executors.
	StartFree bool
	// MaxBatch bounds the tasks, and the results, in one message; 0 = MaxBatch.
	// With 1 each has a message of its own, to measure what that costs.
	MaxBatch int
	// SuspectAfter, ExecutorTimeout, AnnounceWait and RegisterTimeout replace
	// the defaults of the same name; 0 = default.
	SuspectAfter    time.Duration
	ExecutorTimeout time.Duration
	AnnounceWait    time.Duration
	RegisterTimeout time.Duration
	// Spill opens the place for an output stream that is longer than what
	// travels in a result. The whole stream is written to it, from its first
	// byte, before the result is acknowledged; with the result it becomes the
	// consumer's. It is called from several goroutines, and again for the same
	// task when the executor is lost or has reconnected: the driver closes
	// what it does not deliver. nil = only the beginning of long output is
	// kept.
	Spill func(Spill) (io.WriteCloser, error)
	// Observer is told what happens, from the driver's loop: it must not block
	// and must not call the driver. nil = nobody.
	Observer func(Event)
	Logger   hclog.Logger // nil = silent

	plain   bool // tests serve executors without TLS
	dynamic bool // Program.Dynamic decides how many executors there are
}

// Spill names one long output stream.
type Spill struct {
	Task    model.TaskID
	Attempt int
	Tag     any // of the task
	Stderr  bool
	Bytes   int64 // as far as the executor has counted
}

// prepare checks the configuration and fills in defaults; errors wrap
// model.ErrInvalid.
func (c *Config) prepare() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{model.ErrInvalid}, args...)...))
	}
	if c.Client == nil {
		bad("a driver needs a client")
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen address %q: want host:port", c.Listen)
	}
	if c.Advertise == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			bad("listen address %q: executors need a definite host to come to: advertise one", c.Listen)
		}
		c.Advertise = host
	}
	if c.CoresPerTask < 0 || c.MaxRunning < 0 {
		bad("cores per task %d and most tasks at once %d: must not be negative", c.CoresPerTask, c.MaxRunning)
	}
	if c.MaxBatch < 0 || c.MaxBatch > MaxBatch {
		bad("most tasks in one message %d: must be from 1 to %d", c.MaxBatch, MaxBatch)
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = MaxBatch
	}
	if c.CoresPerTask == 0 {
		c.CoresPerTask = 1
	}
	orDefault := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	orDefault(&c.SuspectAfter, DefaultSuspectAfter)
	orDefault(&c.ExecutorTimeout, DefaultExecutorTimeout)
	orDefault(&c.AnnounceWait, DefaultAnnounceWait)
	orDefault(&c.RegisterTimeout, DefaultRegisterTimeout)
	if c.Observer == nil {
		c.Observer = func(Event) {}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.Spec = c.Spec.Clone()
	c.Spec.Kind = model.AppKindDriver
	checked := c.Spec
	checked.DriverAddr = net.JoinHostPort(c.Advertise, "0")
	if err := checked.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
