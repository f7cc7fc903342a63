package model

import (
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// MaxProgramBytes bounds the executable of an application's executors.
const MaxProgramBytes = 1 << 30

// DigestBytes is the length of a content's digest (SHA-256) in hexadecimal.
const DigestBytes = 64

// Program names the executable that the executors of an application run. Its
// bytes never pass through a master: a worker fetches them from the driver,
// once for each digest (design 8, ADR 0024).
type Program struct {
	SHA256 string // lower-case hexadecimal; "" = no program
	Bytes  int64  // size
	// Path is an absolute path on workers; a file there with the right digest
	// is taken instead of the driver's. "" = none.
	Path string
}

// Set reports whether there is a program.
func (p Program) Set() bool { return p != Program{} }

// String names the program in messages, with as much of its digest as a person
// compares.
func (p Program) String() string {
	if len(p.SHA256) != DigestBytes {
		return "program " + p.SHA256
	}
	return "program sha256:" + p.SHA256[:12]
}

// ValidDigest checks a SHA-256 digest in lower-case hexadecimal; wraps
// ErrInvalid.
func ValidDigest(digest string) error {
	if _, err := hex.DecodeString(digest); err != nil || len(digest) != DigestBytes || strings.ToLower(digest) != digest {
		return fmt.Errorf("%w: digest %q: must be SHA-256 as %d lower-case hexadecimal digits", ErrInvalid, digest, DigestBytes)
	}
	return nil
}

func (p Program) validate() []error {
	if !p.Set() {
		return nil
	}
	var errs []error
	if err := ValidDigest(p.SHA256); err != nil {
		errs = append(errs, fmt.Errorf("program: %w", err))
	}
	if p.Bytes < 1 || p.Bytes > MaxProgramBytes {
		errs = append(errs, fmt.Errorf("%w: program: %d bytes: must be between 1 and %d", ErrInvalid, p.Bytes, MaxProgramBytes))
	}
	if p.Path != "" && (!path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path || strings.ContainsRune(p.Path, 0)) {
		errs = append(errs, fmt.Errorf("%w: program: path %q: must be absolute and clean", ErrInvalid, p.Path))
	}
	return errs
}
