package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// DefaultMemoryMiB is the memory of an executor unless it is asked for.
const DefaultMemoryMiB = 512

// Options are what the user asks for.
type Options struct {
	// Command is a template, run by /bin/sh -c; see Template.
	Command string
	// Args are the lists of inputs of the command line; ArgFiles are files
	// with one input a line, "-" is standard input. Several sources are
	// combined, each input with each. Without any source, standard input is
	// read.
	Args     [][]string
	ArgFiles []string
	// NullSeparated: inputs in files and on standard input end with NUL, not
	// with a newline.
	NullSeparated bool

	Name string // of the application; "" = the command's first word
	User string
	// Cores per task; 0 = 1. With more than one, each executor has exactly
	// that many: pieces too small for a task would be granted otherwise.
	Cores int
	// Jobs is the most tasks at once; 0 = what is granted.
	Jobs      int
	MemoryMiB int64 // of an executor; 0 = DefaultMemoryMiB
	// Resources are what each executor needs besides; Placing is with whom it is
	// waited and where executors may go.
	Resources map[string]int
	Placing   model.Placing

	// KeepOrder prints output in the order of the inputs.
	KeepOrder bool
	// Retries is how often a failed task is run again. Tasks that were lost
	// with their executor run again in any case.
	Retries int
	Timeout time.Duration // of each attempt; 0 = none
	// ResultsDir gets a directory for each task, named by its number, with the
	// files stdout, stderr and exit; "" = none.
	ResultsDir string
	Halt       Halt
	// Transfer are files that are put into each task's directory, under their
	// relative path, or their last component if they are absolute. They may
	// be templates, "{}" for instance.
	Transfer []string
	// Env are NAME=value, or NAME for the value in Environ.
	Env     []string
	Environ []string // the caller's environment
	Chdir   string   // absolute directory on the workers; "" = a fresh one for each task

	// Bind and Advertise are the hosts on which executors are served and under
	// which they come; "" = see Deps.Masters.
	Bind      string
	Advertise string
}

// Deps are what Run works with.
type Deps struct {
	Client *client.Client
	// Masters are the addresses that Client was made with: without Bind the
	// driver listens on loopback if all of them are, else on the address from
	// which the first is reached.
	Masters []string
	Stdout  io.Writer
	Stderr  io.Writer
	Stdin   io.Reader
	// IsTerminal: Stderr is a terminal, and gets a progress bar.
	IsTerminal bool
	Logger     hclog.Logger // nil = silent
	// Abort, once closed, ends the run without waiting for anything; nil =
	// never.
	Abort <-chan struct{}
	// Observer is told of executors; see driver.Config.
	Observer func(driver.Event)
	// TaskEnded is told of each task that has ended for good, in the order of
	// their ends, from Run's goroutine; nil = nobody.
	TaskEnded func(TaskEnd)
}

// TaskEnd is what became of one task after its last attempt.
type TaskEnd struct {
	Seq      int // number of the input, from 1
	Inputs   []string
	ExitCode int // 0 = success; see design 9 for what is not an exit
	Tries    int
	Reruns   int // of the last try, because of lost executors
	Host     string
}

// Summary is what came of a run.
type Summary struct {
	App       model.AppID // "" if it was not registered
	Tasks     int         // inputs that were read
	Succeeded int
	Failed    int
	NotDone   int // cancelled, or not started because the run halted
	Retried   int
	Reruns    int // because of lost executors
	Elapsed   time.Duration
}

// plan is Options after checking.
type plan struct {
	Options
	command  Template
	env      []string
	transfer transfer
	bind     string // host:port
	host     string // advertised
}

// prepare checks the options; every error wraps model.ErrInvalid.
func (o Options) prepare(ctx context.Context, d *Deps) (*plan, error) {
	p := &plan{Options: o}
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{model.ErrInvalid}, args...)...))
	}
	var err error
	p.command, err = ParseTemplate(o.Command)
	note(err)
	note(p.command.checkSources("command", o.sources()))
	if o.Cores < 0 || o.Cores > model.MaxCores {
		bad("cores %d: must be between 1 and %d", o.Cores, model.MaxCores)
	}
	p.Cores = max(1, o.Cores)
	if o.Jobs < 0 || o.Jobs > model.MaxCores/min(p.Cores, model.MaxCores) {
		bad("jobs %d: must not be negative, nor need more than %d cores", o.Jobs, model.MaxCores)
	}
	if o.MemoryMiB == 0 {
		p.MemoryMiB = DefaultMemoryMiB
	}
	if o.Retries < 0 {
		bad("retries %d: must not be negative", o.Retries)
	}
	if o.Timeout < 0 {
		bad("timeout %s: must not be negative", o.Timeout)
	}
	if o.Chdir != "" && !filepath.IsAbs(o.Chdir) {
		bad("chdir %q: must be an absolute directory on the workers", o.Chdir)
	}
	if o.Chdir != "" && len(o.Transfer) > 0 {
		bad("transfer: files are put into a fresh directory for each task: it excludes chdir")
	}
	if p.Name == "" {
		p.Name = defaultName(o.Command)
	}
	p.env, err = environment(o.Env, o.Environ)
	note(err)
	p.transfer, err = newTransfer(o.Transfer)
	note(err)
	for _, t := range p.transfer.each {
		note(t.checkSources("transfer", o.sources()))
	}
	note(p.listen(ctx, d))
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

func defaultName(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 {
		return "run"
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, filepath.Base(words[0]))
	if len(name) > model.MaxNameBytes || name == "" {
		return "run"
	}
	return name
}

// environment resolves --env.
func environment(wanted, environ []string) ([]string, error) {
	var out []string
	var errs []error
	for _, w := range wanted {
		name, _, hasValue := strings.Cut(w, "=")
		switch {
		case name == "" || strings.ContainsRune(w, 0):
			errs = append(errs, fmt.Errorf("env %q: %w: want NAME or NAME=value", w, model.ErrInvalid))
		case hasValue:
			out = append(out, w)
		default:
			v, ok := lookup(environ, name)
			if !ok {
				errs = append(errs, fmt.Errorf("env %s: %w: it is not set here; NAME=value sets it", name, model.ErrInvalid))
				continue
			}
			out = append(out, name+"="+v)
		}
	}
	return out, errors.Join(errs...)
}

func lookup(environ []string, name string) (string, bool) {
	value, found := "", false
	for _, kv := range environ { // the last entry counts
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value, found = v, true
		}
	}
	return value, found
}

// listen decides where executors come to.
func (p *plan) listen(ctx context.Context, d *Deps) error {
	host, advertise, err := driver.Hosts(ctx, p.Bind, p.Advertise, p.Environ, d.Masters)
	if err != nil {
		return err
	}
	p.bind, p.host = net.JoinHostPort(host, "0"), advertise
	return nil
}
