package simnet_test

import (
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/simnet"
)

func TestACrashResetsConnectionsAndRefusesDials(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		dead := r.net.Host("b")
		mustWrite(t, r.b, "before")
		r.net.Crash("b")
		mustRead(t, r.a, "before")
		_, err := r.a.Read(make([]byte, 1))
		wantErr(t, "read of the survivor", err, syscall.ECONNRESET)
		_, err = r.a.Write([]byte("x"))
		wantErr(t, "write of the survivor", err, syscall.ECONNRESET)
		_, err = r.listener.Accept()
		wantErr(t, "accept of the dead", err, net.ErrClosed)
		_, err = r.net.Host("a").Dial(t.Context(), "b:7000")
		wantErr(t, "dial", err, syscall.ECONNREFUSED)
		if _, err = dead.Dial(t.Context(), "a:1"); err == nil {
			t.Error("the dead host can dial")
		}

		l := listen(t, r.net.Restart("b"), ":7000")
		c, err := r.net.Host("a").Dial(t.Context(), "b:7000")
		if err != nil {
			t.Fatalf("dial after restart: %v", err)
		}
		if _, err = dead.Listen(":7001"); err == nil {
			t.Error("the handle from before the crash can listen")
		}
		_, _ = c.Close(), l.Close()
	})
}

func TestAMachineThatLosesPowerIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.Isolate("b")
		r.net.Crash("b")
		_ = r.a.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := r.a.Read(make([]byte, 1))
		wantErr(t, "read", err, os.ErrDeadlineExceeded)
		_, err = r.net.Host("a").DialTimeout("b:7000", time.Second)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("dial: got %v, want a timeout", err)
		}
		r.net.Rejoin("b")
		_ = r.a.SetReadDeadline(time.Time{})
		_, err = r.a.Read(make([]byte, 1))
		wantErr(t, "read once the machine is back", err, syscall.ECONNRESET)
	})
}

func TestLossDelaysStreamsButLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.SetLoss(0.3)
		start := time.Now()
		go func() {
			for i := range 100 {
				_, _ = fmt.Fprintf(r.a, "%03d", i)
			}
		}()
		for i := range 100 {
			mustRead(t, r.b, fmt.Sprintf("%03d", i))
		}
		if got := time.Since(start); got < simnet.SegmentRetransmit {
			t.Errorf("elapsed: got %v, want at least one retransmission", got)
		}
	})
}

func TestBindingIsCheckedLikeAKernelDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.net.Host("a")
		_, err := r.net.Host("b").Listen(":7000")
		wantErr(t, "listen twice", err, syscall.EADDRINUSE)
		_, err = a.Listen("b:1")
		wantErr(t, "listen on the address of another", err, syscall.EADDRNOTAVAIL)

		local := listen(t, a, "127.0.0.1:0")
		addr := local.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		c, err := a.Dial(t.Context(), addr)
		if err != nil {
			t.Fatalf("dial over loopback: %v", err)
		}
		_, err = r.net.Host("b").Dial(t.Context(), "a:"+port)
		wantErr(t, "dial of a loopback listener from elsewhere", err, syscall.ECONNREFUSED)
		_, _ = c.Close(), local.Close()
	})
}

// sockets opens a datagram socket on each of two hosts.
func sockets(t *testing.T, n *simnet.Network) (a, b net.PacketConn) {
	t.Helper()
	a, err := n.Host("a").ListenPacket(":0")
	if err != nil {
		t.Fatal(err)
	}
	b, err = n.Host("b").ListenPacket(":9000")
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// drain counts the datagrams that arrive within a second.
func drain(p net.PacketConn) int {
	_ = p.SetReadDeadline(time.Now().Add(time.Second))
	buf, count := make([]byte, 64), 0
	for {
		if _, _, err := p.ReadFrom(buf); err != nil {
			return count
		}
		count++
	}
}

func TestDatagramsArriveWithTheirSender(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := sockets(t, r.net)
		if _, err := a.WriteTo([]byte("hello"), b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 3)
		n, from, err := b.ReadFrom(buf)
		if err != nil || string(buf[:n]) != "hel" {
			t.Errorf("got %q, %v; want the part that fits", buf[:n], err)
		}
		if diff := cmp.Diff(a.LocalAddr().String(), from.String()); diff != "" {
			t.Errorf("sender (-want +got):\n%s", diff)
		}
		_, err = a.WriteTo(make([]byte, simnet.MaxDatagramBytes+1), b.LocalAddr())
		wantErr(t, "write of an oversized datagram", err, syscall.EMSGSIZE)
		_ = a.Close()
		_, err = a.WriteTo([]byte("x"), b.LocalAddr())
		wantErr(t, "write after close", err, net.ErrClosed)
		_, _, err = a.ReadFrom(buf)
		wantErr(t, "read after close", err, net.ErrClosed)
		_ = b.Close()
	})
}

