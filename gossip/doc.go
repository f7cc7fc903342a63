// Package gossip is Hearth's failure detector and discovery: who is there, under which addresses, and who has gone
// silent. It wraps hashicorp/serf and is the only importer of serf and memberlist.
//
// It owns the tuning of both libraries, typed tags with their limits, the join loop that never gives up, the rule of who
// may be a member ([model.ClusterIdentity] plus one exception for workers), and an event stream that a slow reader
// cannot turn into back-pressure. It decides nothing: that a member failed is a hint to the leader, never a reason to
// remove a voter or to kill an executor. Members prove no identity here (whoever has the gossip key, or reaches an
// unencrypted port, can speak), so addresses learned here are candidates to dial, no more.
//
// Facts about the libraries that shaped it, checked in serf v0.11.0 and memberlist v0.7.0:
//   - serf sends its events while it holds the member lock, and memberlist calls it under the node lock: an event channel
//     nobody reads stops gossip itself. The channel here is always drained, into a queue that holds the latest event of
//     each member.
//   - A name that reappears on another address is refused until the old entry has been dead for [DeadNodeReclaimTime].
//     The newcomer cannot tell, so the join loop keeps contacting its seeds.
//   - serf's own resolution of name conflicts may shut down a healthy node that came back on a new address; it is off.
//   - memberlist bounds what a compressed or oversized message may expand to; this package adds a bound on inbound streams.
//
// Masters and workers ("masterd", "workerd") import it.
package gossip
