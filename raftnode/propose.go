package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// commandOverhead is what a command needs in an entry besides its own bytes:
// tag, length, and the envelope fields stamped on it.
const commandOverhead = 16 + maxIDBytes

// Propose puts one command in the log and returns the verdict of the
// replicated state once it is committed and applied here. Safe for concurrent
// use; commands of concurrent calls share entries. An empty proposer, wall or
// tick is stamped; cmd itself is only read.
//
// A refusal by the state is in the Result, never the error. Errors:
// [model.ErrNotLeader] and [model.ErrUnavailable] (overloaded, stopping, or
// ctx ended while it still waited): it was certainly not proposed;
// [model.ErrTooLarge] and [model.ErrInvalid]: it cannot be;
// [model.ErrOutcomeUnknown]: it was proposed and may or may not take effect.
func (n *Node) Propose(ctx context.Context, cmd *replogv1.Command) (fsm.Result, error) {
	results, err := n.propose(ctx, []*replogv1.Command{cmd}, proto.Size(cmd)+commandOverhead)
	if err != nil {
		return fsm.Result{}, err
	}
	return results[0], nil
}

// ProposeAll is Propose for many commands, in order: they share one entry, or
// as few as the limit of an entry allows, one after the other. On an error the
// results of the entries before it are returned with it.
func (n *Node) ProposeAll(ctx context.Context, cmds []*replogv1.Command) ([]fsm.Result, error) {
	results := make([]fsm.Result, 0, len(cmds))
	for len(cmds) > 0 {
		count, size := 0, 0
		for count < len(cmds) && count < MaxQueuedCommands {
			next := proto.Size(cmds[count]) + commandOverhead
			if count > 0 && size+next > n.cfg.MaxBatchBytes {
				break
			}
			size += next
			count++
		}
		part, err := n.propose(ctx, cmds[:count], size)
		if err != nil {
			return results, err
		}
		results = append(results, part...)
		cmds = cmds[count:]
	}
	return results, nil
}

// ProposeAlone is ProposeAll for commands that were made from the state after
// entry at, and are of no use after any other that could change their meaning:
// alone is false, and nothing was proposed, if anything else is on its way or
// has been applied since, or if they do not fit one entry. Commands of
// [Node.ProposePatiently] that wait may come before them.
func (n *Node) ProposeAlone(ctx context.Context, cmds []*replogv1.Command, at uint64) (results []fsm.Result, alone bool, err error) {
	size := 0
	for _, cmd := range cmds {
		size += proto.Size(cmd) + commandOverhead
	}
	if size > n.cfg.MaxBatchBytes || len(cmds) > MaxQueuedCommands {
		return nil, false, nil
	}
	if err := n.mayPropose(ctx); err != nil {
		return nil, false, err
	}
	p := newProposal(cmds, size)
	alone, err = n.queue.putAlone(p, func() bool { return n.fsm.View().Index() == at })
	if err != nil || !alone {
		return nil, false, err
	}
	results, err = n.result(ctx, p)
	return results, true, err
}

// ProposePatiently puts commands in the log for which nobody waits: they go with
// the next entry, or with one of their own after patience. It returns once they
// are in line; what is proposed later comes after them. wait returns what became
// of them, as ProposeAll does. They must fit one entry.
func (n *Node) ProposePatiently(ctx context.Context, cmds []*replogv1.Command, patience time.Duration) (wait func() ([]fsm.Result, error), err error) {
	if err := n.mayPropose(ctx); err != nil {
		return nil, err
	}
	size := 0
	for _, cmd := range cmds {
		size += proto.Size(cmd) + commandOverhead
	}
	if size > n.cfg.MaxBatchBytes {
		return nil, fmt.Errorf("propose: %w: %d commands of %d bytes; the limit is %d", model.ErrTooLarge, len(cmds), size, n.cfg.MaxBatchBytes)
	}
	p := newProposal(cmds, size)
	if err := n.queue.putPatient(p, patience); err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	return func() ([]fsm.Result, error) { return n.result(ctx, p) }, nil
}

// Quiet reports whether nothing that somebody waits for is on its way to the
// log.
func (n *Node) Quiet() bool { return n.queue.quiet() }

// propose puts commands of the given size in one entry.
func (n *Node) propose(ctx context.Context, cmds []*replogv1.Command, size int) ([]fsm.Result, error) {
	if err := n.mayPropose(ctx); err != nil {
		return nil, err
	}
	p := newProposal(cmds, size)
	if p.bytes > n.cfg.MaxBatchBytes {
		return nil, fmt.Errorf("propose: %w: a command of %d bytes; the limit is %d", model.ErrTooLarge, p.bytes, n.cfg.MaxBatchBytes)
	}
	if err := n.queue.put(p); err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	return n.result(ctx, p)
}

// result waits for what became of a proposal in the queue.
func (n *Node) result(ctx context.Context, p *proposal) ([]fsm.Result, error) {
	select {
	case v := <-p.done:
		return v.results, v.err
	case <-ctx.Done():
	}
	if n.queue.withdraw(p) {
		return nil, fmt.Errorf("propose: %w: %w while waiting for the log", model.ErrUnavailable, ctx.Err())
	}
	select {
	case v := <-p.done:
		return v.results, v.err
	default:
		return nil, fmt.Errorf("propose: %w: %w", model.ErrOutcomeUnknown, ctx.Err())
	}
}

func (n *Node) mayPropose(ctx context.Context) error {
	if err := n.failure(); err != nil {
		return fmt.Errorf("propose: %w: this master has failed: %w", model.ErrUnavailable, err)
	}
	if n.raft.State() != raft.Leader {
		return fmt.Errorf("propose: %w", model.ErrNotLeader)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("propose: %w: %w", model.ErrUnavailable, err)
	}
	return nil
}