func TestDatagramsAreDroppedAndNeverBlockTheSender(t *testing.T) {
	const sent = 2 * simnet.PacketQueueLen
	tests := map[string]struct {
		fault func(n *simnet.Network)
		check func(got int, s simnet.Stats) bool
	}{
		"a full queue drops the rest": {
			func(*simnet.Network) {},
			func(got int, s simnet.Stats) bool {
				return got == simnet.PacketQueueLen && s.PacketsOverflowed == sent-simnet.PacketQueueLen
			},
		},
		"a cut direction swallows all": {
			func(n *simnet.Network) { n.CutOneWay("a", "b") },
			func(got int, s simnet.Stats) bool { return got == 0 && s.PacketsLost == sent },
		},
		"the other direction does not matter": {
			func(n *simnet.Network) { n.CutOneWay("b", "a") },
			func(got int, _ simnet.Stats) bool { return got == simnet.PacketQueueLen },
		},
		"loss takes its share": {
			func(n *simnet.Network) { n.SetLoss(0.9) },
			func(got int, s simnet.Stats) bool {
				return got > sent/20 && got < sent/5 && s.PacketsLost == sent-uint64(got)
			},
		},
		"a firewall for datagrams swallows all": {
			func(n *simnet.Network) { n.SetDatagramLoss(1) },
			func(got int, s simnet.Stats) bool { return got == 0 && s.PacketsLost == sent },
		},
		"cut datagrams swallow all": {
			func(n *simnet.Network) { n.CutDatagrams("a", "b") },
			func(got int, s simnet.Stats) bool { return got == 0 && s.PacketsLost == sent },
		},
		"a crashed host hears nothing": {
			func(n *simnet.Network) { n.Crash("b") },
			func(got int, s simnet.Stats) bool { return got == 0 && s.PacketsUnheard == sent },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				a, b := sockets(t, r.net)
				tt.fault(r.net)
				for range sent {
					if _, err := a.WriteTo([]byte("x"), b.LocalAddr()); err != nil {
						t.Fatal(err)
					}
				}
				got := drain(b)
				if s := r.net.Stats(); !tt.check(got, s) {
					t.Errorf("received %d of %d, stats %+v", got, sent, s)
				}
				_, _ = a.Close(), b.Close()
			})
		})
	}
}

func TestCutDatagramsLeaveStreamsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.net.CutDatagrams("a", "b")
		mustWrite(t, r.a, "through")
		mustRead(t, r.b, "through")
	})
}

func TestAPauseHoldsEverythingAndLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := sockets(t, r.net)
		r.net.Pause("b")
		for range 10 {
			if _, err := a.WriteTo([]byte("x"), b.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		mustWrite(t, r.a, "held")
		_ = r.b.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := r.b.Read(make([]byte, 1))
		wantErr(t, "read during the pause", err, os.ErrDeadlineExceeded)
		if got := drain(b); got != 0 {
			t.Errorf("%d datagrams arrived during the pause", got)
		}
		r.net.Resume("b")
		_ = r.b.SetReadDeadline(time.Time{})
		mustRead(t, r.b, "held")
		if got := drain(b); got != 10 {
			t.Errorf("%d of 10 datagrams arrived after the pause", got)
		}
		_, _ = a.Close(), b.Close()
	})
}

func TestSplitCutsBetweenGroupsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(rand.New(rand.NewSource(1)))
		names := []string{"a", "b", "c", "free"}
		var listeners []net.Listener
		for _, name := range names {
			listeners = append(listeners, listen(t, n.Host(name), ":1"))
		}
		n.Split([]string{"a", "b"}, []string{"c"})
		got := map[string]bool{}
		for _, to := range []string{"b", "c", "free"} {
			c, err := n.Host("a").DialTimeout(to+":1", time.Second)
			got[to] = err == nil
			if err == nil {
				_ = c.Close()
			}
		}
		if diff := cmp.Diff(map[string]bool{"b": true, "c": false, "free": true}, got); diff != "" {
			t.Errorf("reachable from a (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(names, n.Hosts()); diff != "" {
			t.Errorf("hosts (-want +got):\n%s", diff)
		}
		for _, l := range listeners {
			_ = l.Close()
		}
	})
}

func TestItWorksInRealTime(t *testing.T) {
	n := simnet.New(nil)
	l := listen(t, n.Host("b"), ":0")
	defer l.Close()
	c, err := n.Host("a").DialTimeout(l.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustWrite(t, c, "ping")
	mustRead(t, s, "ping")
}
