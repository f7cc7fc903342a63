package executor

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/loopback"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Config is what an executor needs to know.
type Config struct {
	App        model.AppID
	Executor   model.ExecutorID
	DriverAddr string       // host:port of the driver
	Secret     model.Secret // proves the executor to its driver
	Cores      int
	MemoryMiB  int64          // for display; enforced by the worker
	Worker     model.WorkerID // for display
	Host       string         // name of this machine, shown by the driver
	// WorkDir is the executor's own directory; absolute. Task directories and
	// spilled output live below it.
	WorkDir string
	// Env is the environment from which tasks get PATH, HOME, LANG, TMPDIR and
	// the HEARTH_* variables that hold no secrets.
	Env []string
	// OwnsProcess says that the process exists for this executor alone: it
	// becomes the reaper of everything that tasks fork away and waits for any
	// child. Without it only process groups and sessions of tasks are ended.
	OwnsProcess bool
	// Functions are what tasks may call, by name; nil = this executor runs
	// processes only. It must not be changed.
	Functions map[string]Function
	// TLS verifies the driver, see tlsconf.Pinned; nil = plain.
	TLS    *tls.Config
	Dial   rpc.DialFunc // reaches the driver; nil = TCP
	Logger hclog.Logger // nil = silent

	timing timing // zero = production values
}

// ConfigFromEnv reads the configuration that a worker leaves in the
// environment of an executor ("NAME=value"), and the secret from the file that
// it names. The working directory of the process is the executor's. It reports
// every problem at once; errors wrap model.ErrInvalid.
func ConfigFromEnv(env []string) (Config, error) {
	e := envReader{vars: make(map[string]string, len(env))}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			e.vars[name] = value
		}
	}
	cfg := Config{
		App:         model.AppID(e.text("HEARTH_APP_ID")),
		Executor:    model.ExecutorID(e.number("HEARTH_EXECUTOR_ID", 0, model.MaxExecutors)),
		Cores:       int(e.number("HEARTH_CORES", 1, model.MaxCores)),
		MemoryMiB:   e.number("HEARTH_MEMORY_MIB", 0, model.MaxMemoryMiB),
		DriverAddr:  e.text("HEARTH_DRIVER_ADDR"),
		Worker:      model.WorkerID(e.text("HEARTH_WORKER_ID")),
		Env:         env,
		OwnsProcess: true,
	}
	if file := e.text("HEARTH_SECRET_FILE"); file != "" {
		secret, err := readSecret(file)
		if err != nil {
			e.errs = append(e.errs, fmt.Errorf("%w: HEARTH_SECRET_FILE: %w", model.ErrInvalid, err))
		}
		cfg.Secret = model.Secret(secret)
	}
	cfg.TLS = tlsconf.Pinned(e.pin(cfg.DriverAddr))
	var err error
	if cfg.WorkDir, err = os.Getwd(); err != nil {
		e.errs = append(e.errs, fmt.Errorf("find the working directory: %w", err))
	}
	if cfg.Host, err = os.Hostname(); err != nil {
		e.errs = append(e.errs, fmt.Errorf("find the host name: %w", err))
	}
	if len(e.errs) > 0 {
		return Config{}, errors.Join(e.errs...)
	}
	return cfg, cfg.validate()
}

// validate reports every problem; wraps model.ErrInvalid.
func (c *Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{model.ErrInvalid}, args...)...))
	}
	if _, err := c.App.Number(); err != nil {
		bad("%w", err)
	}
	if c.Executor < 0 {
		bad("executor id %d: must not be negative", c.Executor)
	}
	if c.Cores < 1 {
		bad("cores %d: must be at least 1", c.Cores)
	}
	if _, _, err := net.SplitHostPort(c.DriverAddr); err != nil {
		bad("driver address %q: want host:port", c.DriverAddr)
	}
	if c.Secret == "" {
		bad("the secret is empty")
	}
	if !filepath.IsAbs(c.WorkDir) {
		bad("work directory %q: must be absolute", c.WorkDir)
	}
	return errors.Join(errs...)
}

// envReader collects the problems of environment variables.
type envReader struct {
	vars map[string]string
	errs []error
}

func (e *envReader) text(name string) string {
	v := e.vars[name]
	if v == "" {
		e.errs = append(e.errs, fmt.Errorf("%w: %s is not set", model.ErrInvalid, name))
	}
	return v
}

// pin is the digest of the driver's certificate. A driver that has announced none
// is spoken with on this machine only.
func (e *envReader) pin(driver string) string {
	pin := e.vars["HEARTH_DRIVER_CERT"]
	if pin != "" {
		if err := model.ValidDigest(pin); err != nil {
			e.errs = append(e.errs, fmt.Errorf("HEARTH_DRIVER_CERT: %w", err))
		}
		return pin
	}
	if driver != "" && !loopback.Addr(driver) {
		e.errs = append(e.errs, fmt.Errorf("%w: HEARTH_DRIVER_CERT is not set: the driver at %s has announced no certificate, and tasks would travel in the clear", model.ErrInvalid, driver))
	}
	return ""
}

func (e *envReader) number(name string, low, high int64) int64 {
	v := e.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < low || n > high {
		e.errs = append(e.errs, fmt.Errorf("%w: %s=%q: want a number from %d to %d", model.ErrInvalid, name, v, low, high))
		return 0
	}
	return n
}

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the secret: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxSecretBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the secret: %w", err)
	case len(b) > MaxSecretBytes:
		return "", fmt.Errorf("%s: %w: a secret of more than %d bytes", path, model.ErrTooLarge, MaxSecretBytes)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s: the file is empty", path)
	}
	return secret, nil
}