// shallowCopy copies the envelope, so that it can be stamped while the caller
// keeps its own, for instance to try again later. Field by field: reflection
// costs more than all else that happens to a command before the disk. A test
// compares the two.
func shallowCopy(cmd *replogv1.Command) *replogv1.Command {
	return &replogv1.Command{
		RequestId: cmd.GetRequestId(), Base: cmd.GetBase(), Proposer: cmd.GetProposer(),
		Wall: cmd.GetWall(), Tick: cmd.GetTick(), Principal: cmd.GetPrincipal(),
		Ignorable: cmd.GetIgnorable(), From: cmd.GetFrom(), Credential: cmd.GetCredential(),
		OwnOnly: cmd.GetOwnOnly(), Kind: cmd.GetKind(),
	}
}

// collect fills entries from the queue and hands them to the library, in
// order, with at most MaxInflight of them unanswered. Commands gather while
// the entries before them are on their way.
func (n *Node) collect() {
	inflight := make(chan struct{}, n.cfg.MaxInflight)
	for {
		select {
		case inflight <- struct{}{}:
		case <-n.closing:
			return
		}
		batch := n.nextBatch()
		if batch == nil {
			return
		}
		entry, batch := n.encode(batch)
		if len(batch) == 0 {
			<-inflight
			n.queue.landed()
			continue
		}
		if !n.calls.enter() {
			answerAll(batch, fmt.Errorf("propose: %w: this master is stopping", model.ErrUnavailable))
			return
		}
		began := time.Now()
		future := n.raft.Apply(entry, transportTimeout)
		batch = n.answerEarly(batch, entry)
		go func() {
			defer n.calls.leave()
			n.deliver(batch, future, began)
			<-inflight
		}()
	}
}

// nextBatch waits for proposals; nil when the node closes.
func (n *Node) nextBatch() []*proposal {
	for {
		if batch := n.queue.take(n.cfg.MaxBatchBytes); len(batch) > 0 {
			return batch
		}
		select {
		case <-n.queue.ready:
		case <-n.closing:
			return nil
		}
	}
}

// encode stamps and encodes a batch. A proposal that cannot be encoded is
// answered and left out; it must not spoil the entry for the others.
func (n *Node) encode(batch []*proposal) ([]byte, []*proposal) {
	wall, tick := n.wall().UnixMilli(), n.ClusterTick()
	var cmds []*replogv1.Command
	for _, p := range batch {
		for _, cmd := range p.cmds {
			n.stamp(cmd, wall, tick)
			cmds = append(cmds, cmd)
		}
	}
	entry, err := fsm.EncodeBatch(cmds)
	if err == nil {
		return entry, batch
	}
	if len(batch) == 1 {
		batch[0].answer(nil, fmt.Errorf("propose: %w", err))
		return nil, nil
	}
	good := make([]*proposal, 0, len(batch))
	for _, p := range batch {
		if _, err := fsm.EncodeBatch(p.cmds); err != nil {
			p.answer(nil, fmt.Errorf("propose: %w", err))
			continue
		}
		good = append(good, p)
	}
	if len(good) == len(batch) {
		answerAll(batch, fmt.Errorf("propose: %w", err))
		return nil, nil
	}
	if len(good) == 0 {
		return nil, nil
	}
	return n.encode(good)
}

// Stamp stamps proposer, wall and cluster clock on a command now, which a
// proposal otherwise does when it goes.
func (n *Node) Stamp(cmd *replogv1.Command) { n.stamp(cmd, n.wall().UnixMilli(), n.ClusterTick()) }

func (n *Node) stamp(cmd *replogv1.Command, wall, tick int64) {
	if cmd.Proposer == "" {
		cmd.Proposer = string(n.cfg.ID)
	}
	if cmd.Wall == 0 {
		cmd.Wall = wall
	}
	if cmd.Tick == 0 {
		cmd.Tick = tick
	}
}

func countCommands(batch []*proposal) int {
	n := 0
	for _, p := range batch {
		n += len(p.cmds)
	}
	return n
}

func answerAll(batch []*proposal, err error) {
	for _, p := range batch {
		p.answer(nil, err)
	}
}

// deliver waits for one entry, handed to the library at began, and answers its
// proposals.
func (n *Node) deliver(batch []*proposal, future raft.ApplyFuture, began time.Time) {
	err := future.Error()
	n.queue.landed() // before anybody who hears of it comes with the next one
	n.transfer.note(err)
	n.observer.committed(countCommands(batch), began, err)
	if err != nil {
		answerAll(batch, proposeError(err))
		return
	}
	answer, _ := future.Response().(applied)
	if answer.err != nil {
		answerAll(batch, fmt.Errorf("propose: %w: %w", model.ErrOutcomeUnknown, answer.err))
		return
	}
	rest := answer.results
	for _, p := range batch {
		if len(rest) < len(p.cmds) {
			p.answer(nil, fmt.Errorf("propose: %w: the state answered %d commands too few", model.ErrOutcomeUnknown, len(p.cmds)-len(rest)))
			rest = nil
			continue
		}
		p.answer(rest[:len(p.cmds):len(p.cmds)], nil)
		rest = rest[len(p.cmds):]
	}
}

// proposeError sorts what the library says into certainly not proposed and
// unknown.
func proposeError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("propose: %w: %w", model.ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("propose: %w: overloaded: %w", model.ErrUnavailable, err)
	}
	return fmt.Errorf("propose: %w: %w", model.ErrOutcomeUnknown, err)
}
