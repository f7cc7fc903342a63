package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
)

// startTimeout bounds the time from the first process to a whole cluster.
const startTimeout = 60 * time.Second

const (
	// askTimeout bounds one question to one master.
	askTimeout = 500 * time.Millisecond
	// leaderTimeout is when a cluster without a leader has failed.
	leaderTimeout = 30 * time.Second
)

// cluster is a set of daemons started by this process. One goroutine owns it.
type cluster struct {
	cfg     Config
	sec     *security
	masters []*node
	workers []*node
}

// anyPort lets the kernel choose every port of a daemon.
func anyPort(extra ...string) []string {
	return append([]string{"--bind", "127.0.0.1", "--grpc-port", "0", "--serf-port", "0", "--http-port", "0"}, extra...)
}

// start starts the masters, then the workers, and returns when a leader
// sees all of them. What it has started is in c even if it fails.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("waited for %s", startTimeout))
	defer cancel()
	var err error
	if c.sec, err = c.cfg.secure(); err != nil {
		return err
	}
	args := append([]string{"master"}, anyPort("--raft-port", "0", "--bootstrap-expect", strconv.Itoa(c.cfg.Masters))...)
	for n := range c.cfg.Masters {
		own := args
		if n > 0 {
			// Its port is the kernel's choice, so the first has to be there.
			own = append(slices.Clip(args), "--join", c.masters[0].where.Serf)
		}
		if err := c.add(&c.masters, fmt.Sprintf("master-%d", n+1), own); err != nil {
			return err
		}
		if n == 0 {
			if err := c.masters[0].await(ctx, ListeningFile); err != nil {
				return err
			}
		}
	}
	if err := awaitAll(ctx, c.masters, ListeningFile); err != nil {
		return err
	}
	for n := range c.cfg.Workers {
		if err := c.add(&c.workers, fmt.Sprintf("worker-%d", n+1), c.workerArgs()); err != nil {
			return err
		}
	}
	return c.awaitWhole(ctx)
}

func (c *cluster) workerArgs() []string {
	return append([]string{"worker"}, anyPort(
		"--masters", strings.Join(c.addresses(), ","), "--join", c.masters[0].where.Serf,
		"--cores", strconv.Itoa(c.cfg.WorkerCores), "--memory", c.cfg.WorkerMemory,
	)...)
}

func (c *cluster) add(to *[]*node, name string, args []string) error {
	n, err := c.cfg.start(name, args, c.sec)
	if err != nil {
		return err
	}
	*to = append(*to, n)
	return c.save()
}

// restart brings back what was killed, on the same data directories.
func (c *cluster) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("waited for %s", startTimeout))
	defer cancel()
	serf := ""
	for _, m := range c.masters {
		if m.running() {
			serf = m.where.Serf
		}
	}
	for _, list := range [][]*node{c.masters, c.workers} {
		for n, old := range list {
			if old.running() {
				continue
			}
			args := append([]string{"master"}, anyPort("--raft-port", "0", "--bootstrap-expect", strconv.Itoa(c.cfg.Masters), "--join", serf)...)
			if strings.HasPrefix(old.name, "worker") {
				args = append(slices.Clip(old.args), "--join", serf)
			}
			back, err := c.cfg.start(old.name, args, c.sec)
			if err != nil {
				return err
			}
			list[n] = back
			if err := c.save(); err != nil {
				return err
			}
		}
	}
	return c.awaitWhole(ctx)
}

func awaitAll(ctx context.Context, nodes []*node, file string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		g.Go(func() error { return n.await(ctx, file) })
	}
	return g.Wait()
}

// awaitWhole returns when every process is ready and the leader has every
// master as a voter and every worker ALIVE.
func (c *cluster) awaitWhole(ctx context.Context) error {
	if err := awaitAll(ctx, c.masters, ReadyFile); err != nil {
		return err
	}
	if err := awaitAll(ctx, c.workers, ReadyFile); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	tick := time.NewTicker(2 * pollEvery)
	defer tick.Stop()
	for {
		leader, err := c.leader(ctx)
		var missing string
		if err == nil {
			if missing, err = c.missing(ctx, leader); err == nil && missing == "" {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				missing = err.Error()
			}
			return fmt.Errorf("the cluster is not whole: %s: %w", missing, context.Cause(ctx))
		}
	}
}

// missing says what the leader does not see yet.
func (c *cluster) missing(ctx context.Context, leader *node) (string, error) {
	v, err := ask(ctx, leader, (*client.Client).Status)
	if err != nil {
		return "", err
	}
	voters, alive := map[string]bool{}, map[string]bool{}
	for _, m := range v.Masters {
		voters[string(m.ID)] = m.Voter && m.Alive && m.GRPCAddr != ""
	}
	for _, w := range v.Workers {
		alive[string(w.ID)] = w.State == model.WorkerAlive
	}
	for _, m := range c.masters {
		if !voters[m.where.ID] {
			return m.name + " is no voter", nil
		}
	}
	for _, w := range c.workers {
		if !alive[w.where.ID] {
			return w.name + " is not ALIVE", nil
		}
	}
	return "", nil
}

// ask puts one question to one master.
func ask[T any](ctx context.Context, n *node, question func(*client.Client, context.Context) (T, error)) (T, error) {
	var zero T
	c, err := client.New(client.Config{Masters: []string{n.where.GRPC}, TLS: n.sec.clientTLS(), Token: n.sec.token(), Principal: "demo"})
	if err != nil {
		return zero, err
	}
	defer func() { _ = c.Close() }() // it was only read from
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return question(c, ctx)
}

// errNoLeader is the answer while no master leads.
var errNoLeader = errors.New("no master says that it leads")

// leader asks every running master at the same time and returns the one that
// says it leads, in the highest term.
func (c *cluster) leader(ctx context.Context) (*node, error) {
	answers := make([]model.Staleness, len(c.masters))
	g, ctx := errgroup.WithContext(ctx)
	for n, m := range c.masters {
		if !m.running() || m.where.GRPC == "" {
			continue
		}
		g.Go(func() error {
			// Who does not answer does not lead.
			answers[n], _ = ask(ctx, m, (*client.Client).Staleness)
			return nil
		})
	}
	_ = g.Wait() // nothing fails
	best := -1
	for n, a := range answers {
		if a.Leader != "" && string(a.Leader) == c.masters[n].where.ID && (best < 0 || a.Term > answers[best].Term) {
			best = n
		}
	}
	if best < 0 {
		return nil, errNoLeader
	}
	return c.masters[best], nil
}

// awaitLeader polls until a master leads.
func (c *cluster) awaitLeader(ctx context.Context) (*node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderTimeout, fmt.Errorf("waited for %s", leaderTimeout))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		leader, err := c.leader(ctx)
		if err == nil {
			return leader, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// addresses are the gRPC addresses of the masters that run.
func (c *cluster) addresses() []string {
	var out []string
	for _, m := range c.masters {
		if m.running() {
			out = append(out, m.where.GRPC)
		}
	}
	return out
}
