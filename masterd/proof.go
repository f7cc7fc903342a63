package masterd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// proofDomain begins everything that a master's key signs.
	proofDomain = "hearth master proof 1\x00"
	// proofNonce is the size of the question, in bytes.
	proofNonce = 32
	// proveTimeout bounds one question, the dial included.
	proveTimeout = 2 * time.Second
)

// statement is what a proof signs. Each field has its length before it, so no
// two statements have the same bytes.
func statement(nonce []byte, r rpc.ProveReply) []byte {
	b := []byte(proofDomain)
	for _, field := range []string{
		string(nonce), string(r.Master.ID), r.Master.GRPCAddr, r.Master.RaftAddr, r.Master.HTTPAddr, r.Master.Version, r.Cluster.ID,
	} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	b = binary.BigEndian.AppendUint64(b, r.Cluster.Epoch)
	return binary.BigEndian.AppendUint64(b, r.Cluster.EpochID)
}

// Prove answers who this master is and where, signed for the one that asks.
func (s peerService) Prove(_ context.Context, req rpc.ProveRequest) (rpc.ProveReply, error) {
	if len(req.Nonce) != proofNonce {
		return rpc.ProveReply{}, fmt.Errorf("prove who is here: %w: the nonce has %d bytes, want %d", model.ErrInvalid, len(req.Nonce), proofNonce)
	}
	own := s.m.record()
	own.SerfAddr = "" // gossip's own matter
	r := rpc.ProveReply{Master: own, Cluster: s.m.id.Settled()}
	r.Signature = s.m.id.Sign(statement(req.Nonce, r))
	return r, nil
}

// askProof asks whoever is at a gRPC address for a proof, over a connection of
// its own that takes a master's certificate only. What it returns is signed by
// the key that it names, for this question.
func (m *Master) askProof(ctx context.Context, addr string) (rpc.ProveReply, error) {
	conn, err := rpc.Dial(addr, rpc.DialConfig{TLS: tlsconf.Only(m.deps.ClientTLS, tlsconf.RoleMaster), Dial: m.dial})
	if err != nil {
		return rpc.ProveReply{}, err
	}
	defer func() { _ = conn.Close() }() // nothing is written on it
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	nonce := make([]byte, proofNonce)
	_, _ = rand.Read(nonce) // crypto/rand.Read never fails (Go 1.24)
	r, err := rpc.PeerClient(conn).Prove(ctx, rpc.ProveRequest{Nonce: nonce})
	if err != nil {
		return rpc.ProveReply{}, fmt.Errorf("ask for a proof at %s: %w", addr, err)
	}
	if len(r.Master.Key) != model.MasterKeyBytes || !ed25519.Verify(ed25519.PublicKey(r.Master.Key), statement(nonce, r), r.Signature) {
		return rpc.ProveReply{}, fmt.Errorf("ask for a proof at %s: %w: the signature is not by the key it names", addr, model.ErrRefused)
	}
	return r, nil
}

// judgeProof returns why a proof does not bear out what gossip says of a
// master, or nil. rec is its record, if it has one.
func judgeProof(claim place, r rpc.ProveReply, rec model.Master, own model.ClusterIdentity) error {
	switch got := placeOf(r.Master); {
	case r.Master.ID != claim.id:
		return fmt.Errorf("%w: gossip says that master %s is at %s, and %.64q answers there", model.ErrRefused, claim.id, claim.grpc, string(r.Master.ID))
	case got.grpc != claim.grpc || got.raft != claim.raft:
		return fmt.Errorf("%w: gossip says that master %s is at %s (raft %s), and it says itself that it is at %.64q (raft %.64q)",
			model.ErrRefused, claim.id, claim.grpc, claim.raft, got.grpc, got.raft)
	case rec.Key != "" && rec.Key != r.Master.Key:
		return fmt.Errorf("%w: who answers at %s as master %s has another key than that master: a copy of its id is not this master", model.ErrRefused, claim.grpc, claim.id)
	case !own.IsZero() && !r.Cluster.IsZero() && r.Cluster != own:
		return fmt.Errorf("%w: master %s at %s belongs to %s", model.ErrForeignCluster, claim.id, claim.grpc, r.Cluster)
	}
	return nil
}
