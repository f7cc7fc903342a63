package executor

// resultList is the ended tasks whose results the driver has not taken, linked
// through the tasks themselves: those that were sent on the present session
// first, then the others, both in the order in which they ended.
type resultList struct {
	head, tail *heldTask
	unsent     *heldTask // the first that was not sent; nil = none
	waiting    int       // how many were not sent
}

// push appends a result that was not sent.
func (l *resultList) push(t *heldTask) {
	t.prev, t.next, t.sent = l.tail, nil, false
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	if l.unsent == nil {
		l.unsent = t
	}
	l.waiting++
}

// take marks the first unsent result as sent.
func (l *resultList) take() {
	l.unsent.sent = true
	l.unsent = l.unsent.next
	l.waiting--
}

// remove forgets a result.
func (l *resultList) remove(t *heldTask) {
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	if l.unsent == t {
		l.unsent = t.next
	}
	if !t.sent {
		l.waiting--
	}
	t.prev, t.next = nil, nil
}

// again has one result sent again.
func (l *resultList) again(t *heldTask) {
	l.remove(t)
	l.push(t)
}

// allAgain has all results sent again.
func (l *resultList) allAgain() {
	l.unsent, l.waiting = l.head, 0
	for t := l.head; t != nil; t = t.next {
		t.sent = false
		l.waiting++
	}
}
