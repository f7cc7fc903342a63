package model

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Role is what a person may do. Each includes those before it (ADR 0028).
type Role string

// Roles of people, and "" for somebody who may do nothing.
const (
	RoleNone      Role = ""
	RoleViewer    Role = "viewer"    // reads
	RoleSubmitter Role = "submitter" // registers applications and ends its own
	RoleOperator  Role = "operator"  // everything
)

// Roles lists the roles of people, the least first.
func Roles() []Role { return []Role{RoleViewer, RoleSubmitter, RoleOperator} }

// Includes reports whether holding r allows what needs the role want.
func (r Role) Includes(want Role) bool {
	return slices.Index(Roles(), r) >= slices.Index(Roles(), want)
}

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if !slices.Contains(Roles(), Role(s)) {
		return RoleNone, fmt.Errorf("%w: role %q: must be %s, %s or %s", ErrInvalid, s, RoleViewer, RoleSubmitter, RoleOperator)
	}
	return Role(s), nil
}

// Secret is a text that must be shown nowhere: printing with any verb (but %p and
// %w, which vet refuses for it), logging and encoding it as JSON or text shows a
// placeholder. Reveal gives the text itself.
type Secret string

const hidden = "[secret]"

// String is a placeholder, or "" for no secret at all.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for those who call it.
func (s Secret) GoString() string { return s.String() }

// Format writes String whatever the verb: with a verb that is wrong for texts,
// such as %d, package fmt would fall back on the text itself.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is String, for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON is String as JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Reveal is the secret itself, for the wire and for files of mode 0600.
func (s Secret) Reveal() string { return string(s) }

// Is compares in constant time.
func (s Secret) Is(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s), []byte(other)) == 1
}

const (
	// bearerPrefix makes tokens recognisable to people and to programs that
	// look for leaked secrets.
	bearerPrefix = "hearth_"
	bearerBytes  = 32
	// MaxBearerBytes bounds a token as text, before it is looked at.
	MaxBearerBytes = 128
)

// NewBearer makes the secret of a token of 256 bits from random.
func NewBearer(random io.Reader) (Secret, error) {
	var raw [bearerBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return Secret(bearerPrefix + base64.RawURLEncoding.EncodeToString(raw[:])), nil
}

// ParseBearer checks that a text has the form of a token's secret. The error
// does not repeat it.
func ParseBearer(s string) (Secret, error) {
	body, ok := strings.CutPrefix(s, bearerPrefix)
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(body); !ok || len(s) > MaxBearerBytes || err != nil || len(raw) != bearerBytes {
		return "", fmt.Errorf("%w: a token is %q and %d characters of letters, digits, '-' and '_'; this is something else (%d bytes)",
			ErrInvalid, bearerPrefix, base64.RawURLEncoding.EncodedLen(bearerBytes), len(s))
	}
	return Secret(s), nil
}

// TokenHash is SHA-256 of a token's secret: what the cluster keeps of it. The
// secret has 256 random bits, so nothing is gained by a slow hash.
type TokenHash [sha256.Size]byte

// HashBearer hashes a token's secret.
func HashBearer(s Secret) TokenHash { return sha256.Sum256([]byte(s)) }

// ID is the name of the token with this hash: the beginning of the hash, which
// tells nothing about the secret.
func (h TokenHash) ID() TokenID { return TokenID("token-" + hex.EncodeToString(h[:6])) }

// TokenID names a token in lists and in the audit trail.
type TokenID string

// Token is the replicated record of a person's token. The secret itself is
// known to its holder only.
type Token struct {
	ID   TokenID
	Name string // the principal: who acts with it
	Role Role
	Hash TokenHash
	// ExpiresTick is the cluster clock, in ms, from which on it is refused; 0 =
	// never. A wall clock that jumps changes nothing.
	ExpiresTick int64
	ExpiresWall int64 // ms since 1970, for display; 0 = never
	CreatedWall int64 // ms since 1970, for display
	CreatedBy   string
	ChangeIndex uint64
}

// Clone returns a copy.
func (t *Token) Clone() *Token { c := *t; return &c }

// Expired reports whether the token is refused at this cluster clock.
func (t *Token) Expired(tick int64) bool { return t.ExpiresTick != 0 && tick >= t.ExpiresTick }

// ValidTokenName checks the name of a token's holder. Names of the cluster's own
// parts are reserved, so that the audit trail is not ambiguous.
func ValidTokenName(s string) error {
	if s == "" || len(s) > MaxTokenNameBytes {
		return fmt.Errorf("%w: name of a token: %d bytes, want 1 to %d", ErrInvalid, len(s), MaxTokenNameBytes)
	}
	for _, r := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@", r) {
			return fmt.Errorf("%w: name of a token %q: must be letters, digits, '.', '-', '_' and '@'", ErrInvalid, s)
		}
	}
	if s == "master" || strings.HasPrefix(s, "worker-") || strings.HasPrefix(s, "app-") || strings.HasPrefix(s, "driver-") {
		return fmt.Errorf("%w: name of a token %q: is a name of the cluster's own parts", ErrInvalid, s)
	}
	return nil
}

// TokenView is one line of `hearth token list`.
type TokenView struct {
	ID        TokenID `json:"id"`
	Name      string  `json:"name"`
	Role      Role    `json:"role"`
	Active    bool    `json:"active"` // it is accepted
	ExpiresAt string  `json:"expires_at"`
	// ExpiresIn is what is left by the cluster clock; 0 = never, or over.
	ExpiresIn int64  `json:"expires_in_ms"`
	CreatedAt string `json:"created_at"`
	CreatedBy string `json:"created_by"`
}
