package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

// raftView is `hearth operator raft list -o json`.
type raftView struct {
	Version int                `json:"version"`
	Masters []model.MasterView `json:"masters"`
}

// gossipView is `hearth operator gossip members -o json`.
type gossipView struct {
	Version int                      `json:"version"`
	Members []model.GossipMemberView `json:"members"`
}

// doneView answers a command that changed something.
type doneView struct {
	Version int    `json:"version"`
	Done    string `json:"done"`
}

func done(format string, args ...any) (any, func(io.Writer) error, error) {
	v := doneView{Version: model.ViewVersion, Done: fmt.Sprintf(format, args...)}
	return v, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, v.Done)
		return err
	}, nil
}

func newOperator(s Streams) *cobra.Command {
	help := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd := &cobra.Command{Use: "operator", Short: "Look after the masters themselves", Args: cobra.NoArgs, RunE: help}
	raft := &cobra.Command{Use: "raft", Short: "The replicated log's members", Args: cobra.NoArgs, RunE: help}
	gossip := &cobra.Command{Use: "gossip", Short: "The gossip pool", Args: cobra.NoArgs, RunE: help}
	raft.AddCommand(newRaftList(s), newRaftTransfer(s), newRaftLeave(s))
	gossip.AddCommand(newGossipMembers(s), newGossipKeys(s))
	cmd.AddCommand(raft, gossip)
	return cmd
}

func newRaftList(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use: "list", Short: "List voters and non-voters as the leader sees them", Args: cobra.NoArgs,
	}, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		masters, err := c.RaftServers(ctx)
		if err != nil {
			return nil, nil, err
		}
		v := raftView{Version: model.ViewVersion, Masters: orEmpty(masters)}
		return v, func(w io.Writer) error { return mastersTable(w, v.Masters) }, nil
	})
}

func newRaftTransfer(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use:   "transfer [MASTER]",
		Short: "Hand leadership to a master, or to the one that is furthest along",
		Args:  cobra.MaximumNArgs(1),
	}, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		var to model.MasterID
		if len(args) == 1 {
			to = model.MasterID(args[0])
		}
		if err := c.TransferLeadership(ctx, to); err != nil {
			return nil, nil, err
		}
		return done("leadership handed over")
	})
}

func newRaftLeave(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use:   "leave MASTER",
		Short: "Take a master out of the cluster for good",
		Long: "Takes a master out of the Raft configuration. It is not added again: to bring the\n" +
			"machine back, stop the master, set its data directory aside and start it anew.",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		if err := c.RemoveMaster(ctx, model.MasterID(args[0])); err != nil {
			return nil, nil, err
		}
		return done("master %s has left the cluster", args[0])
	})
}

func newGossipMembers(s Streams) *cobra.Command {
	return question(s, &cobra.Command{
		Use: "members", Short: "List what the answering master's gossip sees", Args: cobra.NoArgs,
	}, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		members, err := c.GossipMembers(ctx)
		if err != nil {
			return nil, nil, err
		}
		v := gossipView{Version: model.ViewVersion, Members: orEmpty(members)}
		return v, func(w io.Writer) error {
			t := newTable(w, "MEMBER", "ROLE", "STATUS", "SERF", "GRPC")
			for _, m := range v.Members {
				t.row(m.ID, m.Role, m.Status, m.SerfAddr, m.GRPCAddr)
			}
			return t.flush()
		}, nil
	})
}
