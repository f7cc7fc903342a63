//go:build linux

package testcluster

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
	"github.com/hearthd/hearth/workerd/keeper"
)

// program is what a pretended process does until it ends by itself or is signalled.
type program func(term, kill <-chan struct{}) keeper.Exit

// executorProgram is the name under which workers of a cluster start the executor of a driver.
const executorProgram = "hearth-executor"

// Sleepers is an application of n executors that live until they are ended.
func Sleepers(name string, n int) model.AppSpec {
	return model.AppSpec{
		Name: name, Kind: model.AppKindCommand, Executors: n, Restart: model.RestartAlways,
		Profile: model.Profile{Cores: 1, MemoryMiB: 64},
		Command: model.Command{Argv: []string{"sleep", "forever"}},
	}
}

// programs knows the commands that pretended processes can run:
//
//	sleep forever | SECONDS   ends with 0 after that time, at once by SIGTERM
//	polite                    ends with 0 by SIGTERM
//	deaf                      ends by SIGKILL only
//	undead SECONDS            ends that long after SIGKILL, as one that hangs in the kernel
//	fail CODE                 ends at once
//	brittle HOST SECONDS      fails after that time on one host, on any if that is *, and is a "sleep forever" on others
//	missing [HOST]            cannot be started, on one host or anywhere
//	hearth-executor           is a real executor
//
// Anything else is a "sleep forever".
func programs(host func() *simnet.Host, books *ledger, log hclog.Logger) func(keeper.StartRequest) program {
	return func(req keeper.StartRequest) program {
		switch {
		case req.Argv[0] == "sleep" && len(req.Argv) == 2:
			if n, err := strconv.Atoi(req.Argv[1]); err == nil {
				return sleeper(time.Duration(n) * time.Second)
			}
		case req.Argv[0] == "polite":
			return func(term, kill <-chan struct{}) keeper.Exit {
				select {
				case <-term:
					return keeper.Exit{}
				case <-kill:
					return bySignal(syscall.SIGKILL)
				}
			}
		case req.Argv[0] == "deaf":
			return func(_, kill <-chan struct{}) keeper.Exit {
				<-kill
				return bySignal(syscall.SIGKILL)
			}
		case req.Argv[0] == "undead" && len(req.Argv) == 2:
			if n, err := strconv.Atoi(req.Argv[1]); err == nil {
				return func(_, kill <-chan struct{}) keeper.Exit {
					<-kill
					time.Sleep(time.Duration(n) * time.Second)
					return bySignal(syscall.SIGKILL)
				}
			}
		case req.Argv[0] == "brittle" && len(req.Argv) == 3 && (req.Argv[1] == "*" || req.Argv[1] == host().Name()):
			if n, err := strconv.Atoi(req.Argv[2]); err == nil {
				return failing(sleeper(time.Duration(n) * time.Second))
			}
		case req.Argv[0] == "fail" && len(req.Argv) == 2:
			if n, err := strconv.Atoi(req.Argv[1]); err == nil {
				return func(_, _ <-chan struct{}) keeper.Exit { return keeper.Exit{Code: n} }
			}
		case filepath.Base(req.Argv[0]) == executorProgram:
			return executorOf(req, host(), books, log)
		}
		return sleeper(0)
	}
}

// missing says whether a host has no such command.
func missing(host string, argv []string) bool {
	return argv[0] == "missing" && (len(argv) == 1 || argv[1] == host)
}

// failing makes a clean exit one with code 1.
func failing(run program) program {
	return func(term, kill <-chan struct{}) keeper.Exit {
		x := run(term, kill)
		if x == (keeper.Exit{}) {
			x.Code = 1
		}
		return x
	}
}

func bySignal(sig syscall.Signal) keeper.Exit { return keeper.Exit{Code: -1, Signal: int(sig)} }

// sleeper lives for d; 0 means for ever.
func sleeper(d time.Duration) program {
	return func(term, kill <-chan struct{}) keeper.Exit {
		var end <-chan time.Time
		if d > 0 {
			t := time.NewTimer(d)
			defer t.Stop()
			end = t.C
		}
		select {
		case <-end:
			return keeper.Exit{}
		case <-term:
			return bySignal(syscall.SIGTERM)
		case <-kill:
			return bySignal(syscall.SIGKILL)
		}
	}
}

// executorOf runs a real executor in the bubble. Its tasks are real processes, for which virtual time stands still.
func executorOf(req keeper.StartRequest, host *simnet.Host, books *ledger, log hclog.Logger) program {
	env := make(map[string]string)
	for _, kv := range req.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	return func(term, kill <-chan struct{}) keeper.Exit {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cfg, err := executorConfig(env, req.Dir)
		if err != nil {
			log.Error("executor not started", "err", err)
			return keeper.Exit{Code: 1}
		}
		cfg.Env, cfg.Logger = req.Env, log
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			books.dialled(host.Name())
			return host.Dial(ctx, addr)
		}
		ended := make(chan error, 1)
		go func() { ended <- executor.Run(ctx, cfg) }()
		exit := func(err error) keeper.Exit {
			if err != nil {
				log.Warn("executor ended", "executor", req.Key, "err", err)
				return keeper.Exit{Code: 1}
			}
			return keeper.Exit{}
		}
		select {
		case err := <-ended:
			return exit(err)
		case <-term:
			cancel()
			return exit(<-ended)
		case <-kill:
			cancel()
			<-ended //nolint:errcheck // who is killed says nothing
			return bySignal(syscall.SIGKILL)
		}
	}
}

func executorConfig(env map[string]string, dir string) (executor.Config, error) {
	cores, err := strconv.Atoi(env[workerd.EnvCores])
	if err != nil {
		return executor.Config{}, err
	}
	id, err := strconv.Atoi(env[keeper.EnvExecutorID])
	if err != nil {
		return executor.Config{}, err
	}
	secret, err := os.ReadFile(env[workerd.EnvSecretFile])
	if err != nil {
		return executor.Config{}, err
	}
	return executor.Config{
		App: model.AppID(env[keeper.EnvAppID]), Executor: model.ExecutorID(id), //nolint:gosec // an id
		DriverAddr: env[workerd.EnvDriverAddr], Secret: model.Secret(strings.TrimSpace(string(secret))), Cores: cores,
		Worker: model.WorkerID(env[keeper.EnvWorkerID]), Host: "simulated", WorkDir: dir,
		TLS: tlsconf.Pinned(env[workerd.EnvDriverCert]),
	}, nil
}
