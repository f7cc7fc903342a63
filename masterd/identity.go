package masterd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/internal/datadir"
	"github.com/hearthd/hearth/model"
)

// promise is a master's persisted word that only From will found a cluster
// with this identity and these members (design 4).
type promise struct {
	From    model.MasterID        `json:"from"`
	Cluster model.ClusterIdentity `json:"cluster"`
	Members []model.MasterID      `json:"members"`
}

// identityRecord is the content of identity.json.
type identityRecord struct {
	ID      model.MasterID        `json:"id"`
	Cluster model.ClusterIdentity `json:"cluster"`
	Promise *promise              `json:"promise,omitempty"`
	// Seed is that of the Ed25519 key by which this master proves itself to the
	// others (ADR 0040).
	Seed []byte `json:"seed"`
}

// identity is who this master is and which cluster it belongs to. It is safe
// for concurrent use; each change is on disk before the method returns.
type identity struct {
	path string
	lock *os.File

	key ed25519.PrivateKey // fixed when it is opened

	mu  sync.Mutex
	rec identityRecord
}

// openIdentity locks the data directory and reads or makes the identity. A
// second process on the same directory gets an error that says so.
func openIdentity(dir string) (*identity, error) {
	if err := datadir.Claim(dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by another process; give each master its own --data-dir", dir), lock.Close())
	}
	id := &identity{path: filepath.Join(dir, "identity.json"), lock: lock}
	if err := id.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return id, nil
}

func (i *identity) load() error {
	b, err := os.ReadFile(i.path)
	if errors.Is(err, fs.ErrNotExist) {
		i.rec = identityRecord{ID: model.MasterID("master-" + randomHex(6))}
		return i.makeKey()
	}
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	if err := json.Unmarshal(b, &i.rec); err != nil {
		return fmt.Errorf("read identity %s: %w; set the data directory aside and let the master join anew", i.path, err)
	}
	if i.rec.ID == "" {
		return fmt.Errorf("read identity %s: it names no master; set the data directory aside and let the master join anew", i.path)
	}
	switch len(i.rec.Seed) {
	case 0: // from before masters had keys
		return i.makeKey()
	case ed25519.SeedSize:
		i.key = ed25519.NewKeyFromSeed(i.rec.Seed)
		return nil
	}
	return fmt.Errorf("read identity %s: its seed has %d bytes, want %d; set the data directory aside and let the master join anew", i.path, len(i.rec.Seed), ed25519.SeedSize)
}

// makeKey makes the key by which this master proves itself, and persists it.
func (i *identity) makeKey() error {
	i.rec.Seed = make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(i.rec.Seed) // crypto/rand.Read never fails (Go 1.24)
	i.key = ed25519.NewKeyFromSeed(i.rec.Seed)
	return i.saveLocked()
}

// PublicKey is what others know this master by; see model.Master.Key.
func (i *identity) PublicKey() string { return string(i.key.Public().(ed25519.PublicKey)) }

// Sign signs with this master's key.
func (i *identity) Sign(statement []byte) []byte { return ed25519.Sign(i.key, statement) }

// saveLocked makes the record durable.
func (i *identity) saveLocked() error {
	b, err := json.MarshalIndent(i.rec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := atomicfile.Write(i.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// ID returns the master's id.
func (i *identity) ID() model.MasterID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec.ID
}

// Current is the cluster this master belongs to, or, before that is settled,
// the one it has promised itself to; zero if neither.
func (i *identity) Current() model.ClusterIdentity {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rec.Cluster.IsZero() && i.rec.Promise != nil {
		return i.rec.Promise.Cluster
	}
	return i.rec.Cluster
}

// Settled is the cluster this master belongs to; zero before it has joined.
func (i *identity) Settled() model.ClusterIdentity {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec.Cluster
}

// Promised returns the promise given, nil if none.
func (i *identity) Promised() *promise {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec.Promise
}

// Check reports whether a peer of another claimed identity may talk to this
// master over Raft.
func (i *identity) Check(peer model.ClusterIdentity, _ model.MasterID) error {
	return i.Current().Accepts(peer)
}

// Promise persists a promise, replacing an earlier one.
func (i *identity) Promise(p promise) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.rec.Promise
	i.rec.Promise = &p
	if err := i.saveLocked(); err != nil {
		i.rec.Promise = old
		return err
	}
	return nil
}

// Settle persists the cluster this master belongs to. Another cluster id than
// an earlier one is refused.
func (i *identity) Settle(c model.ClusterIdentity) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rec.Cluster == c {
		return nil
	}
	if err := i.rec.Cluster.Accepts(c); err != nil {
		return err
	}
	i.rec.Cluster = c
	i.rec.Promise = nil
	return i.saveLocked()
}

// Close frees the data directory.
func (i *identity) Close() error { return i.lock.Close() }

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails (Go 1.24)
	return hex.EncodeToString(b)
}

// newCluster makes the identity of a new cluster.
func newCluster() model.ClusterIdentity {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return model.ClusterIdentity{ID: "hearth-" + randomHex(8), Epoch: 1, EpochID: binary.BigEndian.Uint64(b[:])}
}
