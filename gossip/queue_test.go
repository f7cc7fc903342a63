package gossip

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func news(kind EventKind, id string, incarnation uint64) Event {
	return Event{Kind: kind, Member: Member{ID: id, Tags: Tags{Incarnation: incarnation}}}
}

func TestOnlyTheLatestNewsOfAMemberIsKept(t *testing.T) {
	tests := map[string]struct{ put, want []Event }{
		"a failure replaces a join": {
			[]Event{news(MemberJoin, "a", 1), news(MemberFailed, "a", 1)},
			[]Event{news(MemberFailed, "a", 1)},
		},
		"an update of a member nobody heard of stays a join": {
			[]Event{news(MemberJoin, "a", 1), news(MemberUpdated, "a", 2)},
			[]Event{news(MemberJoin, "a", 2)},
		},
		"members keep the order of their first news": {
			[]Event{news(MemberJoin, "a", 1), news(MemberJoin, "b", 1), news(MemberLeft, "a", 1)},
			[]Event{news(MemberLeft, "a", 1), news(MemberJoin, "b", 1)},
		},
		"a return replaces a failure": {
			[]Event{news(MemberFailed, "a", 1), news(MemberJoin, "a", 2)},
			[]Event{news(MemberJoin, "a", 2)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := newEventQueue()
			for _, ev := range tt.put {
				q.put(ev)
			}
			var got []Event
			for ev, ok := q.take(); ok; ev, ok = q.take() {
				got = append(got, ev)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheQueueIsBoundedAndCountsWhatItDrops(t *testing.T) {
	q := newEventQueue()
	for i := range MaxPendingMembers + 5 {
		q.put(news(MemberJoin, fmt.Sprintf("m%d", i), 1))
	}
	q.put(news(MemberFailed, "m0", 1))
	if got := q.lost(); got != 5 {
		t.Errorf("dropped: got %d, want 5", got)
	}
	if ev, _ := q.take(); ev.Kind != MemberFailed {
		t.Errorf("a pending member in a full queue: got %s, want its latest news", ev.Kind)
	}
}
