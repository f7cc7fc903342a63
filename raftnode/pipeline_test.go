package raftnode

import (
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// transportPair opens a transport and a peer of it that answers every message.
func transportPair(t *testing.T) (from *transport, to raft.ServerAddress) {
	t.Helper()
	log, _ := newLog(t)
	open := func(id model.MasterID) (*transport, string) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream := newHelloStream(NewTCPStream(listener, "", StreamTLS{}), id, ourCluster(), log)
		trans := newTransport(stream, func(model.MasterID) (string, bool) { return "", false }, onDisk, log)
		t.Cleanup(func() {
			if err := trans.Close(); err != nil {
				t.Errorf("close %s: %v", id, err)
			}
		})
		return trans, listener.Addr().String()
	}
	from, _ = open("m1")
	peer, addr := open("m2")
	answering := make(chan struct{})
	go func() {
		defer close(answering)
		for {
			select {
			case rpc := <-peer.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			case <-peer.done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = peer.Close()
		<-answering
	})
	return from, routeTo("m2", addr)
}

// HA-14: the library stops reading answers while it is sending.
func TestAPipelineWhoseReaderHasLeftStillTakesEntries(t *testing.T) {
	trans, to := transportPair(t)
	p, err := trans.AppendEntriesPipeline("m2", to)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for range 10 {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the sender waits for a reader that has left")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
