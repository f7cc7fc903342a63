package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// Exit codes of a program.
const (
	CodeOK          = 0
	CodeFailed      = 1   // the driver's part returned an error
	CodeUsage       = 2   // the program or its command line is wrong
	CodeInterrupted = 130 // ended by a signal
	CodeFault       = 255 // the cluster could not be reached, or ended the application
)

// Main is a whole program: driver and executor in one. Started by a user it is the
// driver: it finds the masters (--masters, HEARTH_MASTERS), registers the
// application, ships its own executable to the workers and runs the driver's part.
// Started by a worker it is an executor and runs functions until the driver is done.
// It returns the exit code:
//
//	func main() { os.Exit(driver.Main(setup)) }
//
// setup describes the program and must do nothing else: it runs in the driver and
// in every executor. SIGINT and SIGTERM end the driver's context; a second signal
// ends the process.
func Main(setup func(*Program)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one has its usual effect
	return Run(ctx, setup, Invocation{Args: os.Args, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr})
}

// Invocation is how a program was started.
type Invocation struct {
	Args   []string // the first one is the program's name
	Env    []string // "NAME=value"
	Stdout io.Writer
	Stderr io.Writer
	// Executable is what is shipped to workers; "" = the file of this process.
	Executable string
	// Observer is told of executors and lost tasks, see Config.Observer; nil =
	// nobody.
	Observer func(Event)
}

// Run is Main for a program that looks after signals, streams and its exit by
// itself, and for tests.
func Run(ctx context.Context, setup func(*Program), inv Invocation) int {
	p, std, err := newProgram(setup)
	if err != nil {
		fmt.Fprintf(inv.Stderr, "%s: %v\n", inv.name(), err)
		return CodeUsage
	}
	if startedByWorker(inv.Env) {
		return runExecutor(ctx, p, inv)
	}
	d := &program{p: p, std: std, inv: inv}
	code, err := d.run(ctx)
	if err != nil {
		fmt.Fprintf(inv.Stderr, "%s: %v\n", inv.name(), err)
		printStack(inv.Stderr, err)
	}
	return code
}

func (inv *Invocation) name() string {
	if len(inv.Args) == 0 {
		return "driver"
	}
	return filepath.Base(inv.Args[0])
}

// printStack shows where a function or the driver's part panicked.
func printStack(w io.Writer, err error) {
	var call *CallError
	var part *partPanicError
	switch {
	case errors.As(err, &part):
		fmt.Fprintf(w, "\n%s\n", strings.TrimRight(part.stack, "\n"))
	case errors.As(err, &call) && call.Panicked():
		fmt.Fprintf(w, "\n%s\n", strings.TrimRight(call.Stack, "\n"))
	}
}

// partPanicError is a panic of the driver's part.
type partPanicError struct {
	value any
	stack string
}

func (e *partPanicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// runPart runs the driver's part. Its panic becomes an error: the application and
// its executors end with that reason, which a process that merely dies leaves the
// cluster to find out.
func (p *Program) runPart(ctx context.Context, app *App) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &partPanicError{value: v, stack: string(debug.Stack())}
		}
	}()
	return p.run(ctx, app)
}

// startedByWorker reports whether the environment is that of an executor of an
// application with a driver. A task's process has the same without the secret.
func startedByWorker(env []string) bool {
	for _, name := range []string{"HEARTH_EXECUTOR_ID", "HEARTH_DRIVER_ADDR", "HEARTH_SECRET_FILE"} {
		if !slices.ContainsFunc(env, func(kv string) bool {
			v, ok := strings.CutPrefix(kv, name+"=")
			return ok && v != ""
		}) {
			return false
		}
	}
	return true
}

// runExecutor is the executor's part.
func runExecutor(ctx context.Context, p *Program, inv Invocation) int {
	cfg, err := executor.ConfigFromEnv(inv.Env)
	if err != nil {
		fmt.Fprintf(inv.Stderr, "%s: %v\n", inv.name(), err)
		return CodeFailed
	}
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "hearth.executor", Level: hclog.Info, Output: inv.Stderr})
	if err := p.execute(ctx, cfg); err != nil {
		fmt.Fprintf(inv.Stderr, "%s: %v\n", inv.name(), err)
		return CodeFailed
	}
	return CodeOK
}

// execute runs an executor of the program.
func (p *Program) execute(ctx context.Context, cfg executor.Config) error {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	env := newExecutorEnv(p, &cfg)
	cfg.Functions = p.executorFunctions(env)
	err := executor.Run(ctx, cfg)
	return errors.Join(err, env.close())
}

