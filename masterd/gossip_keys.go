package masterd

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
)

// GossipKeys asks all members of gossip which keys they have.
func (s clusterService) GossipKeys(context.Context) (model.GossipKeysView, error) {
	r, err := s.m.goss.Keys()
	return gossipKeysView(r), gossipKeyError(err)
}

// ChangeGossipKeys installs, uses or removes a key on all members. What a member
// did not do is in the answer; what would cut one off is refused.
func (s clusterService) ChangeGossipKeys(_ context.Context, o model.GossipKeyOrder) (model.GossipKeysView, error) {
	var r gossip.KeyReport
	var err error
	switch o.Action {
	case model.GossipKeyInstall:
		keys, parseErr := gossip.ParseKeys([]byte(o.Key.Reveal()))
		if parseErr != nil || len(keys) != 1 {
			return model.GossipKeysView{}, fmt.Errorf("%w: want one key in base64", model.ErrInvalid)
		}
		r, err = s.m.goss.InstallKey(keys[0])
		o.ID = gossip.KeyID(keys[0])
	case model.GossipKeyUse:
		r, err = s.m.goss.UseKey(o.ID, o.Force)
	case model.GossipKeyRemove:
		r, err = s.m.goss.RemoveKey(o.ID, o.Force)
	default:
		return model.GossipKeysView{}, o.Validate()
	}
	if err == nil {
		s.m.log.Info("gossip keys changed", "action", string(o.Action), "key", o.ID, "members", r.Members, "answered", r.Answered, "absent", r.Absent, "problems", r.Problems)
	}
	return gossipKeysView(r), gossipKeyError(err)
}

func gossipKeyError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gossip.ErrNoKey):
		return fmt.Errorf("%w: %w", model.ErrNotFound, err)
	case errors.Is(err, gossip.ErrMembersMissing), errors.Is(err, gossip.ErrNotEncrypted):
		return fmt.Errorf("%w: %w", model.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", model.ErrUnavailable, err)
}

func gossipKeysView(r gossip.KeyReport) model.GossipKeysView {
	v := model.GossipKeysView{Members: r.Members, Answered: r.Answered, Problems: r.Problems, Absent: r.Absent}
	for _, k := range r.Keys {
		v.Keys = append(v.Keys, model.GossipKeyView{ID: k.ID, Holders: k.Holders, Primary: k.Primary})
	}
	return v
}
