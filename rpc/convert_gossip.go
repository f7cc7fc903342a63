package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func gossipKeyOrderToWire(o model.GossipKeyOrder) *pb.ChangeGossipKeysRequest {
	return &pb.ChangeGossipKeysRequest{Action: string(o.Action), Key: o.Key.Reveal(), Id: o.ID, Force: o.Force}
}

func gossipKeyOrderFromWire(o *pb.ChangeGossipKeysRequest) model.GossipKeyOrder {
	return model.GossipKeyOrder{Action: model.GossipKeyAction(o.GetAction()), Key: model.Secret(o.GetKey()), ID: o.GetId(), Force: o.GetForce()}
}

func gossipKeysToWire(v model.GossipKeysView) *pb.GossipKeysView {
	return &pb.GossipKeysView{
		Keys: each(v.Keys, func(k model.GossipKeyView) *pb.GossipKeyView {
			return &pb.GossipKeyView{Id: k.ID, Holders: int64(k.Holders), Primary: int64(k.Primary)}
		}),
		Members: int64(v.Members), Answered: int64(v.Answered), Problems: v.Problems, Absent: v.Absent,
	}
}

func gossipKeysFromWire(v *pb.GossipKeysView) model.GossipKeysView {
	return model.GossipKeysView{
		Keys: each(v.GetKeys(), func(k *pb.GossipKeyView) model.GossipKeyView {
			return model.GossipKeyView{ID: k.GetId(), Holders: int(k.GetHolders()), Primary: int(k.GetPrimary())}
		}),
		Members: int(v.GetMembers()), Answered: int(v.GetAnswered()), Problems: v.GetProblems(), Absent: v.GetAbsent(),
	}
}
