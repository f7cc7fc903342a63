package raftnode

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// unreached is the error of a connection that could not be made at all.
type unreached struct{ error }

// Unwrap returns the reason.
func (u unreached) Unwrap() error { return u.error }

// againOnStale repeats a message that met a connection of before its receiver's
// restart. The library keeps up to transportPool of them for each peer and
// notices only when it uses one; an election has no second message to lose.
// Every message sent this way may arrive twice.
func againOnStale(send func() error) error {
	var err error
	for range transportPool + 1 {
		if err = send(); !isStale(err) {
			return err
		}
	}
	return err
}

// isStale reports whether an error is that of an established connection whose
// other end is gone: not of a dial, nor a time-out, nor the receiver's answer.
func isStale(err error) bool {
	var dial unreached
	var op *net.OpError
	switch {
	case err == nil, errors.As(err, &dial):
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	return errors.As(err, &op) && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}
