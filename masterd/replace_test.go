package masterd

import (
	"testing"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

func TestANewMasterTakesThePlaceOnlyOfADeadOneOnItsAddress(t *testing.T) {
	voter := func(id, addr string) raftnode.Server {
		return raftnode.Server{ID: model.MasterID(id), Addr: addr, Voter: true}
	}
	waiting := func(id, addr string) raftnode.Server {
		return raftnode.Server{ID: model.MasterID(id), Addr: addr}
	}
	set := func(ids ...model.MasterID) map[model.MasterID]bool {
		out := make(map[model.MasterID]bool)
		for _, id := range ids {
			out[id] = true
		}
		return out
	}
	three := []raftnode.Server{voter("a", "a:1"), voter("b", "b:1"), voter("c", "c:1")}
	with := func(more ...raftnode.Server) []raftnode.Server {
		return append(append([]raftnode.Server(nil), three...), more...)
	}
	for name, c := range map[string]struct {
		ms  members
		out model.MasterID
		in  model.MasterID // "" = nothing is done
	}{
		"a wiped master that has caught up": {
			members{servers: with(waiting("n", "c:1")), alive: set("a", "b", "n"), caught: set("a", "b", "n")}, "c", "n",
		},
		"one that has not caught up": {
			members{servers: with(waiting("n", "c:1")), alive: set("a", "b", "n"), caught: set("a", "b")}, "", "",
		},
		"one that is gone again": {
			members{servers: with(waiting("n", "c:1")), alive: set("a", "b"), caught: set("a", "b", "n")}, "", "",
		},
		"a new master on an address of its own": {
			members{servers: with(waiting("n", "d:1")), alive: set("a", "b", "n"), caught: set("a", "b", "n")}, "", "",
		},
		"one that claims the address of a voter that lives": {
			members{servers: with(waiting("n", "c:1")), alive: set("a", "b", "c", "n"), caught: set("a", "b", "c", "n")}, "", "",
		},
		"two that claim one address, of which one is there": {
			members{servers: with(waiting("m", "c:1"), waiting("n", "c:1")), alive: set("a", "b", "m", "n"), caught: set("a", "b", "n")}, "c", "n",
		},
		"the old one is out and its successor has no vote yet": {
			members{
				servers: []raftnode.Server{voter("a", "a:1"), voter("b", "b:1"), waiting("n", "c:1")}, alive: set("a", "b", "n"), caught: set("a", "b", "n"),
				removed: map[model.MasterID]string{"c": "c:1"},
			}, "", "n",
		},
		"two are wiped and one replacement was begun: that is finished first": {
			members{
				servers: []raftnode.Server{voter("a", "a:1"), voter("b", "b:1"), voter("c", "c:1"), voter("d", "d:1"), waiting("x", "d:1"), waiting("y", "e:1")},
				alive:   set("a", "b", "c", "x", "y"), caught: set("a", "b", "c", "x", "y"), removed: map[model.MasterID]string{"e": "e:1"},
			}, "", "y",
		},
		"without the dead one the living were no majority": {
			members{
				servers: []raftnode.Server{voter("a", "a:1"), voter("b", "b:1"), voter("c", "c:1"), voter("d", "d:1"), voter("e", "e:1"), waiting("n", "e:1")},
				alive:   set("a", "b", "n"), caught: set("a", "b", "n"),
			}, "", "",
		},
	} {
		got, ok := c.ms.nextSwap()
		if !ok {
			got = swap{}
		}
		if got.out != c.out || got.in.ID != c.in {
			t.Errorf("%s: got %q out and %q in, want %q and %q", name, got.out, got.in.ID, c.out, c.in)
		}
	}
}
