package gossip

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/hearthd/hearth/internal/atomicfile"
)

const (
	// maxKeyFileBytes bounds both kinds of files.
	maxKeyFileBytes = 64 << 10
	keyFileMode     = 0o600
	// originSuffix follows the name of a ring's file; the file says from which keys the ring has begun.
	originSuffix = ".from"
)

// ReadKeyFile reads keys in base64, one a line, the first one encrypts. Lines that are empty or begin with # are
// skipped. A file that others can read or write is refused.
func ReadKeyFile(path string) ([][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read gossip keys: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular() || info.Size() > maxKeyFileBytes:
		return nil, fmt.Errorf("read gossip keys: %s: must be a regular file of at most %d bytes", path, maxKeyFileBytes)
	case mode.Perm()&0o077 != 0:
		return nil, fmt.Errorf("read gossip keys: %s: must be readable by its user only (mode %04o): chmod 600 %s, and take the key for known to others", path, mode.Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read gossip keys: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read gossip keys: %s: %w", path, err)
	}
	return keys, nil
}

// ParseKeys is ReadKeyFile for what is in the file. Errors never repeat it.
func ParseKeys(text []byte) ([][]byte, error) {
	var keys [][]byte
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || memberlist.ValidateKey(key) != nil {
			return nil, fmt.Errorf("line %d: must be 16, 24 or 32 bytes in base64, as hearth operator gossip keys generate makes them", i+1)
		}
		if keys = append(keys, key); len(keys) > MaxKeys {
			return nil, fmt.Errorf("must hold at most %d keys", MaxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("must hold at least one key")
	}
	return keys, nil
}

// origin names a list of keys without telling them.
func origin(keys [][]byte) string {
	h := sha256.New()
	for _, k := range keys {
		h.Write(k)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// openRing returns the keys to begin with and leaves them in the ring's file, which serf rewrites after each change. The
// ring of the last run counts, because keys may have been exchanged since the key file was written; unless the key file
// was changed since then: that is how a member is brought back which has missed an exchange. Its keys then come first.
func openRing(path string, configured [][]byte) ([][]byte, error) {
	if path == "" || len(configured) == 0 {
		return configured, nil
	}
	from := origin(configured)
	ring, err := readRing(path)
	if err != nil {
		return nil, err
	}
	before, err := os.ReadFile(path + originSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read where the gossip keys come from: %w", err)
	}
	if len(ring) == 0 || strings.TrimSpace(string(before)) != from {
		old := ring
		ring = slices.Clone(configured)
		for _, key := range old {
			if len(ring) < MaxKeys && !slices.ContainsFunc(ring, func(k []byte) bool { return bytes.Equal(k, key) }) {
				ring = append(ring, key)
			}
		}
	}
	text := make([]string, len(ring))
	for i, key := range ring {
		text[i] = base64.StdEncoding.EncodeToString(key)
	}
	data, err := json.MarshalIndent(text, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode gossip keys: %w", err)
	}
	if err := errors.Join(atomicfile.Write(path, data, keyFileMode), atomicfile.Write(path+originSuffix, []byte(from+"\n"), keyFileMode)); err != nil {
		return nil, fmt.Errorf("keep gossip keys: %w", err)
	}
	return ring, nil
}

// readRing reads the file that serf writes; none is no key.
func readRing(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read gossip keys: %w", err)
	}
	var lines []string
	if len(text) > maxKeyFileBytes || json.Unmarshal(text, &lines) != nil {
		return nil, fmt.Errorf("read gossip keys: %s: must be a list of keys, as it was written: delete it to begin with gossip.key_file again", path)
	}
	keys, err := ParseKeys([]byte(strings.Join(lines, "\n")))
	if err != nil {
		return nil, fmt.Errorf("read gossip keys: %s: %w: delete it to begin with gossip.key_file again", path, err)
	}
	return keys, nil
}
