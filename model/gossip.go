package model

import (
	"fmt"
	"slices"
)

// GossipKeyAction is what may be done with a key of gossip on all members.
type GossipKeyAction string

// The actions, in the order of an exchange.
const (
	GossipKeyInstall GossipKeyAction = "install"
	GossipKeyUse     GossipKeyAction = "use"
	GossipKeyRemove  GossipKeyAction = "remove"
)

// GossipKeyOrder is `hearth operator gossip keys install|use|remove`.
type GossipKeyOrder struct {
	Action GossipKeyAction
	// Key is the key to install, in base64.
	Key Secret
	// ID names the key to use or to remove.
	ID string
	// Force does it although a member would be cut off.
	Force bool
}

// Validate checks that the action is known and has what it needs.
func (o GossipKeyOrder) Validate() error {
	if !slices.Contains([]GossipKeyAction{GossipKeyInstall, GossipKeyUse, GossipKeyRemove}, o.Action) {
		return fmt.Errorf("%w: action %q on a gossip key: must be install, use or remove", ErrInvalid, string(o.Action))
	}
	if (o.Action == GossipKeyInstall) != (o.Key != "") || (o.Action != GossipKeyInstall) != (o.ID != "") {
		return fmt.Errorf("%w: %s a gossip key: install takes a key, the others the id of one", ErrInvalid, o.Action)
	}
	return nil
}

// GossipKeyView says how many members have a key. The key itself is shown nowhere.
type GossipKeyView struct {
	ID string `json:"id"`
	// Holders can read with it, Primary encrypt with it.
	Holders int `json:"holders"`
	Primary int `json:"primary"`
}

// GossipKeysView is what the members of the gossip pool said about their keys.
type GossipKeysView struct {
	Keys []GossipKeyView `json:"keys"`
	// Members are there, Answered of them have answered.
	Members  int `json:"members"`
	Answered int `json:"answered"`
	// Problems are what members said instead; Absent have failed and may lack a key when they come back.
	Problems []string `json:"problems"`
	Absent   []string `json:"absent"`
}
