package simnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
)

// rig is two hosts with an established connection from a to b; b listens on port 7000.
type rig struct {
	net      *simnet.Network
	listener net.Listener
	a, b     net.Conn
}

// inBubble runs test with a rig in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(rand.New(rand.NewSource(1)))
		l := listen(t, n.Host("b"), ":7000")
		a, err := n.Host("a").Dial(t.Context(), "b:7000")
		if err != nil {
			t.Fatalf("dial b: %v", err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatalf("accept on b: %v", err)
		}
		defer func() {
			_, _, _ = a.Close(), b.Close(), l.Close()
		}()
		test(t, &rig{net: n, listener: l, a: a, b: b})
	})
}

func listen(t *testing.T, h *simnet.Host, addr string) net.Listener {
	t.Helper()
	l, err := h.Listen(addr)
	if err != nil {
		t.Fatalf("listen on %s %s: %v", h.Name(), addr, err)
	}
	return l
}

func mustWrite(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatalf("write %q: %v", text, err)
	}
}

func mustRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read: got %q, %v; want %q", got, err, want)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

func wantElapsed(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Errorf("elapsed: got %v, want %v", got, want)
	}
}

func TestDataArrivesInOrderAfterTheLatency(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.SetLatency(5*time.Millisecond, 0)
		start := time.Now()
		mustWrite(t, r.a, "one ")
		r.net.SetLatency(time.Millisecond, 0)
		mustWrite(t, r.a, "two")
		mustRead(t, r.b, "one two")
		wantElapsed(t, start, 5*time.Millisecond)
	})
}

func TestDialTakesOneRoundTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.SetLinkLatency("a", "b", 30*time.Millisecond)
		r.net.SetLinkLatency("b", "a", 10*time.Millisecond)
		start := time.Now()
		c, err := r.net.Host("a").Dial(t.Context(), "b:7000")
		if err != nil {
			t.Fatal(err)
		}
		wantElapsed(t, start, 40*time.Millisecond)
		_ = c.Close()
	})
}

func TestReadDeadlineEndsAReadAndCanBeMovedWhileItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := time.Now()
		_ = r.a.SetReadDeadline(start.Add(3 * time.Second))
		_, err := r.a.Read(make([]byte, 1))
		wantErr(t, "read", err, os.ErrDeadlineExceeded)
		wantElapsed(t, start, 3*time.Second)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v, want a net.Error that is a timeout", err)
		}

		start = time.Now()
		_ = r.a.SetReadDeadline(start.Add(time.Hour))
		go func() {
			time.Sleep(time.Second)
			_ = r.a.SetReadDeadline(time.Now())
		}()
		_, err = r.a.Read(make([]byte, 1))
		wantErr(t, "read with a moved deadline", err, os.ErrDeadlineExceeded)
		wantElapsed(t, start, time.Second)

		_ = r.a.SetDeadline(time.Time{})
		mustWrite(t, r.b, "x")
		mustRead(t, r.a, "x")
	})
}

func TestAWriterWithoutReaderBlocksAtTheBufferLimitUntilItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := time.Now()
		_ = r.a.SetWriteDeadline(start.Add(2 * time.Second))
		n, err := r.a.Write(make([]byte, simnet.StreamBufferBytes+1))
		wantErr(t, "write", err, os.ErrDeadlineExceeded)
		wantElapsed(t, start, 2*time.Second)
		if n != simnet.StreamBufferBytes {
			t.Errorf("written: got %d, want %d", n, simnet.StreamBufferBytes)
		}
	})
}

func TestALargeTransferPassesTheBuffer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		want := make([]byte, 5*simnet.StreamBufferBytes+7)
		rand.New(rand.NewSource(2)).Read(want)
		go func() {
			_, _ = r.a.Write(want)
			_ = r.a.Close()
		}()
		got, err := io.ReadAll(r.b)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v; want the %d bytes written", len(got), err, len(want))
		}
	})
}

func TestAClosedConnectionDrainsThenEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		mustWrite(t, r.a, "last words")
		_ = r.a.Close()
		mustRead(t, r.b, "last words")
		_, err := r.b.Read(make([]byte, 1))
		wantErr(t, "read of the peer", err, io.EOF)
		_, err = r.b.Write([]byte("x"))
		wantErr(t, "write of the peer", err, syscall.EPIPE)
		_, err = r.a.Read(make([]byte, 1))
		wantErr(t, "own read", err, net.ErrClosed)
		_, err = r.a.Write([]byte("x"))
		wantErr(t, "own write", err, net.ErrClosed)
	})
}

func TestHalfCloseLeavesTheOtherDirectionOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if err := r.a.(*simnet.Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, err := r.b.Read(make([]byte, 1))
		wantErr(t, "read", err, io.EOF)
		mustWrite(t, r.b, "answer")
		mustRead(t, r.a, "answer")
	})
}

func TestCloseEndsAPendingReadAndWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		errs := make(chan error, 2)
		go func() { _, err := r.a.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := r.a.Write(make([]byte, 2*simnet.StreamBufferBytes)); errs <- err }()
		synctest.Wait()
		_ = r.a.Close()
		wantErr(t, "first pending call", <-errs, net.ErrClosed)
		wantErr(t, "second pending call", <-errs, net.ErrClosed)
	})
}

func TestAPartitionStallsAConnectionAndHealingResumesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := time.Now()
		r.net.Partition("a", "b")
		mustWrite(t, r.a, "delayed")
		_ = r.b.SetReadDeadline(start.Add(time.Minute))
		_, err := r.b.Read(make([]byte, 1))
		wantErr(t, "read while cut", err, os.ErrDeadlineExceeded)
		_ = r.b.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, r.net.Heal)
		mustRead(t, r.b, "delayed")
		wantElapsed(t, start, 2*time.Minute)
	})
}

func TestAOneWayCutStopsOneDirectionAndTheAcknowledgementsOfTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.CutOneWay("b", "a")
		mustWrite(t, r.a, "heard")
		mustRead(t, r.b, "heard")
		mustWrite(t, r.b, "unheard")
		_ = r.a.SetReadDeadline(time.Now().Add(time.Second))
		_, err := r.a.Read(make([]byte, 1))
		wantErr(t, "read against the cut", err, os.ErrDeadlineExceeded)

		go func() { _, _ = io.Copy(io.Discard, r.b) }()
		_ = r.a.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := r.a.Write(make([]byte, 2*simnet.StreamBufferBytes))
		wantErr(t, "write without acknowledgements", err, os.ErrDeadlineExceeded)
		if n > simnet.StreamBufferBytes {
			t.Errorf("written without acknowledgement: got %d bytes, want at most %d", n, simnet.StreamBufferBytes)
		}
		r.net.HealLink("a", "b")
		_ = r.a.SetDeadline(time.Now().Add(time.Minute))
		mustWrite(t, r.a, string(make([]byte, 2*simnet.StreamBufferBytes)))
		mustRead(t, r.a, "unheard")
		_ = r.a.Close()
	})
}

func TestADialThroughACutHangsUntilItsContextEndsOrTheLinkHeals(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, cut := range []func(){
			func() { r.net.CutOneWay("a", "b") },
			func() { r.net.CutOneWay("b", "a") },
			func() { r.net.Isolate("b") },
		} {
			cut()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := r.net.Host("a").Dial(ctx, "b:7000")
			cancel()
			wantErr(t, "dial", err, context.DeadlineExceeded)
			wantElapsed(t, start, 10*time.Second)
			r.net.Heal()
		}
		r.net.Partition("a", "b")
		start := time.Now()
		time.AfterFunc(time.Minute, r.net.Heal)
		c, err := r.net.Host("a").Dial(t.Context(), "b:7000")
		if err != nil {
			t.Fatalf("dial over a link that heals: %v", err)
		}
		wantElapsed(t, start, time.Minute)
		_ = c.Close()

		start = time.Now()
		_, err = r.net.Host("a").Dial(t.Context(), "10.0.200.1:7000")
		wantErr(t, "dial of an address nobody has", err, syscall.ETIMEDOUT)
		wantElapsed(t, start, simnet.ConnectTimeout)
	})
}

func TestDialsAreRefusedWhereNobodyListens(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.net.Host("a").Dial(t.Context(), "b:7001")
		wantErr(t, "dial of a free port", err, syscall.ECONNREFUSED)
		_ = r.listener.Close()
		_, err = r.net.Host("a").Dial(t.Context(), "b:7000")
		wantErr(t, "dial of a closed listener", err, syscall.ECONNREFUSED)
		_, err = r.listener.Accept()
		wantErr(t, "accept", err, net.ErrClosed)
		var dns *net.DNSError
		if _, err = r.net.Host("a").Dial(t.Context(), "nowhere:1"); !errors.As(err, &dns) || !dns.IsNotFound {
			t.Errorf("dial of an unknown name: got %v, want a DNS error", err)
		}
	})
}

func TestAFullBacklogMakesDialsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var conns []net.Conn
		for range simnet.AcceptBacklog {
			c, err := r.net.Host("a").Dial(t.Context(), "b:7000")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			if c, err := r.listener.Accept(); err == nil {
				_ = c.Close()
			}
		})
		c, err := r.net.Host("a").Dial(t.Context(), "b:7000")
		if err != nil {
			t.Fatal(err)
		}
		wantElapsed(t, start, time.Second)
		_ = r.listener.Close()
		_, err = c.Read(make([]byte, 1))
		wantErr(t, "read of a connection nobody accepted", err, syscall.ECONNRESET)
		for _, c := range append(conns, c) {
			_ = c.Close()
		}
	})
}
