//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// driverMain is what the test binary does when driverVariable is set, as
// "MASTERS|COUNT|NAME": it runs so many drivers with one executor each, prints
// a line for each executor that is ready, and goes on until standard input
// ends, which is when the test does, or until it is killed.
func driverMain(how string) int {
	parts := strings.Split(how, "|")
	count, err := strconv.Atoi(parts[1])
	if err != nil {
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, count)
	for n := range count {
		go func() { ended <- runDriver(ctx, parts[0], fmt.Sprintf("%s-%d", parts[2], n)) }()
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that counts
		cancel()
	}()
	for range count {
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return 0
}

// newDriverClient finds what it needs where commands do.
func newDriverClient(masters, name string) (*client.Client, error) {
	conf := client.Config{Masters: strings.Split(masters, ","), Principal: name}
	if dir := os.Getenv(config.EnvTLSDir); dir != "" {
		var files tlsconf.Files
		files.CAFile, files.CertFile, files.KeyFile = config.TLS{Dir: dir}.Paths()
		source, err := tlsconf.Load(files)
		if err != nil {
			return nil, err
		}
		conf.TLS = source.Client()
	}
	if path := os.Getenv(config.EnvTokenFile); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		conf.Token = model.Secret(strings.TrimSpace(string(text)))
	}
	return client.New(conf)
}

func runDriver(ctx context.Context, masters, name string) error {
	c, err := newDriverClient(masters, name)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	d, err := driver.New(driver.Config{
		Client: c,
		Spec: model.AppSpec{
			Name: name, CoresMax: 1, Executors: 1,
			Profile: model.Profile{Cores: 1, MemoryMiB: 256},
		},
		Observer: func(e driver.Event) {
			if e.Kind == driver.EventExecutorReady {
				_, _ = fmt.Fprintln(os.Stdout, "ready", e.App) // the test may be gone
			}
		},
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// driverProcess is a process with drivers in it.
type driverProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	apps  []model.AppID
}

// startDrivers starts a process and returns when each of its drivers has its
// executor.
func (c *cluster) startDrivers(t *testing.T, name string, count int) *driverProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &driverProcess{cmd: exec.Command(self)}
	p.cmd.Env = ownEnv(append(c.access.env, fmt.Sprintf("%s=%s|%d|%s", driverVariable, c.masterList, count, name))...)
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill() })
	lines := make(chan string)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	deadline := time.NewTimer(settleWithin)
	defer deadline.Stop()
	for len(p.apps) < count {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the driver process %s ended with %d of %d executors", name, len(p.apps), count)
			}
			p.apps = append(p.apps, model.AppID(strings.TrimPrefix(line, "ready ")))
		case <-deadline.C:
			p.kill()
			for range lines { // until its reader has ended
			}
			t.Fatalf("the driver process %s has %d of %d executors", name, len(p.apps), count)
		}
	}
	go func() {
		for range lines { // further executors are nobody's business
		}
	}()
	return p
}

// kill is kill -9; further calls do nothing.
func (p *driverProcess) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be gone
	_ = p.cmd.Wait()         // killed
}
