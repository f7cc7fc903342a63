package driver

import (
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// standardFlags are those of every program.
type standardFlags struct {
	set        *pflag.FlagSet
	configFile string
	name       string
	executors  int
	cores      int
	memory     string
	maxCores   int
	program    string
	bind       string
	advertise  string
	logLevel   string
	placing    *config.PlacingFlags
}

func bindStandard() *standardFlags {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := &standardFlags{set: fs}
	config.BindClientFlags(fs)
	fs.StringVar(&f.configFile, "config", "", "HCL file with a client {} block")
	fs.StringVar(&f.name, "name", "", "name of the application (default: the program's)")
	fs.IntVar(&f.executors, "executors", 0, "number of executors (default: the program's choice, or what is granted)")
	fs.IntVar(&f.cores, "executor-cores", 0, "cores of each executor (default: the program's choice, or all a worker has)")
	fs.StringVar(&f.memory, "memory", "", "memory of each executor (default: the program's choice, or 512m)")
	fs.IntVar(&f.maxCores, "max-cores", 0, "most cores over all executors (default: the program's choice, or the cluster's)")
	f.placing = config.BindPlacingFlags(fs, "executor")
	fs.StringVar(&f.program, "program", "", "absolute path where workers have this program already; one with another digest is not used")
	fs.StringVar(&f.bind, "bind", "", "address on which executors are served (default: loopback if the masters are there, else that of the route to them)")
	fs.StringVar(&f.advertise, "advertise", "", "host under which executors reach it (default: the bind address)")
	fs.StringVar(&f.logLevel, "log-level", "warn", "trace, debug, info, warn or error")
	return f
}

// addTo adds the flags to those of the program itself. A name or letter that the
// program uses stays the program's: one that was written before there was a
// standard flag of that name goes on as it did.
func (f *standardFlags) addTo(own *pflag.FlagSet) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil {
			return
		}
		if flag.Shorthand != "" && own.ShorthandLookup(flag.Shorthand) != nil {
			flag.Shorthand = ""
		}
		own.AddFlag(flag)
	})
}

// apply puts what the command line asks for over what the program does.
func (f *standardFlags) apply(p *Program) error {
	set := func(to *int, from int, flag string) {
		if f.set.Changed(flag) {
			*to = from
		}
	}
	set(&p.Executors, f.executors, "executors")
	set(&p.ExecutorCores, f.cores, "executor-cores")
	set(&p.MaxCores, f.maxCores, "max-cores")
	if f.name != "" {
		p.Name = f.name
	}
	if f.memory != "" {
		m, err := config.ParseMemory(f.memory)
		if err != nil {
			return fmt.Errorf("--memory: %w", err)
		}
		p.MemoryMiB = m
	}
	if err := f.placing.Apply(&p.Placing, &p.Resources); err != nil {
		return err
	}
	if hclog.LevelFromString(f.logLevel) == hclog.NoLevel {
		return fmt.Errorf("--log-level %q: %w: want trace, debug, info, warn or error", f.logLevel, model.ErrInvalid)
	}
	return nil
}
