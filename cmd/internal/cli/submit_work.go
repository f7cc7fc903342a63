package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// workFlags are what `hearth submit` and `hearth driver submit` are both asked for.
// Where it means something else to copies than to a driver, each of them binds it.
type workFlags struct {
	cluster    clusterFlags
	out        output
	name       string
	cores      int
	memory     string
	env        []string
	chdir      string
	files      []string
	disconnect string
	maxRuntime time.Duration
	wait       bool
	detach     bool
}

// bind binds what means the same to both; kind is what they submit.
func (f *workFlags) bind(cmd *cobra.Command, kind string) {
	f.cluster.bind(cmd)
	f.out.bind(cmd)
	fs := cmd.Flags()
	fs.Lookup("timeout").DefValue = "no limit"
	fs.StringVar(&f.name, "name", "", "name of the "+kind+" (default: the command's name)")
	fs.BoolVar(&f.wait, "wait", false, "wait until the "+kind+" has ended")
	fs.BoolVar(&f.detach, "detach", false, "do not wait for a placement")
}

// work is what the flags say of what is to run.
type work struct {
	name    string
	memory  int64
	command model.Command
	files   []model.File
}

// read turns the flags into a description of what runs argv.
func (f *workFlags) read(s Streams, argv []string, ps *problems) work {
	ps.add(f.out.check())
	if f.wait && f.detach {
		ps.add(errors.New("--wait and --detach exclude each other"))
	}
	ps.add(checkRuntime(f.maxRuntime))
	memory, err := parseMemory(f.memory)
	ps.add(err)
	env, err := passEnv(f.env, s.Env)
	ps.add(err)
	files, err := readFiles(f.files)
	ps.add(err)
	w := work{name: f.name, memory: memory, command: model.Command{Argv: argv, Env: env, Dir: f.chdir}, files: files}
	if w.name == "" {
		w.name = filepath.Base(argv[0])
	}
	return w
}

// problems collects what is wrong with a command line, to say all of it at once.
type problems []error

func (ps *problems) add(err error) {
	if err != nil {
		*ps = append(*ps, err)
	}
}

// orOf returns the problems as a fault of usage. If there is none, whole judges:
// of a description made from faulty flags it would say the same again.
func (ps *problems) orOf(whole func() error) error {
	if len(*ps) == 0 {
		ps.add(whole())
	}
	if err := errors.Join(*ps...); err != nil {
		return &codedError{code: exitUsage, err: err}
	}
	return nil
}

// checkRuntime refuses what is no time, or would be cut to 0, which is no limit.
func checkRuntime(d time.Duration) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("--max-runtime %s: must be at least 1ms, or 0 for no limit", d)
	}
	return nil
}

// parseMemory reads --memory, which nobody may have none of.
func parseMemory(text string) (int64, error) {
	mib, err := config.ParseMemory(text)
	if err == nil && mib < 1 {
		err = fmt.Errorf("%s: must be at least 1m", text)
	}
	return mib, wrapFlag("--memory", err)
}

func wrapFlag(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// passEnv resolves NAME to the caller's own value; NAME=VALUE stays.
func passEnv(list, own []string) ([]string, error) {
	var out []string
	for _, e := range list {
		if strings.Contains(e, "=") {
			out = append(out, e)
			continue
		}
		found := false
		for _, o := range own {
			if name, _, _ := strings.Cut(o, "="); name == e {
				out, found = append(out, o), true
			}
		}
		if !found {
			return nil, fmt.Errorf("--env %q: not set here; give NAME=VALUE", e)
		}
	}
	return out, nil
}

// readFiles reads --file arguments; sizes are checked by the description.
func readFiles(list []string) ([]model.File, error) {
	var out []model.File
	for _, f := range list {
		path, name, ok := strings.Cut(f, ":")
		if !ok {
			name = filepath.Base(path)
		}
		st, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--file %q: %w", f, err)
		}
		if !st.Mode().IsRegular() || st.Size() > model.MaxSpecBytes {
			return nil, fmt.Errorf("--file %q: must be a regular file of at most %d bytes", f, model.MaxSpecBytes)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--file %q: %w", f, err)
		}
		out = append(out, model.File{Name: name, Mode: uint32(st.Mode().Perm()), Data: data})
	}
	return out, nil
}
