package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// transferLimit bounds a leadership transfer, which may hang in the library.
const transferLimit = 10 * time.Second

// Servers returns the members of the newest Raft configuration this node has,
// committed or not, and the index of the newest configuration it has applied
// (0 if it was never told one).
func (n *Node) Servers() ([]Server, uint64, error) {
	future := n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, 0, fmt.Errorf("read raft members: %w", err)
	}
	var out []Server
	for _, s := range future.Configuration().Servers {
		_, addr := splitRoute(s.Address)
		out = append(out, Server{ID: model.MasterID(s.ID), Addr: addr, Voter: s.Suffrage == raft.Voter})
	}
	return out, n.state.configIndex.Load(), nil
}

// AddVoter adds a member with a vote, gives one a vote, or changes its address.
// It returns once the change is committed.
func (n *Node) AddVoter(ctx context.Context, id model.MasterID, addr string) error {
	return n.await(ctx, "add voter "+string(id), func() error {
		return n.raft.AddVoter(raft.ServerID(id), routeTo(id, addr), 0, remaining(ctx)).Error()
	})
}

// AddNonvoter adds a member that only receives the log, or changes the address
// of one. A voter stays a voter.
func (n *Node) AddNonvoter(ctx context.Context, id model.MasterID, addr string) error {
	return n.await(ctx, "add non-voter "+string(id), func() error {
		return n.raft.AddNonvoter(raft.ServerID(id), routeTo(id, addr), 0, remaining(ctx)).Error()
	})
}

// RemoveServer removes a member. It asks no questions: floors are the caller's.
func (n *Node) RemoveServer(ctx context.Context, id model.MasterID) error {
	return n.await(ctx, "remove server "+string(id), func() error {
		return n.raft.RemoveServer(raft.ServerID(id), 0, remaining(ctx)).Error()
	})
}

// remaining is the time until ctx ends, as the library takes it: 0 is without
// limit.
func remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), time.Millisecond)
}

// TransferLeadership hands leadership to a member, or to the voter that is
// furthest if to is empty, and returns once this node leads no more. It is
// bounded by ctx and by transferLimit; after an error this node may lead on.
func (n *Node) TransferLeadership(ctx context.Context, to model.MasterID) error {
	what := "transfer leadership"
	ask := func() raft.Future { return n.raft.LeadershipTransfer() }
	if to != "" {
		what += " to " + string(to)
		addr, err := n.voterAddress(to)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		ask = func() raft.Future { return n.raft.LeadershipTransferToServer(raft.ServerID(to), addr) }
	}
	if n.raft.State() != raft.Leader {
		return fmt.Errorf("%s: %w", what, model.ErrNotLeader)
	}
	ctx, cancel := context.WithTimeout(ctx, transferLimit)
	defer cancel()
	return n.await(ctx, what, func() error {
		err := ask().Error()
		if err != nil && !errors.Is(err, raft.ErrNotLeader) && n.raft.State() != raft.Leader {
			return nil // lost in the meantime, which is what was wanted
		}
		return err
	})
}

func (n *Node) voterAddress(id model.MasterID) (raft.ServerAddress, error) {
	servers, _, err := n.Servers()
	if err != nil {
		return "", err
	}
	for _, s := range servers {
		if s.ID == id && s.Voter && id != n.cfg.ID {
			return routeTo(s.ID, s.Addr), nil
		}
	}
	return "", fmt.Errorf("no other voter with this id: %w", model.ErrNotFound)
}
