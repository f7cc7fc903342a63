//go:build linux

package workerd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Config is what a worker can be told. The zero values of optional fields are useful.
type Config struct {
	// Masters are gRPC addresses of masters, Join Serf addresses of anybody; one of them is needed.
	Masters []string
	Join    []string
	// Cores and MemoryMiB are what to offer; 0 means what the machine or its cgroup has.
	Cores     int
	MemoryMiB int64
	Resources model.Resources
	// Discovery maps names of resources to scripts that find their addresses.
	Discovery map[string]string
	Labels    map[string]string
	// DataDir holds identity, fence and journal; WorkDir the executors' directories, "" means
	// "work" in DataDir. Both are locked while the worker runs.
	DataDir string
	WorkDir string
	// WorkBudgetBytes is how large the work directory may be before directories of ended applications
	// are removed; 0 = no limit. ProgramCacheBytes is how much disk fetched programs and artifacts
	// take; 0 = the configuration's default.
	WorkBudgetBytes   int64
	ProgramCacheBytes int64
	// Bind is the host to listen on, Advertise the one that others dial ("" means Bind). A port of
	// 0 lets the kernel choose.
	Bind      string
	Advertise string
	GRPCPort  int
	SerfPort  int
	HTTPPort  int
	// HTTPCertOptional shows what the web server has, under TLS, to callers without a certificate too.
	HTTPCertOptional bool
	Version          string
}

// Deps is what a worker is built from.
type Deps struct {
	// Logger is required.
	Logger hclog.Logger
	// KeeperExe starts the keeper, such as {"/usr/bin/hearth", "keeper"}; "--state-dir DIR
	// --worker-id ID" is added. Required unless there is a Runner.
	KeeperExe []string
	// ExecutorExe is what an executor of an application with a driver runs, such as
	// {"/usr/bin/hearth", "executor"}. Required.
	ExecutorExe []string
	// ServerTLS is for the gRPC listener, ClientTLS for sessions, HTTPTLS for the web server; nil
	// means plain.
	ServerTLS *tls.Config
	ClientTLS *tls.Config
	HTTPTLS   *tls.Config
	// Authorities are those that ClientTLS trusts now, in PEM form: drivers in cluster mode get them. nil
	// without TLS; then drivers get no files.
	Authorities func() []byte
	// Certificate tells from when until when the own certificate is valid, for metrics; nil without TLS.
	Certificate func() (from, until time.Time)
	// GossipKeys encrypt gossip; none means plain.
	GossipKeys [][]byte
	// Environ is the worker's environment, which launched processes inherit without its HEARTH_
	// variables.
	Environ []string
	// CheckSuccessor is asked before a planned restart whether the next start can succeed; nil means
	// yes.
	CheckSuccessor func(ctx context.Context) error
	// Dial connects to masters; nil means by Network.
	Dial rpc.DialFunc
	// Network is what the worker listens and gossips on; nil means the operating system's. Tests hand
	// in a simulated one.
	Network gossip.Transport
	// SinceBoot reads a clock that goes on while the machine is suspended; nil means CLOCK_BOOTTIME.
	// A Runner must go by the same one.
	SinceBoot func() time.Duration
	// Runner runs the processes; nil means a keeper. Tests hand in one that only pretends to.
	Runner OpenRunner
}

// FromConfig takes what a worker needs out of a loaded configuration.
func FromConfig(c config.WorkerConfig, version string) Config {
	return Config{
		Masters:   slices.Clone(c.Worker.Masters),
		Join:      slices.Clone(c.Gossip.Join),
		Cores:     c.Worker.Cores,
		MemoryMiB: c.Worker.MemoryMiB,
		Resources: c.Worker.Resources.Clone(),
		Discovery: maps.Clone(c.Worker.Discovery),
		Labels:    maps.Clone(c.Worker.Labels),
		DataDir:   c.DataDir,
		WorkDir:   c.Worker.WorkDir,

		WorkBudgetBytes:   c.Worker.WorkBudgetMiB << 20,
		ProgramCacheBytes: c.Worker.ProgramCacheMiB << 20,

		Bind:      c.Network.Bind,
		Advertise: c.Network.Advertise,
		GRPCPort:  c.Network.GRPCPort,
		SerfPort:  c.Network.SerfPort,
		HTTPPort:  c.Network.HTTPPort,

		HTTPCertOptional: c.HTTP.ClientAuth == config.ClientAuthOptional,
		Version:          version,
	}
}

// withDefaults fills in what was left open and reports every problem.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if len(c.Masters) == 0 && len(c.Join) == 0 {
		errs = append(errs, errors.New("neither masters nor join: there is nobody to work for"))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory"))
	}
	if c.Bind == "" {
		errs = append(errs, errors.New("no address to bind"))
	}
	if c.Advertise == "" {
		c.Advertise = c.Bind
	}
	if c.WorkDir == "" {
		c.WorkDir = filepath.Join(c.DataDir, "work")
	}
	if c.ProgramCacheBytes == 0 {
		c.ProgramCacheBytes = config.DefaultProgramCacheMiB << 20
	}
	for _, p := range []struct {
		name string
		port int
	}{{"gRPC", c.GRPCPort}, {"Serf", c.SerfPort}, {"HTTP", c.HTTPPort}} {
		if p.port < 0 || p.port > 65535 {
			errs = append(errs, fmt.Errorf("%s port %d: want 0 to 65535", p.name, p.port))
		}
	}
	if c.Cores < 0 || c.Cores > model.MaxCores {
		errs = append(errs, fmt.Errorf("%d cores: want 0 to %d", c.Cores, model.MaxCores))
	}
	if c.MemoryMiB < 0 || c.MemoryMiB > model.MaxMemoryMiB {
		errs = append(errs, fmt.Errorf("%d MiB of memory: want 0 to %d", c.MemoryMiB, model.MaxMemoryMiB))
	}
	if len(c.Labels) > model.MaxLabels {
		errs = append(errs, fmt.Errorf("%d labels, at most %d", len(c.Labels), model.MaxLabels))
	}
	errs = append(errs, checkResources(c.Resources))
	return c, errors.Join(errs...)
}

func (d Deps) check() error {
	var errs []error
	if d.Logger == nil {
		errs = append(errs, errors.New("no logger"))
	}
	if len(d.KeeperExe) == 0 && d.Runner == nil {
		errs = append(errs, errors.New("no command that starts the keeper"))
	}
	if len(d.ExecutorExe) == 0 {
		errs = append(errs, errors.New("no command that starts an executor"))
	}
	return errors.Join(errs...)
}
