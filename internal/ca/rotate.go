package ca

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/internal/datadir"
)

// The exchange of an authority takes three steps, with a renewal of every
// node's directory after each. At any time all members trust what any of them
// shows.
//
//	StartRotation    both are trusted, the old one signs
//	SwitchRotation   both are trusted, the new one signs
//	FinishRotation   the new one is trusted

// ErrRotation is wrapped when a step is asked for out of order.
var ErrRotation = errors.New("step of the exchange out of order")

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) has(name string) (bool, error) {
	_, err := os.Lstat(a.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// demand returns an error unless exactly the wanted one of the two keys of an
// exchange is there.
func (a *Authority) demand(next, old bool, hint string) error {
	hasNext, err := a.has(nextKeyFile)
	if err != nil {
		return err
	}
	hasOld, err := a.has(oldKeyFile)
	if err != nil {
		return err
	}
	if hasNext != next || hasOld != old {
		return fmt.Errorf("%w: %s", ErrRotation, hint)
	}
	return nil
}

// StartRotation makes a second authority. Both are trusted from the next renewal
// on; certificates are still signed by the old one.
func (a *Authority) StartRotation(lifetime time.Duration) error {
	if err := errors.Join(checkLifetime(lifetime), a.demand(false, false, "an exchange is under way already: hearth ca rotate switch or finish comes next")); err != nil {
		return fmt.Errorf("start exchange of authority: %w", err)
	}
	cert, key, err := a.newRoot(lifetime)
	if err != nil {
		return err
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return err
	}
	bundle := append([]*x509.Certificate{cert}, a.bundle...)
	// The bundle last: without the certificate the key means nothing.
	if err := writeNew(a.path(nextKeyFile), keyText); err != nil {
		return fmt.Errorf("start exchange of authority: %w", err)
	}
	if err := atomicfile.Write(a.path(BundleFile), encodeCerts(bundle), datadir.FileMode); err != nil {
		return errors.Join(fmt.Errorf("start exchange of authority: %w", err), os.Remove(a.path(nextKeyFile)))
	}
	a.bundle = bundle
	return nil
}

// SwitchRotation lets the new authority sign from now on.
func (a *Authority) SwitchRotation() error {
	if err := a.demand(true, false, "hearth ca rotate start comes first"); err != nil {
		return fmt.Errorf("switch to the new authority: %w", err)
	}
	next, err := readKey(a.path(nextKeyFile))
	if err != nil {
		return fmt.Errorf("switch to the new authority: %w", err)
	}
	i := slices.IndexFunc(a.bundle, func(c *x509.Certificate) bool { return next.PublicKey.Equal(c.PublicKey) })
	if i < 0 {
		return fmt.Errorf("switch to the new authority: %s: its certificate must be in %s", a.path(nextKeyFile), BundleFile)
	}
	// A link keeps the old key under its second name while the first is replaced.
	if err := os.Link(a.path(KeyFile), a.path(oldKeyFile)); err != nil {
		return fmt.Errorf("switch to the new authority: %w", err)
	}
	if err := os.Rename(a.path(nextKeyFile), a.path(KeyFile)); err != nil {
		return errors.Join(fmt.Errorf("switch to the new authority: %w", err), os.Remove(a.path(oldKeyFile)))
	}
	if err := atomicfile.SyncDir(a.dir); err != nil {
		return fmt.Errorf("switch to the new authority: %w", err)
	}
	a.key, a.signer = next, a.bundle[i]
	return nil
}

// FinishRotation ends the trust in the old authority and deletes its key.
func (a *Authority) FinishRotation() error {
	if err := a.demand(false, true, "hearth ca rotate switch comes first"); err != nil {
		return fmt.Errorf("finish exchange of authority: %w", err)
	}
	bundle := []*x509.Certificate{a.signer}
	if err := atomicfile.Write(a.path(BundleFile), encodeCerts(bundle), datadir.FileMode); err != nil {
		return fmt.Errorf("finish exchange of authority: %w", err)
	}
	if err := os.Remove(a.path(oldKeyFile)); err != nil {
		return fmt.Errorf("finish exchange of authority: delete the old key: %w", err)
	}
	a.bundle = bundle
	if err := a.forgetRevoked(); err != nil {
		return fmt.Errorf("finish exchange of authority: %w", err)
	}
	return nil
}
