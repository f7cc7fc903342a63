package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Driver runs tasks on the executors of one application. Its methods are safe
// for concurrent use.
type Driver struct {
	cfg Config
	log hclog.Logger
	// tls is what the listener shows, pin its digest, by which executors know it.
	tls *tls.Config
	pin string

	started atomic.Bool
	app     atomic.Pointer[rpc.RegisterAppReply] // nil until registered

	// To the loop. wake has a value when there is something in intake or mail,
	// or room in out.
	wake    chan struct{}
	intake  intake
	records recordPool
	mail    mailbox
	calls   chan func(*loop)
	news    *inbox
	// From the loop. want is closed when somebody uses Results.
	out     outlet
	results chan Result
	want    chan struct{}
	wanted  sync.Once
	// contents are handed out by digest to executors and their workers.
	contents *contentStore

	done chan struct{} // closed once Run has ended
	err  error         // of Run; read after done is closed
}

// New checks the configuration and makes a driver; Run starts it.
func New(cfg Config) (*Driver, error) {
	if err := cfg.prepare(); err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	d := &Driver{
		cfg: cfg, log: cfg.Logger,
		calls: make(chan func(*loop)), news: newInbox(), wake: make(chan struct{}, 1),
		results: make(chan Result), want: make(chan struct{}), contents: newContentStore(), done: make(chan struct{}),
	}
	d.intake.wake, d.mail.wake, d.out.wake = d.wake, d.wake, d.wake
	d.out.ready = make(chan struct{}, 1)
	if !cfg.plain {
		var err error
		if d.tls, d.pin, err = tlsconf.Ephemeral(cfg.Spec.Name); err != nil {
			return nil, fmt.Errorf("driver: make a certificate for executors: %w", err)
		}
	}
	return d, nil
}

// Run listens for executors, registers the application and serves both until
// Finish (nil), until the application is ended by somebody else
// (*AppEndedError), or ctx ends (its error). Without Finish the cluster ends
// the application once the driver is gone for its driver_timeout. Call it once.
func (d *Driver) Run(ctx context.Context) error {
	if d.started.Swap(true) {
		return fmt.Errorf("run driver: %w: it was started before", model.ErrConflict)
	}
	pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var pump sync.WaitGroup
	pump.Go(func() { d.pump(pctx) })
	d.err = d.run(ctx)
	d.out.close()
	cancel()
	pump.Wait()
	close(d.done)
	return d.err
}

