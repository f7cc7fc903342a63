package gossip

import "sync"

// MaxPendingMembers bounds the members with unread events. Beyond it events of further members are dropped and counted;
// the reader still finds them by [Gossip.Members], which it has to look at from time to time anyway.
const MaxPendingMembers = 16384

// eventQueue keeps the latest unread event of each member, in the order in which members first had news. Putting never
// blocks, whatever the reader does.
type eventQueue struct {
	mu      sync.Mutex
	latest  map[string]Event
	order   []string
	dropped uint64
	more    chan struct{} // holds a token while there may be something to take
}

func newEventQueue() *eventQueue {
	return &eventQueue{latest: make(map[string]Event), more: make(chan struct{}, 1)}
}

// put adds news, replacing unread news of the same member.
func (q *eventQueue) put(ev Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old, pending := q.latest[ev.Member.ID]
	switch {
	case pending && old.Kind == MemberJoin && ev.Kind == MemberUpdated:
		ev.Kind = MemberJoin // the reader has not heard of this member yet
	case !pending && len(q.order) >= MaxPendingMembers:
		q.dropped++
		return
	}
	if !pending {
		q.order = append(q.order, ev.Member.ID)
	}
	q.latest[ev.Member.ID] = ev
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take removes the oldest member's news; false means that there is none.
func (q *eventQueue) take() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return Event{}, false
	}
	id := q.order[0]
	q.order = q.order[1:]
	ev := q.latest[id]
	delete(q.latest, id)
	return ev, true
}

// lost returns how many events were dropped because of [MaxPendingMembers].
func (q *eventQueue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// pump hands events to out until done is closed, then closes out.
func (q *eventQueue) pump(out chan<- Event, done <-chan struct{}) {
	defer close(out)
	for {
		ev, ok := q.take()
		if !ok {
			select {
			case <-q.more:
				continue
			case <-done:
				return
			}
		}
		select {
		case out <- ev:
		case <-done:
			return
		}
	}
}
