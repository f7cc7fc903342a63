package gossip

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// KeyIDBytes is how much of a key's SHA-256 names it, in bytes. Keys themselves are never shown.
const KeyIDBytes = 6

// Errors about keys.
var (
	// ErrNotEncrypted is returned where there is no key to change.
	ErrNotEncrypted = errors.New("gossip is not encrypted")
	// ErrNoKey is returned for the id of a key that this node does not have.
	ErrNoKey = errors.New("no such gossip key")
	// ErrMembersMissing is returned when not all members would take part in a change that cuts off those who do not.
	ErrMembersMissing = errors.New("not all members have the key")
)

// KeyID names a key without telling it.
func KeyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:KeyIDBytes])
}

// KeyHolders says how many members have a key.
type KeyHolders struct {
	ID      string
	Holders int // members that have it
	Primary int // members that encrypt with it
}

// KeyReport is what the members answered to a question or an order about keys.
type KeyReport struct {
	Keys []KeyHolders // after it, sorted by id
	// Members counts those that are there, Answered those of them that answered.
	Members  int
	Answered int
	// Problems says what members answered instead, by id, sorted.
	Problems []string
	// Absent are failed members: they have what they had, and may not be able to come back once another key is in use.
	Absent []string
}

// Keys asks all members which keys they have. It blocks until all have answered, or about a second.
func (g *Gossip) Keys() (KeyReport, error) {
	s, err := g.keyed()
	if err != nil {
		return KeyReport{}, fmt.Errorf("list gossip keys: %w", err)
	}
	g.keysMu.Lock()
	defer g.keysMu.Unlock()
	return g.listKeys(s)
}

func (g *Gossip) listKeys(s *serf.Serf) (KeyReport, error) {
	resp, err := s.KeyManager().ListKeys()
	if resp == nil || err != nil && resp.NumResp == 0 {
		return KeyReport{}, fmt.Errorf("list gossip keys: %w", err)
	}
	r := g.report(s, resp)
	for text, holders := range resp.Keys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			r.Problems = append(r.Problems, "a member answered a key that is none")
			continue
		}
		r.Keys = append(r.Keys, KeyHolders{ID: KeyID(key), Holders: holders, Primary: resp.PrimaryKeys[text]})
	}
	slices.SortFunc(r.Keys, func(a, b KeyHolders) int { return strings.Compare(a.ID, b.ID) })
	return r, nil
}

// report takes over what serf counted.
func (g *Gossip) report(s *serf.Serf, resp *serf.KeyResponse) KeyReport {
	r := KeyReport{Members: resp.NumNodes, Answered: resp.NumResp}
	for id, text := range resp.Messages {
		if strings.Contains(text, "key query response") { // serf repeats the bytes, which may be keys
			text = "its answer is malformed"
		}
		r.Problems = append(r.Problems, id+": "+text)
	}
	slices.Sort(r.Problems)
	for _, m := range s.Members() {
		if m.Status == serf.StatusFailed {
			r.Absent = append(r.Absent, m.Name)
		}
	}
	slices.Sort(r.Absent)
	return r
}

// InstallKey gives all members another key with which they can read. It changes nothing about what they send, so members
// that miss it are only reported: repeat it when they are back.
func (g *Gossip) InstallKey(key []byte) (KeyReport, error) {
	what := "install gossip key " + KeyID(key)
	if err := memberlist.ValidateKey(key); err != nil {
		return KeyReport{}, fmt.Errorf("%s: it has %d bytes: want 16, 24 or 32", what, len(key))
	}
	s, err := g.keyed()
	if err != nil {
		return KeyReport{}, fmt.Errorf("%s: %w", what, err)
	}
	g.keysMu.Lock()
	defer g.keysMu.Unlock()
	if ring := g.ring.GetKeys(); len(ring) >= MaxKeys && !slices.ContainsFunc(ring, func(k []byte) bool { return KeyID(k) == KeyID(key) }) {
		return KeyReport{}, fmt.Errorf("%s: there are %d keys, limit %d: remove one first", what, len(ring), MaxKeys)
	}
	return g.change(s, what, func(m *serf.KeyManager) (*serf.KeyResponse, error) {
		return m.InstallKey(base64.StdEncoding.EncodeToString(key))
	})
}

