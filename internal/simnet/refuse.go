package simnet

// Refuse puts a firewall between two hosts that answers streams with a reset: their connections to each other break at
// once and dials between them are refused, though both live and listen. Datagrams pass. [Network.Heal] and
// [Network.HealLink] take it away again.
func (n *Network) Refuse(a, b string) {
	n.mu.Lock()
	n.refused[link{a, b}] = true
	n.refused[link{b, a}] = true
	n.mu.Unlock()
	n.Reset(a, b)
}

// Reset breaks every stream connection between two hosts, as a middlebox does that has lost its state. New ones can be
// made at once.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	broken := append(n.connsLocked(a, b), n.connsLocked(b, a)...)
	n.wakeDialsLocked()
	n.mu.Unlock()
	for _, c := range broken {
		c.abort()
	}
}

// connsLocked returns the ends on one host of its connections with another. n.mu is held.
func (n *Network) connsLocked(near, far string) []*Conn {
	h, peer := n.hosts[near], n.hosts[far]
	if h == nil || peer == nil {
		return nil
	}
	var out []*Conn
	for c := range h.conns {
		if c.remote.IP.Equal(peer.ip) {
			out = append(out, c)
		}
	}
	return out
}