func (d *Driver) run(ctx context.Context) error {
	listener, err := d.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen for executors on %s: %w", d.cfg.Listen, err)
	}
	addr, err := d.register(ctx, listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	app := d.app.Load()
	session, err := d.cfg.Client.OpenDriver(client.DriverConfig{
		App: app.App, Token: app.Token, Addr: addr, Handler: d.news, Linked: d.news.Linked,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := rpc.NewServer(rpc.ServerConfig{Listener: listener, TLS: d.tls, Logger: d.log}, rpc.Services{Executors: hub{d}, Content: newContentHub(d, d.contents)})

	// The helpers outlive ctx: the loop still says Stop to executors.
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l := newLoop(d, session)
	sessionEnded, serverEnded := make(chan error, 1), make(chan error, 1)
	var joined sync.WaitGroup
	joined.Go(func() { sessionEnded <- session.Run(hctx) })
	joined.Go(func() { serverEnded <- server.Run(hctx) })
	joined.Go(func() { l.kills.run(hctx, d.cfg.Client, app.App, d.log) })
	err = l.run(ctx, sessionEnded, serverEnded)
	cancel()
	l.abandon()
	// Streams are told that nobody takes any more what they hand over.
	for _, msg := range d.mail.close() {
		refuse(msg)
	}
	joined.Wait()
	return err
}

func (d *Driver) listen(ctx context.Context) (net.Listener, error) {
	if d.cfg.ListenOn != nil {
		return d.cfg.ListenOn(d.cfg.Listen)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", d.cfg.Listen)
}

// register makes the application known, once, whatever fails on the way.
func (d *Driver) register(ctx context.Context, listener net.Listener) (addr string, err error) {
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", fmt.Errorf("address of the driver: %w", err)
	}
	spec := d.cfg.Spec
	spec.DriverAddr, spec.DriverCert = net.JoinHostPort(d.cfg.Advertise, port), d.pin
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RegisterTimeout)
	defer cancel()
	reply, err := d.cfg.Client.RegisterAppWithID(ctx, d.cfg.Client.NewRequestID(), spec)
	if err != nil {
		return "", err
	}
	d.app.Store(&reply)
	d.log.Info("application registered", "app", string(reply.App), "driver", spec.DriverAddr)
	d.cfg.Observer(Event{At: time.Now(), Kind: EventRegistered, App: reply.App})
	return spec.DriverAddr, nil
}

// App is the application's id, "" until it is registered.
func (d *Driver) App() model.AppID {
	if r := d.app.Load(); r != nil {
		return r.App
	}
	return ""
}

// Submit queues a task and returns its number; tasks start in the order of
// their submission. It blocks while MaxQueued tasks of its profile wait, until ctx
// ends or the driver has ended.
func (d *Driver) Submit(ctx context.Context, t Task) (model.TaskID, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	recs := d.records.get(1)
	recs[0].fill(&t)
	var id [1]model.TaskID
	if _, err := d.submit(ctx, recs, id[:]); err != nil {
		return 0, err
	}
	return id[0], nil
}

// SubmitAll is Submit for many tasks, which costs less for each. It returns how
// many were taken, all unless there is an error, and puts their numbers into
// ids, which is nil or as long as tasks.
func (d *Driver) SubmitAll(ctx context.Context, tasks []Task, ids []model.TaskID) (int, error) {
	for i := range tasks {
		if err := tasks[i].check(); err != nil {
			return 0, fmt.Errorf("task %d of %d: %w", i+1, len(tasks), err)
		}
	}
	for taken := 0; taken < len(tasks); {
		recs := d.records.get(min(len(tasks)-taken, slabRecords))
		for i := range recs {
			recs[i].fill(&tasks[taken+i])
		}
		var to []model.TaskID
		if ids != nil {
			to = ids[taken:]
		}
		n, err := d.submit(ctx, recs, to)
		if taken += n; err != nil {
			return taken, err
		}
	}
	return len(tasks), nil
}

// Cancel ends tasks: those that wait or run are reported as KILLED, those that
// have a result keep it. It does not wait for their end.
func (d *Driver) Cancel(ids ...model.TaskID) error {
	return d.call(context.Background(), func(l *loop) {
		for _, id := range ids {
			if t := l.tasks.Get(id); t != nil {
				l.cancelTask(t)
			}
		}
	})
}

// CancelAll cancels every task that was submitted so far.
func (d *Driver) CancelAll() error {
	return d.call(context.Background(), func(l *loop) {
		for _, t := range l.tasks.All() {
			l.cancelTask(t)
		}
	})
}

// CancelQueued cancels the submitted tasks that wait for an executor; those
// that run are left alone.
func (d *Driver) CancelQueued() error {
	return d.call(context.Background(), func(l *loop) {
		for _, t := range l.tasks.All() {
			if t.state == taskQueued {
				l.cancelTask(t)
			}
		}
	})
}

// Executors lists the executors that are not lost, by id; nil once the driver
// has ended.
func (d *Driver) Executors(ctx context.Context) []ExecutorInfo {
	var out []ExecutorInfo
	if d.call(ctx, func(l *loop) { out = l.executors() }) != nil {
		return nil
	}
	return out
}

// Finish ends the application as FINISHED or FAILED with this exit code, stops
// the executors and ends Run. Tasks without a result are dropped: cancel or
// await them first. It blocks until Run has ended, or until ctx ends while the
// leader cannot be told: then Run has ended too, and the cluster ends the
// application by itself. Only for a driver whose application is registered.
func (d *Driver) Finish(ctx context.Context, state model.AppState, reason string, exit int) error {
	if err := d.call(ctx, func(l *loop) {
		l.finishing = true
		l.d.intake.close()
	}); err != nil {
		return fmt.Errorf("finish application: %w", err)
	}
	app := d.app.Load()
	err := d.cfg.Client.FinishApp(ctx, rpc.FinishAppRequest{
		App: app.App, Token: app.Token, State: state, Reason: model.TrimReason(reason), ExitCode: exit,
	})
	// Whatever came of it, this driver is over; an error here says that it
	// already is.
	_ = d.call(context.WithoutCancel(ctx), func(l *loop) { l.stop = true })
	<-d.done
	return err
}

// call runs fn in the loop and waits for it.
func (d *Driver) call(ctx context.Context, fn func(*loop)) error {
	ran := make(chan struct{})
	select {
	case d.calls <- func(l *loop) { fn(l); close(ran) }:
		<-ran
		return nil
	case <-d.done:
		return d.endError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endError is why the driver takes nothing any more. Call it after done.
func (d *Driver) endError() error {
	if d.err != nil {
		return d.err
	}
	return errStopped
}

// refuse answers a message that the loop will not see.
func refuse(msg any) {
	switch m := msg.(type) {
	case helloMsg:
		m.reply <- errClosing
	case fetchedMsg:
		closeFiles(m.files)
	}
}
