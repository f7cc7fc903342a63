package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

const (
	executorMemoryMiB = 512
	// jobTimeout is when a job that does not move has failed.
	jobTimeout = 5 * time.Minute
	// finishTimeout bounds telling the leader that the job is done.
	finishTimeout = 20 * time.Second
	// maxEvents is how many events of the driver may wait to be looked at.
	maxEvents = 1 << 14
)

// Shares of the results, in percent. Tasks are handed out in portions, so that
// neither kill can miss its window however fast the machine is: there is work
// left until both have happened and the lost executor is replaced.
const (
	killLeaderAt   = 25 // the leader is killed when that many results are in
	beforeLeader   = 60 // tasks handed out until there is a new leader
	beforeWorker   = 74 // and until the worker is killed
	beforeReplaced = 95 // and until an executor has taken the place of a lost one
)

// phase is how far the story has come.
type phase int

const (
	phaseWork     phase = iota // until enough results are in
	phaseElection              // the leader was killed
	phaseVictim                // a worker with running tasks is looked for
	phaseReplace               // the worker was killed
	phaseRest                  // an executor was replaced
)

// job is one run of the counting job with its two kills. One goroutine owns it.
type job struct {
	cfg     Config
	tl      *timeline
	cluster *cluster
	in      *input
	drv     *driver.Driver

	phase    phase
	limits   chan int // how many tasks may be handed out, rising
	events   chan driver.Event
	elected  chan election
	killedAt time.Time

	done     int
	counts   [][]Counts                // by task
	leader   *node                     // killed
	victim   *node                     // killed worker
	added    map[model.ExecutorID]bool // after the worker was killed
	replaced int
	reruns   int
	shown    int // quarters of results
}

type election struct {
	leader *node
	at     time.Time
	err    error
}

// outcome is what a job has to say for itself.
type outcome struct {
	counts   [][]Counts
	replaced int
	reruns   int
}

// cores is how many cores the job asks for: as many as keep this machine busy,
// each worker with one at least, and no more than are left without one worker.
func (c Config) cores(machine int) int {
	return min((c.Workers-1)*c.WorkerCores, max(c.Workers, 2*machine))
}

