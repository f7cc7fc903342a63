package gossip

import (
	"net"
	"strconv"

	"github.com/hashicorp/serf/serf"
)

// Role says what a member is.
type Role string

// The roles of members.
const (
	RoleMaster Role = "master"
	RoleWorker Role = "worker"
)

// Status is the opinion of the gossip pool about a member.
type Status string

// The states of a member. A leaving member becomes left, an alive one that falls silent becomes failed.
const (
	StatusAlive   Status = "alive"
	StatusLeaving Status = "leaving"
	StatusLeft    Status = "left"
	StatusFailed  Status = "failed"
	StatusUnknown Status = "unknown"
)

// Member is one participant as this node sees it.
type Member struct {
	// ID is the member's own id, the same whatever its address.
	ID string
	// Role is Tags.Role.
	Role Role
	// Addr is the IP address that gossip tells of the member, without a port. Behind a bridge it may be of use to nobody.
	Addr string
	// SerfAddr is the "host:port" on which it gossips; the host is a name if it advertises one.
	SerfAddr string
	// Tags is what the member says about itself. They are claims, not proofs.
	Tags Tags
	// Status is this node's opinion of it.
	Status Status
}

// EventKind says what happened to a member.
type EventKind string

// The kinds of events.
const (
	// MemberJoin: a member is there, new or again.
	MemberJoin EventKind = "join"
	// MemberFailed: a member has not answered and is considered gone.
	MemberFailed EventKind = "failed"
	// MemberLeft: a member said goodbye, or was removed by an operator.
	MemberLeft EventKind = "left"
	// MemberUpdated: a member's tags or address changed.
	MemberUpdated EventKind = "updated"
	// MemberReaped: a failed or left member was forgotten.
	MemberReaped EventKind = "reaped"
)

// Event is the latest news about a member. Earlier news of the same member that nobody had read is gone, so every kind
// but MemberReaped must be understood as "this is how the member is now".
type Event struct {
	Kind   EventKind
	Member Member
}

// eventKind translates serf's kind; false means that the event is not about members.
func eventKind(t serf.EventType) (EventKind, bool) {
	switch t {
	case serf.EventMemberJoin:
		return MemberJoin, true
	case serf.EventMemberFailed:
		return MemberFailed, true
	case serf.EventMemberLeave:
		return MemberLeft, true
	case serf.EventMemberUpdate:
		return MemberUpdated, true
	case serf.EventMemberReap:
		return MemberReaped, true
	default:
		return "", false
	}
}

func status(s serf.MemberStatus) Status {
	switch s {
	case serf.StatusAlive:
		return StatusAlive
	case serf.StatusLeaving:
		return StatusLeaving
	case serf.StatusLeft:
		return StatusLeft
	case serf.StatusFailed:
		return StatusFailed
	default:
		return StatusUnknown
	}
}

// member translates serf's view of a member; it fails when the tags are not ours.
func member(m serf.Member) (Member, error) {
	tags, err := decodeTags(m.Name, m.Tags)
	if err != nil {
		return Member{}, err
	}
	host := nameOf(tags)
	if host == "" {
		host = m.Addr.String()
	}
	return Member{
		ID:       m.Name,
		Role:     tags.Role,
		Addr:     m.Addr.String(),
		SerfAddr: net.JoinHostPort(host, strconv.Itoa(int(m.Port))),
		Tags:     tags,
		Status:   status(m.Status),
	}, nil
}
