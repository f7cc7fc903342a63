package tlsconf

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// FollowInterval is how often a standing connection is looked at, with a
	// fifth more or less, so that those made together do not end together.
	FollowInterval = 5 * time.Second
	// A connection whose certificate is good no more ends at a moment at which
	// nothing was said on it for quietFor, and after endAfter in any case. One
	// that was revoked ends at once.
	quietFor  = 50 * time.Millisecond
	quietPoll = 20 * time.Millisecond
	endAfter  = 2 * time.Second
)

// Follow returns a connection that is closed when the certificate of the peer is
// good no more: it has ended, was revoked, or its authority is trusted no more.
// The peer dials again, or is dialled, with the certificate that it has by then.
// cfg is the config of this package with which the connection was made, and state
// what was agreed on it.
func Follow(conn net.Conn, cfg *tls.Config, state func() tls.ConnectionState) net.Conn {
	if cfg == nil || cfg.VerifyConnection == nil {
		return conn
	}
	f := &followed{Conn: conn, cfg: cfg, state: state, own: any(Own(cfg))}
	f.used.Store(time.Now().UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(followPause(), f.look)
	return f
}

func followPause() time.Duration {
	return FollowInterval*4/5 + rand.N(FollowInterval*2/5)
}

// followed looks after itself by a timer; it has no goroutine.
type followed struct {
	net.Conn
	cfg   *tls.Config
	state func() tls.ConnectionState
	used  atomic.Int64 // when something was last read or written, in ns

	mu     sync.Mutex
	timer  *time.Timer
	own    any       // the certificate of this end at the last look: another one after each reload
	until  time.Time // when the peer's ends; zero before the handshake
	doomed time.Time // since when it is good no more
	closed bool
}

// Read reads.
func (f *followed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.used.Store(time.Now().UnixNano())
	return n, err
}

// Write writes.
func (f *followed) Write(p []byte) (int, error) {
	n, err := f.Conn.Write(p)
	f.used.Store(time.Now().UnixNano())
	return n, err
}

// Close closes.
func (f *followed) Close() error {
	f.mu.Lock()
	f.closed = true
	f.timer.Stop()
	f.mu.Unlock()
	return f.Conn.Close()
}

// look compares the certificate with the time and the files.
func (f *followed) look() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	now := time.Now()
	if f.doomed.IsZero() {
		if err := f.judge(now); err != nil {
			f.doomed = now
			if errors.Is(err, ErrRevoked) {
				f.doomed = now.Add(-endAfter)
			}
		}
	}
	switch quiet := now.Sub(time.Unix(0, f.used.Load())); {
	case f.doomed.IsZero():
		f.timer.Reset(followPause())
	case quiet < quietFor && now.Sub(f.doomed) < endAfter:
		f.timer.Reset(quietPoll)
	default:
		f.mu.Unlock()
		_ = f.Close() // the other end, and who reads here, see that it ended
		return
	}
	f.mu.Unlock()
}

// judge returns why the connection would not be made now. It verifies only if
// something may have changed.
func (f *followed) judge(now time.Time) error {
	own := any(Own(f.cfg))
	if own == f.own && !f.until.IsZero() && now.Before(f.until) {
		return nil
	}
	cs := f.state()
	if !cs.HandshakeComplete || len(cs.PeerCertificates) == 0 {
		return nil
	}
	if err := f.cfg.VerifyConnection(cs); err != nil {
		return err
	}
	f.own, f.until = own, cs.PeerCertificates[0].NotAfter
	return nil
}

// Still wraps a handler of a listener with a config of this package: a request on
// a connection whose certificate is good no more gets 401, and the connection is
// closed. net/http keeps connections open between requests.
func Still(next http.Handler, cfg *tls.Config) http.Handler {
	if cfg == nil || cfg.VerifyConnection == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			if err := cfg.VerifyConnection(*r.TLS); err != nil {
				w.Header().Set("Connection", "close")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
