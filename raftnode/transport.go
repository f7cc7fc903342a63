package raftnode

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

const (
	// transportPool is how many idle connections to one peer are kept.
	transportPool = 3
	// transportTimeout bounds one message and its answer.
	transportTimeout = 10 * time.Second
	// protocolVersion is that of the library's messages.
	protocolVersion = 3
)

// transport sends each message to where its member is now, and only to that
// member; and it keeps malformed messages of a peer from the library, which
// panics on some of them.
//
// It embeds the library's transport, so it also carries pre-votes and closes.
type transport struct {
	*raft.NetworkTransport
	stream  *helloStream
	resolve func(model.MasterID) (string, bool)
	log     hclog.Logger

	vetted chan raft.RPC
	orders chan timeoutOrder
	quiet  chan struct{} // capacity 1; see quiesce
	obeys  atomic.Pointer[func(sender raft.ServerID) error]
	// written holds answers back, see aheadLog.
	written writtenFunc
	news    *news
	done    chan struct{}
	tasks   sync.WaitGroup
	once    sync.Once
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(stream *helloStream, resolve func(model.MasterID) (string, bool), written writtenFunc, log hclog.Logger) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: transportPool, Timeout: transportTimeout, Logger: log,
		}),
		stream: stream, resolve: resolve, written: written, news: newNews(), log: log,
		vetted: make(chan raft.RPC),
		orders: make(chan timeoutOrder),
		quiet:  make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	t.tasks.Go(t.vetLoop)
	return t
}

// route says where a message for a member goes: its present address by
// gossip, else the one in the Raft configuration.
func (t *transport) route(id raft.ServerID, configured raft.ServerAddress) raft.ServerAddress {
	if addr, ok := t.resolve(model.MasterID(id)); ok && addr != "" {
		return routeTo(model.MasterID(id), addr)
	}
	return configured
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, t.route(id, target))
	if err != nil {
		return nil, err
	}
	return newPipeline(inner, t.written, t.news), nil
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := againOnStale(func() error { return t.NetworkTransport.AppendEntries(id, t.route(id, target), args, resp) })
	if err == nil && resp.Success && !t.written(lastOf(args), false, t.done) {
		return errNotWritten
	}
	return err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return againOnStale(func() error { return t.NetworkTransport.RequestVote(id, t.route(id, target), args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return againOnStale(func() error { return t.NetworkTransport.RequestPreVote(id, t.route(id, target), args, resp) })
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, t.route(id, target), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return againOnStale(func() error { return t.NetworkTransport.TimeoutNow(id, t.route(id, target), args, resp) })
}

// EncodePeer implements raft.Transport. The id goes with the address, because
// the library remembers whom it voted for by these bytes, and an address may
// pass from one master to another.
func (t *transport) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(routeTo(model.MasterID(id), string(addr)))
}

// DecodePeer implements raft.Transport.
func (t *transport) DecodePeer(b []byte) raft.ServerAddress {
	_, addr := splitRoute(raft.ServerAddress(b))
	return raft.ServerAddress(addr)
}

// reach makes sure that there is a connection to a member, for a message that is
// to come. What it sends changes nothing, see quiesce. It blocks until the
// member answers, or for transportTimeout, or until Close.
func (t *transport) reach(id model.MasterID) {
	addr, ok := t.resolve(id)
	if !ok {
		return
	}
	err := t.AppendEntries(raft.ServerID(id), routeTo(id, addr), &raft.AppendEntriesRequest{RPCHeader: t.header()}, &raft.AppendEntriesResponse{})
	if err != nil {
		t.log.Debug("a voter cannot be reached", "voter", string(id), "err", err)
	}
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.vetted }

// Close implements raft.WithClose: it ends every connection, so that no
// goroutine of the library is left waiting for a peer.
func (t *transport) Close() error {
	var err error
	t.once.Do(func() {
		close(t.done)
		err = t.NetworkTransport.Close()
		t.NetworkTransport.CloseStreams()
		t.tasks.Wait()
	})
	return err
}

// vetLoop passes well-formed messages on. It is the only one that does, so
// while it is busy with an order to time out the library gets no other message
// from here.
func (t *transport) vetLoop() {
	for {
		select {
		case order := <-t.orders:
			order.result <- t.timeOut(order.still, order.patience)
		case rpc := <-t.NetworkTransport.Consumer():
			if request, ok := rpc.Command.(*raft.TimeoutNowRequest); ok {
				t.passTimeout(rpc, request)
				continue
			}
			if err := vet(rpc.Command); err != nil {
				t.log.Warn("raft message refused", "err", err)
				rpc.Respond(nil, err)
				continue
			}
			select {
			case t.vetted <- rpc:
			case <-t.done:
				return
			}
		case <-t.done:
			return
		}
	}
}

// vet refuses what the library would panic on or loop over: configurations it
// cannot decode, entries out of order, entry types it does not know.
func vet(command any) error {
	switch m := command.(type) {
	case *raft.AppendEntriesRequest:
		return vetEntries(m)
	case *raft.InstallSnapshotRequest:
		if m.SnapshotVersion != 1 || m.Size < 0 {
			return fmt.Errorf("snapshot of version %d with %d bytes: %w", m.SnapshotVersion, m.Size, model.ErrInvalid)
		}
		return vetConfiguration(m.Configuration)
	}
	return nil
}

func vetEntries(m *raft.AppendEntriesRequest) error {
	next := m.PrevLogEntry + 1
	for _, entry := range m.Entries {
		if entry == nil || entry.Index != next || entry.Term > m.Term {
			return fmt.Errorf("entries after %d are not in order: %w", m.PrevLogEntry, model.ErrInvalid)
		}
		next++
		switch entry.Type {
		case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		case raft.LogConfiguration:
			if err := vetConfiguration(entry.Data); err != nil {
				return err
			}
		default:
			return fmt.Errorf("entry %d has the unknown type %d: %w", entry.Index, entry.Type, model.ErrInvalid)
		}
	}
	return nil
}

// vetConfiguration reports whether the library can decode these bytes.
func vetConfiguration(data []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("membership of %d bytes cannot be decoded (%v): %w", len(data), r, model.ErrInvalid)
		}
	}()
	if len(raft.DecodeConfiguration(data).Servers) == 0 {
		return fmt.Errorf("membership without servers: %w", model.ErrInvalid)
	}
	return nil
}
