package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Master is one master of a cluster that was left running.
type Master struct {
	ID     string `json:"id"`
	PID    int    `json:"pid"`
	GRPC   string `json:"grpc"`
	Raft   string `json:"raft"`
	Serf   string `json:"serf"`
	HTTP   string `json:"http"`
	Leader bool   `json:"leader"`
}

// Worker is one worker of a cluster that was left running.
type Worker struct {
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	GRPC string `json:"grpc"`
	Serf string `json:"serf"`
	HTTP string `json:"http"`
}

// Cluster describes what Run has left running: "host:port" addresses, and the
// environment with which client commands find it.
type Cluster struct {
	Masters []Master          `json:"masters"`
	Workers []Worker          `json:"workers"`
	Env     map[string]string `json:"env"`
}

// Run is the whole demonstration. It returns an error if anything is not as it
// should be. If the cluster is left running (Config.Keep) it returns that and
// the directory with its data and logs, else nil. When ctx ends it takes
// everything down. Blocks.
func Run(ctx context.Context, cfg Config) (left *Cluster, dir string, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, "", err
	}
	tl := newTimeline(cfg.Out)
	var in *input
	if !cfg.NoJob {
		// Before anything is started: without input there is no demonstration.
		if in, err = findInput(ctx, cfg.Input, cfg.Env); err != nil {
			return nil, "", err
		}
	}
	temporary := cfg.Dir == ""
	if cfg.Dir, err = prepareDir(cfg.Dir); err != nil {
		return nil, "", err
	}
	c := &cluster{cfg: cfg}
	if left, err = play(ctx, cfg, tl, c, in); left != nil {
		return left, cfg.Dir, nil
	}
	if stopErr := c.stop(context.WithoutCancel(ctx)); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop the cluster: %w", stopErr))
	}
	if err != nil && ctx.Err() == nil {
		return nil, cfg.Dir, fmt.Errorf("%w\nlogs and data are in %s", err, cfg.Dir)
	}
	if temporary {
		err = errors.Join(err, os.RemoveAll(cfg.Dir))
	}
	if err != nil {
		return nil, "", err
	}
	tl.say("everything is stopped, nothing is left over")
	tl.plain("demo: OK in %.1f s", time.Since(tl.start).Seconds())
	return nil, "", nil
}

// play starts the cluster, runs the job and judges it.
func play(ctx context.Context, cfg Config, tl *timeline, c *cluster, in *input) (*Cluster, error) {
	tl.say("start %d masters and %d workers in %s", cfg.Masters, cfg.Workers, cfg.Dir)
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	leader, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	tl.say("the cluster is whole; %s (%s) leads", leader.name, leader.where.ID)
	if !cfg.NoJob {
		if err := playJob(ctx, cfg, tl, c, in, leader); err != nil {
			return nil, err
		}
	}
	if !cfg.Keep {
		return nil, nil //nolint:nilnil // nothing is left running
	}
	if !cfg.NoJob {
		if err := c.restart(ctx); err != nil {
			return nil, fmt.Errorf("bring back what was killed: %w", err)
		}
		tl.say("the killed master and worker are back")
	}
	return c.describe(ctx)
}

func playJob(ctx context.Context, cfg Config, tl *timeline, c *cluster, in *input, leader *node) error {
	standby := c.masters[slices.IndexFunc(c.masters, func(n *node) bool { return n != leader })]
	times := ""
	if in.passes > 1 {
		times = fmt.Sprintf(", each %d times over", in.passes)
	}
	tl.say("count lines, words and bytes of %d %s%s", len(in.files), in.what, times)
	out, err := runJob(ctx, cfg, tl, c, in, standby, runtime.NumCPU())
	if err != nil {
		return err
	}
	tl.say("done: %d results, %d executors replaced, %d tasks re-run", len(in.tasks), out.replaced, out.reruns)
	if err := c.goneWithWorker(ctx); err != nil {
		return err
	}
	want, err := in.expected(ctx)
	if err != nil {
		return err
	}
	total, err := compare(in, out.counts, want)
	if err != nil {
		return err
	}
	tl.say("a plain count in this process gives the same: %d lines, %d words, %d bytes", total.Lines, total.Words, total.Bytes)
	return judge(out)
}

// compare checks each file in each task and returns the sum over all files.
func compare(in *input, got [][]Counts, want []Counts) (Counts, error) {
	var total Counts
	for _, w := range want {
		total.add(w)
	}
	seen := make([]int, len(in.files))
	for t, files := range in.tasks {
		for n, f := range files {
			if got[t][n] != want[f] {
				return total, fmt.Errorf("wrong result: %s has %+v, the cluster counted %+v", in.files[f], want[f], got[t][n])
			}
			seen[f]++
		}
	}
	for f, times := range seen {
		if times != in.passes {
			return total, fmt.Errorf("wrong result: %s was counted %d times instead of %d", in.files[f], times, in.passes)
		}
	}
	return total, nil
}

// judge says whether the kills have shown what they were to show.
func judge(out *outcome) error {
	switch {
	case out.replaced == 0:
		return errors.New("no executor was replaced, so the kill of the worker has shown nothing")
	case out.reruns == 0:
		return errors.New("no task was run again, so the kill of the worker has shown nothing")
	}
	return nil
}

// goneWithWorker checks that the killed worker has taken everything along.
func (c *cluster) goneWithWorker(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for _, w := range c.workers {
		if w.killed {
			if err := (marks{"HEARTH_WORKER_ID=" + w.where.ID, w.where.ID}).gone(ctx); err != nil {
				return fmt.Errorf("after the kill of %s: %w", w.name, err)
			}
		}
	}
	return nil
}

// describe is the cluster as it runs now.
func (c *cluster) describe(ctx context.Context) (*Cluster, error) {
	leader, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	out := &Cluster{
		Masters: []Master{}, Workers: []Worker{},
		Env: map[string]string{"HEARTH_MASTERS": strings.Join(c.addresses(), ",")},
	}
	c.sec.env(out.Env)
	for _, m := range c.masters {
		w := m.where
		out.Masters = append(out.Masters, Master{ID: w.ID, PID: w.PID, GRPC: w.GRPC, Raft: w.Raft, Serf: w.Serf, HTTP: w.HTTP, Leader: m == leader})
	}
	for _, x := range c.workers {
		w := x.where
		out.Workers = append(out.Workers, Worker{ID: w.ID, PID: w.PID, GRPC: w.GRPC, Serf: w.Serf, HTTP: w.HTTP})
	}
	return out, nil
}
