package masterd

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// RegisterApps commits a batch of applications: one proposal, so that they
// share entries and syncs, and a verdict for each. What makes one of them
// invalid is its verdict and holds nobody else up.
func (s clusterService) RegisterApps(ctx context.Context, call rpc.CallInfo, subs []rpc.Submission) (rpc.RegisterAppsReply, error) {
	if !s.m.takesCommands() {
		return rpc.RegisterAppsReply{}, s.m.notLeader()
	}
	out := rpc.RegisterAppsReply{Verdicts: make([]rpc.SubmissionVerdict, len(subs)), LeaderAddr: s.m.GRPCAddr()}
	cmds := make([]*replogv1.Command, 0, len(subs))
	of := make([]int, 0, len(subs)) // the submission of each command
	for i, sub := range subs {
		cmd, err := submissionCommand(call, sub)
		if err != nil {
			out.Verdicts[i].Err = err
			continue
		}
		cmds, of = append(cmds, cmd), append(of, i)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	results, err := s.m.node.ProposeAll(ctx, cmds)
	if errors.Is(err, model.ErrNotLeader) {
		err = s.m.notLeader()
	}
	if err != nil && len(results) == 0 {
		return rpc.RegisterAppsReply{}, fmt.Errorf("register %d applications: %w", len(cmds), err)
	}
	for n, i := range of {
		v := &out.Verdicts[i]
		switch {
		case n >= len(results): // of an entry after the one that failed
			v.Err = fmt.Errorf("register application %q: %w", subs[i].Spec.Name, err)
		case results[n].Err() != nil:
			v.Err = fmt.Errorf("register application %q: %w", subs[i].Spec.Name, results[n].Err())
		default:
			v.App, v.Token, v.Index = results[n].App, results[n].Token, results[n].Index
		}
	}
	return out, nil
}

func submissionCommand(call rpc.CallInfo, sub rpc.Submission) (*replogv1.Command, error) {
	if err := model.ValidRequestID(sub.RequestID); err != nil {
		return nil, err
	}
	if err := sub.Spec.Validate(); err != nil {
		return nil, fmt.Errorf("register application %q: %w", sub.Spec.Name, err)
	}
	call.RequestID, call.Base = sub.RequestID, sub.Base
	cmd := &replogv1.Command{
		Kind: &replogv1.Command_RegisterApp{RegisterApp: &replogv1.RegisterApp{
			Spec: fsm.SpecToProto(sub.Spec), Token: randomHex(16),
		}},
	}
	stamp(cmd, call)
	return cmd, nil
}
