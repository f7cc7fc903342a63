package gossip

import (
	"errors"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// The tuning of the failure detector. Library defaults find a silent death after 7 to 15 s; these within 1 to 2 s in a
// small pool, and the time grows with the logarithm of its size.
const (
	// ProbeInterval is how often one other member is probed.
	ProbeInterval = 200 * time.Millisecond
	// ProbeTimeout is how long the answer to a direct probe may take before others are asked to probe too.
	ProbeTimeout = 100 * time.Millisecond
	// SuspicionMult times the logarithm of the pool's size times ProbeInterval is how long a suspect may object.
	SuspicionMult = 3
	// GossipInterval is how often news is passed on.
	GossipInterval = 50 * time.Millisecond
	// StreamTimeout bounds a connection attempt and the exchange on it.
	StreamTimeout = 3 * time.Second
	// StateSyncInterval is how often the whole state is compared with one other member; memberlist stretches it in pools
	// of more than 32.
	StateSyncInterval = 15 * time.Second
	// ReconnectInterval is how often a failed member is tried again.
	ReconnectInterval = 10 * time.Second
	// DeadNodeReclaimTime is how long a member has to be dead before its id may come back on another address. Ids are
	// random and kept in the data directory, so only a copied directory makes a second owner. It is longer than members
	// take to agree on a death: one that still believes in the old address would bring it back.
	DeadNodeReclaimTime = 2 * time.Second
	// ForgetAfter is how long failed and left members are remembered.
	ForgetAfter = 24 * time.Hour
	// BroadcastTimeout bounds the wait until a message of ours has been passed on.
	BroadcastTimeout = 2 * time.Second
	// LeavePropagateDelay is how long a leaving member still answers, so that nobody takes it for failed.
	LeavePropagateDelay = time.Second
	// MinQueueDepth is how many messages may wait to be passed on; in larger pools it is twice their number.
	MinQueueDepth = 4096
)

// The join loop and limits of the configuration.
const (
	// FirstRejoinDelay is the time between the first and the second contact with the seeds; it doubles from there.
	FirstRejoinDelay = 250 * time.Millisecond
	// MasterRejoinDelay is the longest time between two contacts in the first MasterRejoinFor of a master: one that
	// returns on a new address is refused until its id can be reclaimed, and cannot tell. Masters are few.
	MasterRejoinDelay = time.Second
	MasterRejoinFor   = 15 * time.Second
	// RejoinInterval is the longest time between two contacts with the seeds, which go on for ever: pools that lost each
	// other find together again through them.
	RejoinInterval = 15 * time.Second
	// MaxSeeds bounds Config.Join.
	MaxSeeds = 64
	// MaxAddrsPerSeed bounds the addresses tried of one name.
	MaxAddrsPerSeed = 16
	// MaxKeys bounds the key ring.
	MaxKeys = 8
)

// poolLabel begins each packet and stream, so that agents of other systems on the same port are turned away at once.
const poolLabel = "hearth"

// Config is what a node needs to gossip. The zero values of optional fields are useful.
type Config struct {
	// NodeID is the node's id for life: letters, digits, '-' and '.', at most MaxIDBytes.
	NodeID string
	// BindHost and BindPort are where to listen, by packets and streams. An empty host means all interfaces, port 0 a free
	// one; [Gossip.LocalAddr] reports the result.
	BindHost string
	BindPort int
	// AdvertiseHost and AdvertisePort are what others are told, if different. A host name has to resolve where the others
	// are, not here; it must be the host of Tags.GRPCAddr, by which they know it. With a port but no host, the bound
	// address is advertised with that port.
	AdvertiseHost string
	AdvertisePort int
	// Tags is what to tell about this node at first. Tags.ID may be left empty.
	Tags Tags
	// Join lists seeds as "host:port". Names are resolved anew for each contact; the own address may be among them.
	Join []string
	// Keys are the gossip keys of 16, 24 or 32 bytes, the first one encrypts; none means no encryption.
	Keys [][]byte
	// KeyringFile keeps the keys as they were exchanged at run time, for the next start; empty means that they begin with
	// Keys each time. Without Keys there is no encryption and no file.
	KeyringFile string
	// Logger is required.
	Logger hclog.Logger
	// Rand gives the jitter of the join loop and is used by nothing else afterwards; nil means seeded from the clock.
	Rand *rand.Rand
	// Transport is the network, nil the real one.
	Transport Transport
	// Lookup resolves names, nil as the operating system does.
	Lookup LookupFunc
}

// Validate reports every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	fail := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
	}
	fail("node id", checkID(c.NodeID))
	if c.Tags.ID != "" && c.Tags.ID != c.NodeID {
		fail("tags", fmt.Errorf("id %q differs from the node id %q", c.Tags.ID, c.NodeID))
	}
	if checkID(c.NodeID) == nil {
		fail("tags", c.tags().Validate())
	}
	for field, port := range map[string]int{"bind port": c.BindPort, "advertise port": c.AdvertisePort} {
		if port < 0 || port > 65535 {
			fail(field, fmt.Errorf("%d: want 0 to 65535", port))
		}
	}
	if len(c.Join) > MaxSeeds {
		fail("join", fmt.Errorf("%d seeds, limit %d", len(c.Join), MaxSeeds))
	}
	for _, seed := range c.Join {
		fail("join", checkHostPort(seed))
	}
	if len(c.Keys) > MaxKeys {
		fail("keys", fmt.Errorf("%d keys, limit %d", len(c.Keys), MaxKeys))
	}
	for i, key := range c.Keys {
		if err := memberlist.ValidateKey(key); err != nil {
			fail("keys", fmt.Errorf("key %d has %d bytes: want 16, 24 or 32", i+1, len(key)))
		}
	}
	if c.Logger == nil {
		fail("logger", errors.New("missing"))
	}
	return errors.Join(errs...)
}