// program is one run of the driver's part.
type program struct {
	p   *Program
	std *standardFlags
	inv Invocation
	log hclog.Logger

	cfg        Config
	dynamic    *Dynamic
	registered chan struct{} // closed with EventRegistered
	ready      atomic.Bool   // an executor has come
}

// run is the driver from its flags to the end of the application.
func (d *program) run(ctx context.Context) (int, error) {
	err := d.parse()
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return CodeOK, nil
	case err != nil:
		return CodeUsage, err
	}
	conf, warnings, err := config.LoadClient(d.std.configFile, d.inv.Env, d.std.set)
	if err != nil {
		return CodeUsage, err
	}
	for _, w := range warnings {
		d.log.Warn(w)
	}
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = conf.TLS.Paths()
	source, err := tlsconf.Load(files)
	if err != nil {
		return CodeUsage, fmt.Errorf("load TLS files: %w", err)
	}
	token, err := config.ReadToken(conf.TokenFile)
	if err != nil {
		return CodeUsage, err
	}
	owner, attempt := client.DriverFromEnv(d.inv.Env)
	c, err := client.New(client.Config{Masters: conf.Masters, TLS: source.Client(), Principal: userName(), Token: token, Logger: d.log, Driver: owner, Attempt: attempt})
	if err != nil {
		return CodeUsage, err
	}
	defer func() { _ = c.Close() }() // nothing is under way any more
	exe, err := d.describe(ctx, c, conf.Masters)
	if err != nil {
		return CodeUsage, err
	}
	defer exe.Close() // read only
	drv, err := New(d.cfg)
	if err != nil {
		return CodeUsage, err
	}
	if err := drv.contents.add(d.cfg.Spec.Program.SHA256, d.cfg.Spec.Program.Bytes, exe); err != nil {
		return CodeFault, fmt.Errorf("hand out the program: %w", err)
	}
	return d.drive(ctx, drv)
}

