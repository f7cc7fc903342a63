package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// MaxFileBytes bounds a configuration file.
const MaxFileBytes = 64 << 10

// maxDepth bounds the nesting of brackets in a file; honest ones need three.
const maxDepth = 32

// loader collects values and problems from the three sources.
type loader struct {
	keys     []key
	others   []key             // settings of other kinds of process
	sources  map[string]string // field to source, for what was set
	problems []Problem
}

// LoadMaster returns the configuration of a master from the file at path (none
// if empty), the environment in the form of os.Environ, and the flags of
// BindMasterFlags (none if nil). Warnings are sentences for the operator's eyes.
// The error is an *Error with every problem.
func LoadMaster(path string, env []string, flags *pflag.FlagSet) (MasterConfig, []string, error) {
	src, err := readFile(path)
	if err != nil {
		return MasterConfig{}, nil, err
	}
	return loadMaster(src, path, env, flags)
}

func loadMaster(src []byte, path string, env []string, flags *pflag.FlagSet) (MasterConfig, []string, error) {
	c := DefaultMaster()
	l := newLoader(masterKeys(&c))
	l.load(src, path, env, flags)
	v := &validator{sources: l.sources}
	v.master(&c)
	abs(v, "data_dir", &c.DataDir)
	if err := asError(append(l.problems, v.problems...)); err != nil {
		return MasterConfig{}, nil, err
	}
	return c, v.warnings, nil
}

// LoadWorker is LoadMaster for a worker. Without masters and join it looks for a
// master on loopback; without work_dir the directory "work" in data_dir is used.
func LoadWorker(path string, env []string, flags *pflag.FlagSet) (WorkerConfig, []string, error) {
	src, err := readFile(path)
	if err != nil {
		return WorkerConfig{}, nil, err
	}
	return loadWorker(src, path, env, flags)
}

func loadWorker(src []byte, path string, env []string, flags *pflag.FlagSet) (WorkerConfig, []string, error) {
	c := DefaultWorker()
	l := newLoader(workerKeys(&c))
	l.load(src, path, env, flags)
	if len(c.Worker.Masters) == 0 && len(c.Gossip.Join) == 0 {
		c.Worker.Masters = []string{defaultMasterAddress()}
	}
	if c.Worker.WorkDir == "" && c.DataDir != "" {
		c.Worker.WorkDir = filepath.Join(c.DataDir, "work")
	}
	v := &validator{sources: l.sources}
	v.worker(&c)
	abs(v, "data_dir", &c.DataDir)
	abs(v, "worker.work_dir", &c.Worker.WorkDir)
	if err := asError(append(l.problems, v.problems...)); err != nil {
		return WorkerConfig{}, nil, err
	}
	return c, v.warnings, nil
}

// LoadClient is LoadMaster for a client command. HEARTH_MASTERS sets the masters
// too, and HEARTH_CONFIG_CLIENT_MASTERS takes precedence over it.
func LoadClient(path string, env []string, flags *pflag.FlagSet) (ClientConfig, []string, error) {
	src, err := readFile(path)
	if err != nil {
		return ClientConfig{}, nil, err
	}
	c := DefaultClient()
	l := newLoader(clientKeys(&c))
	l.load(src, path, env, flags)
	v := &validator{sources: l.sources}
	v.client(&c)
	if err := asError(append(l.problems, v.problems...)); err != nil {
		return ClientConfig{}, nil, err
	}
	if c.TokenFile == "" {
		c.TokenFile = findToken(c.TLS, env)
	}
	return c, v.warnings, nil
}

// abs makes a path absolute, so that the log shows the whole of it and a change
// of directory changes nothing.
func abs(v *validator, field string, path *string) {
	if *path == "" {
		return // reported by the rules
	}
	full, err := filepath.Abs(*path)
	if err != nil {
		v.bad(field, *path, fmt.Sprintf("must be a path that can be made absolute: %v", err))
		return
	}
	*path = full
}

// newLoader knows the keys of all kinds of process, to tell a setting of another
// kind from a spelling mistake.
func newLoader(keys []key) *loader {
	var (
		m MasterConfig
		w WorkerConfig
		c ClientConfig
	)
	return &loader{
		keys:    keys,
		others:  slices.Concat(masterKeys(&m), workerKeys(&w), clientKeys(&c)),
		sources: make(map[string]string),
	}
}

// readFile returns the text of the file at path, nothing for an empty path.
func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	src, err := readRegular(path, MaxFileBytes)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Source: path, Rule: err.Error()}}}
	}
	return src, nil
}

// load applies the sources in rising priority.
func (l *loader) load(src []byte, path string, env []string, flags *pflag.FlagSet) {
	if len(src) > 0 {
		l.file(src, path)
	}
	l.environment(env)
	if flags != nil {
		l.flags(flags)
	}
}

// set parses the texts of one key.
func (l *loader) set(k key, source string, parts []string) {
	if len(parts) == 0 && k.value.shape == scalar {
		parts = []string{""}
	}
	l.sources[k.field()] = source
	if err := k.value.set(parts); err != nil {
		l.bad(source, k.field(), strings.Join(parts, ","), err.Error())
	}
}

func (l *loader) bad(source, field, value, rule string) {
	l.problems = append(l.problems, Problem{Source: source, Field: field, Value: clip(value), Rule: rule})
}

// environment applies variables in the order of the keys; of a variable given
// twice the last one counts. A variable that is a setting of another kind of
// process is left alone: one environment may serve several.
func (l *loader) environment(env []string) {
	vars := make(map[string]string)
	for _, entry := range env {
		if name, val, ok := strings.Cut(entry, "="); ok {
			vars[name] = val
		}
	}
	known := make(map[string]bool)
	for _, k := range l.others {
		known[k.envName()] = true
	}
	for _, k := range l.keys {
		for _, name := range []string{k.env, k.envName()} {
			if val, ok := vars[name]; ok && name != "" {
				l.set(k, name, split(val, k.value))
			}
		}
	}
	names := make([]string, 0, len(vars))
	for name := range vars {
		if strings.HasPrefix(name, EnvPrefix) && !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		l.bad(name, "", "", "no such setting"+didYouMean(name, envNames(l.keys)))
	}
}

// split cuts a text at the separator of the value; an empty text is no elements.
func split(text string, v value) []string {
	if v.shape == scalar {
		return []string{text}
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(text, v.separator)
}

// flags applies the flags that were given. Flags of lists may be repeated or
// hold several elements; those of mappings are one pair each.
func (l *loader) flags(fs *pflag.FlagSet) {
	for _, k := range l.keys {
		flag := fs.Lookup(k.flag)
		if k.flag == "" || flag == nil || !flag.Changed {
			continue
		}
		given, ok := flag.Value.(*flagValue)
		if !ok {
			continue // a flag of the caller's own with that name
		}
		parts := given.parts
		if k.value.shape == list {
			parts = nil
			for _, text := range given.parts {
				parts = append(parts, split(text, k.value)...)
			}
		}
		l.set(k, "--"+k.flag, parts)
	}
}

func envNames(keys []key) []string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.envName())
	}
	return names
}
