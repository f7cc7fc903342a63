package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// etcdTimes are settings of etcd in milliseconds.
type etcdTimes struct{ heartbeat, election int }

// etcdDefaults is what etcd has if nobody says otherwise.
func etcdDefaults() etcdTimes { return etcdTimes{heartbeat: 100, election: 1000} }

// masterNice is what `hearth master` asks for; a peer gets the same.
const masterNice = -10

// etcd is three processes of embedded etcd, and the process of their client.
type etcd struct {
	procs   []*process
	client  *process
	answers *bufio.Scanner
}

// load is what one load of etcd took.
type load struct{ seconds, p50, p99 float64 }

// startEtcd starts the peer that `make bench-place` has built. What has been
// started is in the result even on an error; stop it.
func startEtcd(ctx context.Context, binary string, times etcdTimes, env []string, dir string) (*etcd, error) {
	e := &etcd{}
	ports, err := freePorts(ctx, 2*masters)
	if err != nil {
		return e, err
	}
	clients, peers := ports[:masters], ports[masters:]
	var names []string
	for n := range masters {
		names = append(names, fmt.Sprintf("m%d=http://%s", n, peers[n]))
	}
	for n := range masters {
		p, err := start(dir, fmt.Sprintf("etcd-%d", n+1), env, []string{
			binary, "serve", "-name", fmt.Sprintf("m%d", n), "-dir", filepath.Join(dir, fmt.Sprintf("etcd-%d", n+1)),
			"-client", "http://" + clients[n], "-peer", "http://" + peers[n], "-cluster", strings.Join(names, ","),
			"-heartbeat", strconv.Itoa(times.heartbeat), "-election", strconv.Itoa(times.election),
		})
		if err != nil {
			return e, err
		}
		if err := p.run(); err != nil {
			return e, err
		}
		e.procs = append(e.procs, p)
		// Without the right to it, masters do not have it either.
		_ = unix.Setpriority(unix.PRIO_PROCESS, p.cmd.Process.Pid, masterNice)
	}
	c, err := start(dir, "etcd-client", env, []string{binary, "client", "-endpoints", strings.Join(clients, ",")})
	if err != nil {
		return e, err
	}
	c.cmd.Stdout = nil
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return e, fmt.Errorf("start the client of etcd: %w", err)
	}
	if c.stdout, err = c.cmd.StdoutPipe(); err != nil {
		return e, fmt.Errorf("start the client of etcd: %w", err)
	}
	// Not run: Wait would close the pipe under the scanner.
	if err := c.cmd.Start(); err != nil {
		return e, fmt.Errorf("start the client of etcd: %w", err)
	}
	e.client, e.answers = c, bufio.NewScanner(c.stdout)
	return e, e.connect(ctx)
}

// connect waits until the members agree on a leader.
func (e *etcd) connect(ctx context.Context) error {
	tick := time.NewTicker(10 * pollEvery)
	defer tick.Stop()
	deadline := time.Now().Add(startLimit)
	for {
		answer, err := e.order("connect")
		if err == nil && answer == "connected" {
			return nil
		}
		if err != nil || time.Now().After(deadline) {
			return fmt.Errorf("etcd does not serve: %s: %w", answer, errors.Join(err, ctx.Err()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (e *etcd) order(line string) (string, error) {
	if _, err := fmt.Fprintln(e.client.stdin, line); err != nil {
		return "", fmt.Errorf("tell the client of etcd to %s: %w", line, err)
	}
	if !e.answers.Scan() {
		return "", fmt.Errorf("the client of etcd has ended; the end of its log:\n%s", e.client.tail())
	}
	return e.answers.Text(), nil
}

// put makes total puts, batch of them in a transaction.
func (e *etcd) put(inflight, batch, total int) (load, error) {
	answer, err := e.order(fmt.Sprintf("load %d %d %d %d", inflight, batch, total, payloadBytes))
	if err != nil {
		return load{}, err
	}
	var l load
	if n, err := fmt.Sscan(answer, &l.seconds, &l.p50, &l.p99); err != nil || n != 3 {
		return load{}, fmt.Errorf("the client of etcd says: %s", answer)
	}
	return l, nil
}

func (e *etcd) stop() {
	if e == nil {
		return
	}
	e.leave()
	stopAll(e.procs)
}

// leave ends the client, and leaves the members to themselves.
func (e *etcd) leave() {
	if c := e.client; c != nil {
		_ = c.stdin.Close() // ends it
		_ = c.cmd.Wait()
		e.client = nil
	}
}

// freePorts asks the kernel for ports that are free now, for a peer that must
// be told them.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var out []string
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		open, out = append(open, l), append(out, l.Addr().String())
	}
	return out, nil
}

// flushes counts the cache flushes that the disk of dir has done since it was
// started, by whoever: what every fdatasync costs in the end. ok is false where
// the kernel does not say.
func flushes(dir string) (n int64, ok bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	const flushField = 15 // Documentation/block/stat.rst, since Linux 5.5
	fields := strings.Fields(string(text))
	if err != nil || len(fields) <= flushField {
		return 0, false
	}
	n, err = strconv.ParseInt(fields[flushField], 10, 64)
	return n, err == nil
}
