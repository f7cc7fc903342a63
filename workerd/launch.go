//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// Variables a launched process finds in its environment, beside those the keeper demands.
const (
	EnvCores          = "HEARTH_CORES"
	EnvMemoryMiB      = "HEARTH_MEMORY_MIB"
	EnvDriverAddr     = "HEARTH_DRIVER_ADDR"
	EnvDriverCert     = "HEARTH_DRIVER_CERT" // SHA-256 of the certificate that the driver shows
	EnvMasters        = "HEARTH_MASTERS"
	EnvSecretFile     = "HEARTH_SECRET_FILE"
	EnvLocalDirs      = "HEARTH_LOCAL_DIRS" // separated by commas
	EnvLogURLStdout   = "HEARTH_LOG_URL_STDOUT"
	EnvLogURLStderr   = "HEARTH_LOG_URL_STDERR"
	EnvResourcesFile  = "HEARTH_RESOURCES_FILE" // in the form of Spark's; only if there are any
	EnvResourcePrefix = "HEARTH_RESOURCE_"      // followed by the name in upper case; addresses separated by commas

	envPrefix = "HEARTH_"
)

const headerRule = "========================================" // 40, as Spark's

// launcher turns launch orders into processes to start. Its fields do not change; its method may be
// called concurrently.
type launcher struct {
	worker   model.WorkerID
	dir      *workDir
	executor []string // argv that starts an executor of an application with a driver
	environ  []string // the worker's own
	logURL   string   // "http://host:port", "" without a web server
	drivers  *driverTLS
	// bind and advertise are the worker's hosts if they differ, else "".
	bind, advertise string
}

// prepare makes the directory of the executor with its files and returns what the keeper is to
// start. masters are used if the order names none.
func (l *launcher) prepare(o *model.LaunchOrder, masters []string) (keeper.StartRequest, error) {
	argv := l.executor
	if o.Spec.Kind == model.AppKindCommand {
		argv = o.Spec.Command.Argv
	}
	if len(argv) == 0 {
		return keeper.StartRequest{}, fmt.Errorf("nothing to run: %w", model.ErrInvalid)
	}
	dir, err := l.dir.create(o.Ref)
	if err != nil {
		return keeper.StartRequest{}, err
	}
	if err := writeFiles(dir, o.Secret, o.Spec.Files); err != nil {
		return keeper.StartRequest{}, fmt.Errorf("prepare %s: %w", o.Ref, err)
	}
	if err := writeResources(dir, o); err != nil {
		return keeper.StartRequest{}, fmt.Errorf("prepare %s: %w", o.Ref, err)
	}
	tlsDir := ""
	if l.drivers.wanted(o) {
		if tlsDir, err = l.drivers.write(dir, o); err != nil {
			return keeper.StartRequest{}, fmt.Errorf("prepare %s: %w", o.Ref, err)
		}
	}
	if len(o.MasterAddr) > 0 {
		masters = o.MasterAddr
	}
	cwd := dir
	if o.Spec.Command.Dir != "" {
		cwd = o.Spec.Command.Dir
	}
	return keeper.StartRequest{
		Key:            o.Ref.String(),
		Argv:           argv,
		Env:            l.environment(o, dir, tlsDir, masters),
		Dir:            cwd,
		Stdout:         filepath.Join(dir, "stdout"),
		Stderr:         filepath.Join(dir, "stderr"),
		Header:         header(argv),
		MemoryLimitMiB: o.MemoryMiB,
		Leased:         o.Spec.Disconnect.Singleton(),
	}, nil
}

// runProgram makes the process that of an application's own program instead of Hearth's executor.
func runProgram(req *keeper.StartRequest, program string) {
	req.Argv = []string{program}
	req.Header = header(req.Argv)
}

// writeFiles puts the secret and the application's files into dir. Nothing is overwritten, and no
// name leads out of dir.
func writeFiles(dir string, secret model.Secret, files []model.File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if secret != "" {
		if err := writeNew(root, secretFile, []byte(secret.Reveal()), 0o600); err != nil {
			return err
		}
	}
	for _, f := range files {
		if f.Name == "stdout" || f.Name == "stderr" {
			return fmt.Errorf("file %s: the name is taken by the process's output", f.Name)
		}
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("file %q: not below the executor's directory", f.Name)
		}
		if err := root.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
			return err
		}
		if err := writeNew(root, f.Name, f.Data, fs.FileMode(f.Mode)&fs.ModePerm); err != nil {
			return err
		}
	}
	return nil
}

func writeNew(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask says
	}
	return errors.Join(err, f.Close())
}

// environment is the worker's own without its HEARTH_ variables, then the application's, then
// Hearth's, which win. tlsDir has the files by which masters know a driver, "" for none.
func (l *launcher) environment(o *model.LaunchOrder, dir, tlsDir string, masters []string) []string {
	env := make(map[string]string)
	for _, kv := range l.environ {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" && !strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	for _, kv := range o.Spec.Command.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = value
		}
	}
	env[keeper.EnvWorkerID] = string(l.worker)
	// What owns the process. A driver must not take itself for an executor.
	if model.IsDriver(o.Ref.App) {
		env[keeper.EnvDriverID] = string(o.Ref.App)
		env[keeper.EnvDriverAttempt] = strconv.Itoa(int(o.Ref.Executor))
		if l.advertise != "" {
			env[config.EnvDriverBind], env[config.EnvDriverAdvertise] = l.bind, l.advertise
		}
	} else {
		env[keeper.EnvAppID] = string(o.Ref.App)
		env[keeper.EnvExecutorID] = strconv.Itoa(int(o.Ref.Executor))
	}
	env[EnvCores] = strconv.Itoa(o.Cores)
	env[EnvMemoryMiB] = strconv.FormatInt(o.MemoryMiB, 10)
	env[EnvMasters] = strings.Join(masters, ",")
	env[EnvLocalDirs] = l.dir.scratch(o.Ref.App)
	if o.Spec.DriverAddr != "" {
		env[EnvDriverAddr] = o.Spec.DriverAddr
	}
	if o.Spec.DriverCert != "" {
		env[EnvDriverCert] = o.Spec.DriverCert
	}
	if o.Secret != "" {
		env[EnvSecretFile] = filepath.Join(dir, secretFile)
	}
	if tlsDir != "" {
		env[config.EnvTLSDir] = tlsDir
	}
	if l.logURL != "" {
		env[EnvLogURLStdout] = l.logURL + logPath(o.Ref, "stdout")
		env[EnvLogURLStderr] = l.logURL + logPath(o.Ref, "stderr")
	}
	if len(o.Resources) > 0 {
		env[EnvResourcesFile] = filepath.Join(dir, resourcesFile)
	}
	for name, addrs := range o.Resources {
		env[EnvResourcePrefix+envName(name)] = strings.Join(addrs, ",")
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// envName makes a resource name fit for a variable: "gpu.a100" becomes "GPU_A100".
func envName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, s)
}

// header is how stderr begins: the command line without its secrets, and a rule.
func header(argv []string) string {
	var b strings.Builder
	b.WriteString("Hearth executor command:")
	for _, word := range model.Redact(argv) {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(word))
		if b.Len() > maxHeaderArgBytes {
			return b.String()[:maxHeaderArgBytes] + " ...\n" + headerRule + "\n"
		}
	}
	b.WriteString("\n" + headerRule + "\n")
	return b.String()
}
