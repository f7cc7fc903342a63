//go:build linux

package workerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
)

// Limits of a discovery script.
const (
	// DiscoveryTimeout is how long it may run.
	DiscoveryTimeout = 30 * time.Second
	// discoveryWait is how long what it has left behind may hold its output after it was killed.
	discoveryWait = time.Second
	// MaxDiscoveryBytes bounds what it says.
	MaxDiscoveryBytes = 1 << 20
	maxDiscoveryError = 512 // bytes of its standard error that are shown
)

// Components of a resources file (spark-standalone 1.G).
const (
	componentExecutor = "spark.executor"
	componentDriver   = "spark.driver"
)

// resourcesFile is where a process finds the addresses that it was given.
const resourcesFile = "hearth-resources.json"

// discover runs the discovery scripts and adds what they find to resources that are configured. A script
// that fails is an error: a worker that offers less than it was told to would look healthy.
func discover(ctx context.Context, configured model.Resources, scripts map[string]string, environ []string) (model.Resources, error) {
	return discoverWithin(ctx, DiscoveryTimeout, configured, scripts, environ)
}

func discoverWithin(ctx context.Context, limit time.Duration, configured model.Resources, scripts map[string]string, environ []string) (model.Resources, error) {
	out := configured.Clone()
	if out == nil && len(scripts) > 0 {
		out = make(model.Resources, len(scripts))
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		path := scripts[name]
		if _, twice := out[name]; twice {
			errs = append(errs, fmt.Errorf("discover resource %s: it is in the list of resources already: list it or let %s find it", name, path))
			continue
		}
		addrs, err := runDiscovery(ctx, limit, name, path, environ)
		if err == nil {
			err = checkResources(model.Resources{name: addrs})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("discover resource %s: script %s: %w", name, path, err))
			continue
		}
		out[name] = addrs
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, checkResources(out)
}

// runDiscovery runs one script as the worker's user, in a process group of its own, and reads what it
// says: one JSON object, as Spark's scripts do.
func runDiscovery(ctx context.Context, limit time.Duration, name, path string, environ []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stdout, stderr := &bounded{limit: MaxDiscoveryBytes}, &bounded{limit: maxDiscoveryError}
	cmd := exec.CommandContext(ctx, path)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = withoutOwn(environ)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = discoveryWait
	err := cmd.Run()
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it did not end within %s and was killed%s", limit, said(stderr))
	case err != nil:
		return nil, fmt.Errorf("it must run and exit with 0: %w%s", err, said(stderr))
	case stdout.over:
		return nil, fmt.Errorf("it must print one JSON object of at most %d bytes, and printed more", MaxDiscoveryBytes)
	}
	return parseDiscovery(name, stdout.buf.Bytes())
}

// parseDiscovery reads {"name": "gpu", "addresses": ["0", "1"]}.
func parseDiscovery(name string, text []byte) ([]string, error) {
	var found struct {
		Name      string   `json:"name"`
		Addresses []string `json:"addresses"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&found); err != nil {
		return nil, fmt.Errorf(`it must print one JSON object such as {"name": "%s", "addresses": ["0", "1"]}: %w`, name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it must print one JSON object and nothing behind it")
	}
	if found.Name != name {
		return nil, fmt.Errorf("it must find %q, and says that it has found %q", name, found.Name)
	}
	seen := make(map[string]bool, len(found.Addresses))
	for _, a := range found.Addresses {
		if a == "" || len(a) > model.MaxNameBytes || seen[a] {
			return nil, fmt.Errorf("address %.64q is empty, longer than %d bytes or given twice", a, model.MaxNameBytes)
		}
		seen[a] = true
	}
	return found.Addresses, nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	buf   bytes.Buffer
	limit int
	over  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.buf.Len(); len(p) > room {
		b.buf.Write(p[:room])
		b.over = true
	} else {
		b.buf.Write(p)
	}
	return len(p), nil
}

func said(stderr *bounded) string {
	if text := strings.TrimSpace(stderr.buf.String()); text != "" {
		return fmt.Sprintf("; it said: %q", text)
	}
	return ""
}

// withoutOwn is an environment without the worker's own variables.
func withoutOwn(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, envPrefix) })
}

// resourceEntry is one element of a resources file.
type resourceEntry struct {
	ID struct {
		ComponentName string `json:"componentName"`
		ResourceName  string `json:"resourceName"`
	} `json:"id"`
	Addresses []string `json:"addresses"`
}

// writeResources puts the addresses that a process was given into its directory, in the form of Spark's
// resources files; nothing is written if there are none.
func writeResources(dir string, o *model.LaunchOrder) error {
	if len(o.Resources) == 0 {
		return nil
	}
	component := componentExecutor
	if model.IsDriver(o.Ref.App) {
		component = componentDriver
	}
	list := make([]resourceEntry, 0, len(o.Resources))
	for _, name := range slices.Sorted(maps.Keys(o.Resources)) {
		e := resourceEntry{Addresses: o.Resources[name]}
		e.ID.ComponentName, e.ID.ResourceName = component, name
		list = append(list, e)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("write %s: %w", resourcesFile, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(writeNew(root, resourcesFile, append(data, '\n'), 0o600), root.Close())
}