// UseKey makes all members encrypt with a key that they have, named by its id. Unless force, it is refused while a member
// does not have it, or is failed and may not have it: it could not read the others any more.
func (g *Gossip) UseKey(id string, force bool) (KeyReport, error) {
	return g.switchKey("use gossip key "+id, id, force, func(r KeyReport) error {
		return r.lacking(id)
	}, (*serf.KeyManager).UseKey)
}

// RemoveKey makes all members forget a key, named by its id. The one in use cannot be removed. Unless force, it is refused
// while a member still encrypts with it or is failed: it could not be read any more.
func (g *Gossip) RemoveKey(id string, force bool) (KeyReport, error) {
	return g.switchKey("remove gossip key "+id, id, force, func(r KeyReport) error {
		for _, k := range r.Keys {
			if k.ID == id && k.Primary > 0 {
				return fmt.Errorf("%w: %d of %d members encrypt with it: use another one first", ErrMembersMissing, k.Primary, r.Members)
			}
		}
		return r.absence()
	}, (*serf.KeyManager).RemoveKey)
}

// lacking says who does not have a key.
func (r KeyReport) lacking(id string) error {
	for _, k := range r.Keys {
		if k.ID == id && k.Holders < r.Members {
			return fmt.Errorf("%w: %d of %d members have it: install it again", ErrMembersMissing, k.Holders, r.Members)
		}
	}
	return r.absence()
}

// absence says who did not answer, or cannot.
func (r KeyReport) absence() error {
	switch {
	case len(r.Absent) > 0:
		return fmt.Errorf("%w: %s failed and may come back with other keys: wait for it, or force it", ErrMembersMissing, strings.Join(r.Absent, ", "))
	case r.Answered < r.Members:
		return fmt.Errorf("%w: %d of %d members answered: try again", ErrMembersMissing, r.Answered, r.Members)
	}
	return nil
}

// switchKey looks at who has what, judges, and gives the order.
func (g *Gossip) switchKey(what, id string, force bool, judge func(KeyReport) error, order func(*serf.KeyManager, string) (*serf.KeyResponse, error)) (KeyReport, error) {
	s, err := g.keyed()
	if err != nil {
		return KeyReport{}, fmt.Errorf("%s: %w", what, err)
	}
	g.keysMu.Lock()
	defer g.keysMu.Unlock()
	ring := g.ring.GetKeys()
	i := slices.IndexFunc(ring, func(k []byte) bool { return KeyID(k) == id })
	if i < 0 {
		return KeyReport{}, fmt.Errorf("%s: %w here", what, ErrNoKey)
	}
	before, err := g.listKeys(s)
	if err != nil {
		return KeyReport{}, fmt.Errorf("%s: %w", what, err)
	}
	if err := judge(before); err != nil && !force {
		return before, fmt.Errorf("%s: %w", what, err)
	}
	return g.change(s, what, func(m *serf.KeyManager) (*serf.KeyResponse, error) {
		return order(m, base64.StdEncoding.EncodeToString(ring[i]))
	})
}

// change gives an order and asks what came of it. That a member did not obey is in the report.
func (g *Gossip) change(s *serf.Serf, what string, order func(*serf.KeyManager) (*serf.KeyResponse, error)) (KeyReport, error) {
	resp, err := order(s.KeyManager())
	if resp == nil || err != nil && resp.NumResp == 0 {
		return KeyReport{}, fmt.Errorf("%s: %w", what, err)
	}
	done := g.report(s, resp)
	after, err := g.listKeys(s)
	if err != nil {
		return done, fmt.Errorf("%s: %w", what, err)
	}
	after.Problems = append(done.Problems, after.Problems...)
	after.Answered = min(after.Answered, done.Answered)
	return after, nil
}

// keyed returns serf if it runs and is encrypted.
func (g *Gossip) keyed() (*serf.Serf, error) {
	s, err := g.running()
	if err == nil && g.ring == nil {
		err = fmt.Errorf("%w: start the members with gossip.key_file", ErrNotEncrypted)
	}
	return s, err
}
