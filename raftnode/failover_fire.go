package raftnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

const (
	// passLimit is how long the library may take for a message once it was
	// seen to be idle.
	passLimit = 20 * time.Millisecond
	// transferPatience is how long the order of a leader to take over waits
	// for the library to finish what it is at.
	transferPatience = time.Second
)

var (
	errBusy   = errors.New("raft is busy")
	errNoMore = errors.New("this master is stopping")
)

// timeoutOrder asks the vetLoop to let the own replica time out.
type timeoutOrder struct {
	still    func() error // why it must not, asked when nothing can change it any more
	patience time.Duration
	result   chan error // capacity 1
}

// fire hands a TimeoutNow to the own replica, which makes it a candidate that
// skips the pre-vote and whose voters overlook that they have a leader. It
// returns why that was not done, or nil. It blocks for little more than twice
// patience.
func (t *transport) fire(still func() error, patience time.Duration) error {
	order := timeoutOrder{still: still, patience: patience, result: make(chan error, 1)}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.orders <- order:
	case <-timer.C:
		return errBusy
	case <-t.done:
		return errNoMore
	}
	select {
	case err := <-order.result:
		return err
	case <-t.done:
		return errNoMore
	}
}

// passTimeout judges a TimeoutNow that came over the network and answers it.
func (t *transport) passTimeout(rpc raft.RPC, request *raft.TimeoutNowRequest) {
	sender := raft.ServerID(request.ID)
	still := func() error {
		obeys := t.obeys.Load()
		if obeys == nil {
			return fmt.Errorf("%w: raft has not started", model.ErrRefused)
		}
		return (*obeys)(sender)
	}
	if err := t.timeOut(still, transferPatience); err != nil {
		t.log.Warn("order to take over refused", "from", string(sender), "err", err)
		rpc.Respond(nil, err)
		return
	}
	rpc.Respond(&raft.TimeoutNowResponse{}, nil)
}

// timeOut passes a TimeoutNow to the library, whose handler checks nothing: it
// would let a leader, a candidate, a master without a vote or one that follows
// somebody else begin an election that cannot be refused. So the conditions are
// asked while the library stands still, with this the only message on its way.
//
// That also closes a race inside the handler. It becomes a candidate first and
// notes second that it may skip the pre-vote; a heartbeat in between makes it a
// follower again, with the note left for its next election, whenever that is.
func (t *transport) timeOut(still func() error, patience time.Duration) error {
	if err := still(); err != nil {
		return err
	}
	if err := t.quiesce(patience); err != nil {
		return err
	}
	timer := time.NewTimer(passLimit)
	defer timer.Stop()
	select {
	case t.quiet <- struct{}{}:
		defer func() { <-t.quiet }()
	case <-timer.C:
		return errBusy
	case <-t.done:
		return errNoMore
	}
	if err := still(); err != nil {
		return err
	}
	answer := make(chan raft.RPCResponse, 1)
	select {
	case t.vetted <- raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: t.header()}, RespChan: answer}:
	case <-timer.C:
		return errBusy
	case <-t.done:
		return errNoMore
	}
	select {
	case a := <-answer:
		return a.Error
	case <-t.done:
		return errNoMore
	}
}

// header is that of messages this node sends to itself.
func (t *transport) header() raft.RPCHeader {
	id := raft.ServerID(t.stream.id)
	return raft.RPCHeader{ProtocolVersion: protocolVersion, ID: []byte(id), Addr: t.EncodePeer(id, t.LocalAddr())}
}

// quiesce returns once the library has finished every message it was handed
// before: it sends one of term 0, which is answered and changes nothing in any
// state but that of a replica without a term.
func (t *transport) quiesce(patience time.Duration) error {
	answer := make(chan raft.RPCResponse, 1)
	probe := raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: t.header()}, RespChan: answer}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.vetted <- probe:
	case <-timer.C:
		return errBusy
	case <-t.done:
		return errNoMore
	}
	select {
	case <-answer:
		return nil
	case <-timer.C:
		return errBusy
	case <-t.done:
		return errNoMore
	}
}

// SetHeartbeatHandler implements raft.Transport. Heartbeats pass by the vetLoop
// and do not wait for the library's own thread, hence for no disk; they wait
// only for a timeout on its way.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) { t.heartbeat(rpc, handle) })
}

func (t *transport) heartbeat(rpc raft.RPC, handle func(raft.RPC)) {
	select {
	case t.quiet <- struct{}{}:
		defer func() { <-t.quiet }()
		handle(rpc)
	case <-t.done:
		rpc.Respond(nil, errNoMore)
	}
}