func (d *program) parse() error {
	args := d.inv.Args
	if len(args) > 0 {
		args = args[1:]
	}
	fs := d.p.flags
	fs.SetOutput(d.inv.Stderr)
	fs.Usage = func() {
		fmt.Fprintf(d.inv.Stderr, "Usage: %s [flags] [arguments]\n\nFlags:\n%s", d.inv.name(), fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w; see --help", err)
	}
	if err := d.std.apply(d.p); err != nil {
		return err
	}
	if d.p.configure != nil {
		if err := d.p.configure(); err != nil {
			return err
		}
	}
	d.log = hclog.New(&hclog.LoggerOptions{Name: d.inv.name(), Level: hclog.LevelFromString(d.std.logLevel), Output: d.inv.Stderr})
	return nil
}

// describe makes the driver's configuration and opens what it ships.
func (d *program) describe(ctx context.Context, c *client.Client, masters []string) (exe *os.File, err error) {
	p := d.p
	if p.Dynamic != nil {
		dyn, err := p.Dynamic.prepare()
		if err != nil {
			return nil, err
		}
		d.dynamic = &dyn
	}
	host, advertise, err := Hosts(ctx, d.std.bind, d.std.advertise, d.inv.Env, masters)
	if err != nil {
		return nil, err
	}
	exe, program, err := openProgram(d.inv.Executable)
	if err != nil {
		return nil, err
	}
	program.Path = d.std.program
	d.registered = make(chan struct{})
	d.cfg = Config{
		dynamic: d.dynamic != nil,
		Client:  c, Spec: d.spec(program), Listen: net.JoinHostPort(host, "0"), Advertise: advertise,
		CoresPerTask: p.CoresPerTask, Observer: d.observe, Logger: d.log.Named("driver"),
	}
	return exe, nil
}

func (d *program) spec(program model.Program) model.AppSpec {
	p := d.p
	spec := model.AppSpec{
		Name: p.Name, User: userName(), CoresMax: p.MaxCores,
		Profile:   model.Profile{Cores: p.ExecutorCores, MemoryMiB: p.MemoryMiB, Resources: p.Resources},
		Executors: p.Executors, Command: model.Command{Env: p.Env}, Disconnect: p.Disconnect, Program: program,
	}
	p.Placing.Apply(&spec)
	if spec.Name == "" {
		spec.Name = d.inv.name()
	}
	if spec.Profile.MemoryMiB == 0 {
		spec.Profile.MemoryMiB = DefaultMemoryMiB
	}
	if spec.Executors == 0 {
		spec.Executors = model.TargetUnlimited
	}
	if d.dynamic != nil {
		spec.Executors = d.dynamic.Initial
	}
	return spec
}

// openProgram opens the executable of this process, even if its file was replaced
// or removed meanwhile, and describes it.
func openProgram(path string) (*os.File, model.Program, error) {
	if path == "" {
		path = "/proc/self/exe"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, model.Program{}, fmt.Errorf("open the program to ship: %w", err)
	}
	digest, n, err := digestOf(f)
	if err != nil {
		return nil, model.Program{}, errors.Join(fmt.Errorf("read the program to ship: %w", err), f.Close())
	}
	return f, model.Program{SHA256: digest, Bytes: n}, nil
}

func (d *program) observe(e Event) {
	switch e.Kind { //nolint:exhaustive // the others are not of interest here
	case EventRegistered:
		close(d.registered)
	case EventExecutorReady:
		d.ready.Store(true)
	}
	if d.inv.Observer != nil {
		d.inv.Observer(e)
	}
}

// drive runs the driver and its part beside each other and ends both.
func (d *program) drive(ctx context.Context, drv *Driver) (int, error) {
	// The driver outlives ctx: it ends the application.
	var joined sync.WaitGroup
	defer joined.Wait() // after all that ends what is waited for
	dctx, stopDriver := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDriver()
	pctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	app := newApp(drv, d.p, d.p.flags.Args(), d.log)
	driverErr := make(chan error, 1)
	joined.Go(func() {
		err := drv.Run(dctx)
		driverErr <- err
		if err == nil {
			err = errStopped
		}
		cancel(err)
	})
	joined.Go(app.route)
	select {
	case <-d.registered:
	case err := <-driverErr:
		return CodeFault, err
	case <-ctx.Done():
		stopDriver()
		<-drv.done
		return CodeInterrupted, d.unregister(ctx, drv)
	}
	joined.Go(func() { d.notice(pctx, app) })
	if d.dynamic != nil {
		joined.Go(func() { app.runAllocation(pctx, *d.dynamic) })
	}
	err := d.p.runPart(pctx, app)
	cause := context.Cause(pctx)
	cancel(nil)
	return d.end(ctx, app, err, cause, stopDriver)
}

// unregister ends an application whose registration won the race with a signal.
func (d *program) unregister(ctx context.Context, drv *Driver) error {
	app := drv.App()
	if app == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := d.cfg.Client.KillApp(ctx, app, "interrupted"); err != nil {
		return fmt.Errorf("%s was not ended, the cluster ends it soon: %w", app, err)
	}
	return nil
}

// end tells the cluster what came of the application. cause is why the context of
// the driver's part has ended, if it has.
func (d *program) end(ctx context.Context, app *App, err, cause error, stopDriver func()) (int, error) {
	state, reason, code := model.AppFinished, "", CodeOK
	var ended *AppEndedError
	switch {
	case errors.As(cause, &ended), cause != nil && ctx.Err() == nil:
		// The driver itself has ended: nothing is left to tell. Whatever its part
		// made of it, what it did since was done without a cluster.
		stopDriver()
		<-app.drv.done
		return CodeFault, cause
	case err == nil:
	case ctx.Err() != nil:
		state, reason, code = model.AppFailed, "interrupted", CodeInterrupted
	default:
		state, reason, code = model.AppFailed, err.Error(), CodeFailed
	}
	fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	stop := context.AfterFunc(fctx, stopDriver)
	defer stop()
	if ferr := app.drv.Finish(fctx, state, reason, code); ferr != nil && !errors.Is(ferr, model.ErrEnded) {
		d.log.Warn("the cluster was not told that the application is over: it ends it by itself", "app", string(app.ID()), "err", ferr)
	}
	<-app.drv.done
	if code == CodeInterrupted {
		err = nil // the user knows
	}
	return code, err
}

// notice tells the user, once, when no executor has come after a while.
func (d *program) notice(ctx context.Context, app *App) {
	if sleep(ctx, noticeAfter) && !d.ready.Load() {
		d.log.Warn("no executor has come yet; hearth app says why", "app", string(app.ID()))
	}
}

const (
	// finishTimeout bounds the end of an application.
	finishTimeout = 10 * time.Second
	// noticeAfter is when a user wants to know why nothing happens.
	noticeAfter = 10 * time.Second
)

// userName is who runs the program, for display; "" if the system cannot say.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
