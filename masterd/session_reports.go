package masterd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// reportPatience is how long reports for which nobody waits may wait for an entry
// of the log to go with.
const reportPatience = 20 * time.Millisecond

// maxHeldReports is how many of them wait before they are committed at once.
const maxHeldReports = 128

// lateReports are reports on their way that nobody waits for.
type lateReports struct {
	batch []model.WorkerReport
	done  chan reportsOutcome // capacity 1
}

type reportsOutcome struct {
	results []fsm.Result
	err     error
}

// reportLoop commits reports in order and acknowledges them after that. What
// says only that processes have been started goes with whatever is committed
// next. More of that kind waits until it has, so that in a storm of launches there
// is a commit for each reportPatience, not for each launch; a report for which
// somebody waits takes all of it along.
func (s *workerSession) reportLoop(ctx context.Context) error {
	var late *lateReports
	var held []model.WorkerReport
	for {
		var landed <-chan reportsOutcome
		if late != nil {
			landed = late.done
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case out := <-landed:
			if err := s.acknowledge(ctx, late.batch, out); err != nil {
				return err
			}
			late = nil
		case r := <-s.reports:
			batch := s.gather(r)
			held = append(held, batch...)
			if urgent(batch) || len(held) > maxHeldReports {
				if err := s.commitReports(ctx, held); err != nil {
					return err
				}
				held = nil
			}
		}
		if late == nil && len(held) > 0 {
			var err error
			if late, err = s.commitLate(ctx, held); err != nil {
				return err
			}
			held = nil
		}
	}
}

// gather returns a report and those that wait behind it.
func (s *workerSession) gather(first model.WorkerReport) []model.WorkerReport {
	batch := []model.WorkerReport{first}
	for len(batch) < sessionReports {
		select {
		case r := <-s.reports:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// urgent reports whether somebody waits for what reports say. Nobody does for a
// start: it gives nothing back, and a driver hears from its executor itself.
func urgent(batch []model.WorkerReport) bool {
	return slices.ContainsFunc(batch, func(r model.WorkerReport) bool {
		return len(r.Executors) == 0 || slices.ContainsFunc(r.Executors, func(x model.ExecutorReport) bool { return x.State != model.ExecutorLaunching })
	})
}

// commands makes commands of reports.
func (s *workerSession) commands(batch []model.WorkerReport) []*replogv1.Command {
	cmds := make([]*replogv1.Command, 0, len(batch))
	for i := range batch {
		batch[i].Incarnation = s.hello.Incarnation
		if launchesNothing(s.l.m.fsm.View(), batch[i]) {
			s.l.shun(s.hello.Worker) // before the report wakes the scheduler
		}
		cmds = append(cmds, reportExecutorsCommand(s.hello.Worker, batch[i]))
	}
	return cmds
}

// commitLate puts reports in line and does not wait for them.
func (s *workerSession) commitLate(ctx context.Context, batch []model.WorkerReport) (*lateReports, error) {
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	wait, err := s.l.m.node.ProposePatiently(pctx, s.commands(batch), reportPatience)
	if err != nil {
		cancel()
		return nil, s.notCommitted(batch, err)
	}
	late := &lateReports{batch: batch, done: make(chan reportsOutcome, 1)}
	go func() { // ends with the session, and at the latest at proposeTimeout
		defer cancel()
		results, err := wait()
		late.done <- reportsOutcome{results, err}
	}()
	return late, nil
}

// commitReports commits reports that came while others were committed, in their
// order, and acknowledges the last: they share an entry of the log.
func (s *workerSession) commitReports(ctx context.Context, batch []model.WorkerReport) error {
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	results, err := s.l.m.node.ProposeAll(pctx, s.commands(batch))
	return s.acknowledge(ctx, batch, reportsOutcome{results, err})
}

func (s *workerSession) notCommitted(batch []model.WorkerReport, err error) error {
	return fmt.Errorf("commit reports up to %d of worker %s: %w", batch[len(batch)-1].Seq, s.hello.Worker, err)
}

// acknowledge tells the worker what is committed.
func (s *workerSession) acknowledge(ctx context.Context, batch []model.WorkerReport, out reportsOutcome) error {
	for i := range out.results {
		if out.err == nil {
			out.err = out.results[i].Err()
		}
	}
	if out.err != nil {
		return s.notCommitted(batch, out.err)
	}
	if err := s.push(ctx, model.WorkerDown{ReportAck: &model.ReportAck{Seq: batch[len(batch)-1].Seq}}); err != nil {
		return err
	}
	for _, r := range batch {
		if err := s.killStrangers(ctx, r.Executors); err != nil {
			return err
		}
	}
	return nil
}