// runJob submits the tasks through standby, kills, and collects.
func runJob(ctx context.Context, cfg Config, tl *timeline, c *cluster, in *input, standby *node, machine int) (*outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, jobTimeout, fmt.Errorf("the job was not done within %s", jobTimeout))
	defer cancel()
	cl, err := client.New(client.Config{Masters: []string{standby.where.GRPC}, TLS: c.sec.clientTLS(), Token: c.sec.token(), Principal: "demo"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // the job is over
	j := &job{
		cfg: cfg, tl: tl, cluster: c, in: in,
		limits: make(chan int, phaseRest+1), events: make(chan driver.Event, maxEvents), elected: make(chan election, 1),
		counts: make([][]Counts, len(in.tasks)),
		added:  map[model.ExecutorID]bool{},
	}
	j.drv, err = driver.New(driver.Config{
		Client: cl,
		Spec: model.AppSpec{
			Name: "demo", User: "demo", CoresMax: cfg.cores(machine), Executors: model.TargetUnlimited,
			Profile: model.Profile{Cores: 1, MemoryMiB: executorMemoryMiB},
		},
		Observer: j.observe,
	})
	if err != nil {
		return nil, err
	}
	tl.say("submit %d tasks through the standby %s (%s)", len(in.tasks), standby.name, standby.where.GRPC)
	ended := make(chan error, 1)
	go func() { ended <- j.drv.Run(ctx) }()
	handed := make(chan error, 1)
	go func() { handed <- j.handOut(ctx) }()
	j.allow(beforeLeader)
	err = j.collect(ctx, handed)
	if err == nil {
		fctx, fcancel := context.WithTimeout(ctx, finishTimeout)
		err = j.drv.Finish(fctx, model.AppFinished, "", 0)
		fcancel()
	}
	cancel()
	runErr := <-ended
	if err != nil {
		if runErr != nil && !errors.Is(runErr, context.Canceled) {
			err = errors.Join(err, runErr)
		}
		return nil, err
	}
	return &outcome{counts: j.counts, replaced: j.replaced, reruns: j.reruns}, nil
}

// observe is called by the driver's loop and must not block it.
func (j *job) observe(e driver.Event) {
	select {
	case j.events <- e:
	default: // then reruns are missing in the story, and the job fails
	}
}

// allow lets percent of the tasks be handed out.
func (j *job) allow(percent int) { j.limits <- max(1, len(j.in.tasks)*percent/100) }

// handOut submits tasks as far as the limits allow.
func (j *job) handOut(ctx context.Context) error {
	for next := 0; next < len(j.in.tasks); {
		select {
		case limit := <-j.limits:
			for ; next < limit; next++ {
				argv := append([]string{j.cfg.Exe, "demo", "count", "--"}, j.in.paths(next)...)
				if _, err := j.drv.Submit(ctx, driver.Task{Argv: argv, Tag: next}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// collect is the story: it takes results and events until every task has its
// result.
func (j *job) collect(ctx context.Context, handed <-chan error) error {
	for j.done < len(j.in.tasks) {
		select {
		case r, ok := <-j.drv.Results():
			if !ok {
				return errors.New("the driver ended before the job was done")
			}
			if err := j.result(ctx, r); err != nil {
				return err
			}
		case e := <-j.events:
			j.event(e)
		case e := <-j.elected:
			if e.err != nil {
				return fmt.Errorf("no new leader: %w", e.err)
			}
			j.tl.at(e.at, "new leader %s (%s), %s after the kill", e.leader.name, e.leader.where.ID, millis(e.at.Sub(j.killedAt)))
			j.phase = phaseVictim
			j.allow(beforeWorker)
		case err := <-handed:
			if err != nil {
				return err
			}
			handed = nil
		case <-ctx.Done():
			return fmt.Errorf("%w (%d of %d results)", context.Cause(ctx), j.done, len(j.in.tasks))
		}
	}
	// The last events may still be waiting.
	for len(j.events) > 0 {
		j.event(<-j.events)
	}
	return nil
}

// result takes one result and tells whether it is time for a kill.
func (j *job) result(ctx context.Context, r driver.Result) error {
	task, ok := r.Tag.(int)
	if !ok || j.counts[task] != nil {
		return fmt.Errorf("task %v has a second result", r.Tag)
	}
	if r.Outcome != model.TaskDone || r.ExitCode != 0 {
		return fmt.Errorf("task %d on %s: %s, exit code %d: %s%s", task, r.Host, r.Outcome, r.ExitCode, r.Error, clip(string(r.Stderr)))
	}
	counts, err := parseCounts(r.Stdout, j.in.paths(task))
	if err != nil {
		return fmt.Errorf("task %d: %w", task, err)
	}
	j.counts[task] = counts
	j.done++
	if quarter := 4 * j.done / len(j.in.tasks); quarter > j.shown {
		j.shown = quarter
		j.tl.say("%d %% of the results are in", 25*quarter)
	}
	switch {
	case j.phase == phaseWork && 100*j.done > killLeaderAt*len(j.in.tasks):
		return j.killLeader(ctx)
	case j.phase == phaseVictim:
		return j.killWorker(ctx)
	}
	return nil
}

func (j *job) percent() int { return 100 * j.done / len(j.in.tasks) }

func (j *job) killLeader(ctx context.Context) error {
	leader, err := j.cluster.awaitLeader(ctx)
	if err != nil {
		return fmt.Errorf("find the leader to kill: %w", err)
	}
	j.killedAt = time.Now()
	if err := leader.kill(); err != nil {
		return err
	}
	j.leader = leader
	j.tl.at(j.killedAt, "kill -9 of the leader %s (%s, process %d) at %d %% of the results", leader.name, leader.where.ID, leader.id.PID, j.percent())
	j.phase = phaseElection
	go func() {
		next, err := j.cluster.awaitLeader(ctx)
		j.elected <- election{leader: next, at: time.Now(), err: err}
	}()
	return nil
}

// killWorker kills the worker on which most tasks run; it does nothing while
// none runs.
func (j *job) killWorker(ctx context.Context) error {
	running := map[model.WorkerID]int{}
	for _, e := range j.drv.Executors(ctx) {
		running[e.Worker] += e.Running
	}
	var victim *node
	most := 0
	for _, w := range j.cluster.workers {
		if n := running[model.WorkerID(w.where.ID)]; n > most {
			victim, most = w, n
		}
	}
	if victim == nil {
		return nil
	}
	at := time.Now()
	if err := victim.kill(); err != nil {
		return err
	}
	j.victim = victim
	j.tl.at(at, "kill -9 of %s (%s, process %d) with %d tasks running at %d %% of the results", victim.name, victim.where.ID, victim.id.PID, most, j.percent())
	j.killedAt = at
	j.phase = phaseReplace
	j.allow(beforeReplaced)
	return nil
}

// event follows what the driver saw.
func (j *job) event(e driver.Event) {
	switch e.Kind {
	case driver.EventRegistered:
		j.tl.at(e.At, "registered as %s", e.App)
	case driver.EventExecutorAdded:
		if j.victim != nil {
			j.added[e.Executor] = true
		}
	case driver.EventExecutorReady:
		// Nothing else was missing, so whatever comes after the kill is in
		// place of a lost one, whichever of the two is heard of first.
		if j.added[e.Executor] {
			j.replaced++
			j.tl.at(e.At, "executor %d on %s takes the place of a lost one, %s after the kill", e.Executor, j.workerName(e.Worker), millis(e.At.Sub(j.killedAt)))
			if j.phase == phaseReplace {
				j.phase = phaseRest
				j.allow(100)
			}
			return
		}
		j.tl.at(e.At, "executor %d on %s is ready", e.Executor, j.workerName(e.Worker))
	case driver.EventExecutorEnded:
		j.tl.at(e.At, "executor %d on %s is lost with %d tasks: %s", e.Executor, j.workerName(e.Worker), e.Tasks, e.Reason)
	case driver.EventExecutorSuspect, driver.EventExecutorBack:
		j.tl.at(e.At, "executor %d on %s: %s", e.Executor, j.workerName(e.Worker), e.Kind)
	case driver.EventTaskRerun:
		j.reruns++
		j.tl.at(e.At, "task %d runs again", e.Task)
	case driver.EventProfileWaits: // the job has one profile
	}
}

func (j *job) workerName(id model.WorkerID) string {
	at := slices.IndexFunc(j.cluster.workers, func(n *node) bool { return n.where.ID == string(id) })
	if at < 0 {
		return string(id)
	}
	return j.cluster.workers[at].name
}