// tags returns the initial tags with the id filled in.
func (c Config) tags() Tags {
	t := c.Tags
	t.ID = c.NodeID
	return t
}

func (c Config) bindAddr() string { return net.JoinHostPort(c.BindHost, strconv.Itoa(c.BindPort)) }

// serfConfig builds the configuration of both libraries. c is valid.
func (c Config) serfConfig(w *wire, a *admission, events chan<- serf.Event, deaf func(id string)) (*serf.Config, error) {
	tags, err := encodeTags(c.tags())
	if err != nil {
		return nil, fmt.Errorf("encode tags of %s: %w", c.NodeID, err)
	}
	logger := c.Logger.StandardLogger(nil)
	logger.SetOutput(newLogWriter(c.Logger, deaf))

	m := memberlist.DefaultLANConfig()
	m.Name = c.NodeID
	m.Label = poolLabel
	m.Transport = w
	m.AdvertiseAddr = c.AdvertiseHost
	m.AdvertisePort = c.AdvertisePort
	m.ProbeInterval = ProbeInterval
	m.ProbeTimeout = ProbeTimeout
	m.SuspicionMult = SuspicionMult
	m.GossipInterval = GossipInterval
	m.TCPTimeout = StreamTimeout
	m.PushPullInterval = StateSyncInterval
	m.DeadNodeReclaimTime = DeadNodeReclaimTime
	m.Logger, m.LogOutput = logger, nil
	if len(c.Keys) > 0 {
		keys, err := openRing(c.KeyringFile, c.Keys)
		if err != nil {
			return nil, err
		}
		if m.Keyring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, fmt.Errorf("make key ring of %s: %w", c.NodeID, err)
		}
	}

	s := serf.DefaultConfig()
	s.NodeName = c.NodeID
	s.Tags = tags
	s.EventCh = events
	s.MemberlistConfig = m
	s.Merge = a
	s.Logger, s.LogOutput = logger, nil
	s.ValidateNodeNames = true
	// A node that returns on a new address conflicts with its own past; the vote of serf would shut it down.
	s.EnableNameConflictResolution = false
	s.ReconnectInterval = ReconnectInterval
	s.ReconnectTimeout = ForgetAfter
	s.TombstoneTimeout = ForgetAfter
	s.BroadcastTimeout = BroadcastTimeout
	s.LeavePropagateDelay = LeavePropagateDelay
	s.MinQueueDepth = MinQueueDepth
	if m.Keyring != nil {
		s.KeyringFile = c.KeyringFile
	}
	s.DisableCoordinates = true // nobody asks for network distances
	return s, nil
}
