package gossip

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
)

// hostileLimit bounds one exchange with the member under attack.
const hostileLimit = 5 * time.Second

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// attack hands bytes to a member as a packet and as a stream, and waits until it has closed the stream.
func attack(t *testing.T, addr string, data []byte) {
	t.Helper()
	packets, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if len(data) < 60000 {
		if _, err := packets.Write(data); err != nil {
			t.Fatalf("send packet: %v", err)
		}
	}
	conn, err := net.DialTimeout("tcp", addr, hostileLimit)
	if err != nil {
		t.Fatalf("the member does not accept streams any more: %v", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(hostileLimit)); err != nil {
		t.Fatal(err)
	}
	// The member may hang up while we write; only an answer that never ends would be wrong.
	if _, err := conn.Write(data); err == nil {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(conn, 16<<20)); err != nil {
		if isTimeout(err) {
			t.Fatalf("the member kept the stream open for %v", hostileLimit)
		}
	}
}

// FuzzHostileFrames gives arbitrary bytes to the packet and stream listeners of a real member, as they are and behind
// the label that lets them through to the decoders. A panic in the library ends the process; the membership must stay.
func FuzzHostileFrames(f *testing.F) {
	for _, seed := range [][]byte{
		{},
		{0},
		{244},
		{244, 0},
		{244, 6, 'h', 'e'},
		{255, 255, 255, 255},
		{7},                    // compound without a body
		{7, 255, 0, 1},         // compound that claims 255 parts
		{7, 2, 0, 1, 255, 255}, // compound whose parts exceed the packet
		{9, 0x81},              // compressed, truncated
		{9, 0x82, 0xa4, 'A', 'l', 'g', 'o', 0, 0xa3, 'B', 'u', 'f', 0xc4, 2, 1, 2},
		{10, 1, 2, 3},          // encrypted for a member without keys
		{12, 0, 0, 0, 0, 4, 1}, // wrong checksum
		{6, 0x83, 0xa5, 'N', 'o', 'd', 'e', 's', 0xce, 0x7f, 0xff, 0xff, 0xff},                          // state of 2^31 nodes
		{8, 0x81, 0xaa, 'U', 's', 'e', 'r', 'M', 's', 'g', 'L', 'e', 'n', 0xce, 0x7f, 0xff, 0xff, 0xff}, // huge user message
		{3, 0x84, 0xa4, 'N', 'o', 'd', 'e', 0xa4, 'e', 'v', 'i', 'l'},                                   // alive, truncated
		{4, 0x83, 0xa4, 'N', 'o', 'd', 'e', 0xa6, 'v', 'i', 'c', 't', 'i', 'm'},                         // dead, truncated
	} {
		f.Add(seed)
	}
	cfg := worker("victim", clusterA)
	g, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	if err := g.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = g.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		attack(t, g.LocalAddr(), data)
		labelled, err := memberlist.AddLabelHeaderToPacket(data, poolLabel)
		if err != nil {
			t.Fatal(err)
		}
		attack(t, g.LocalAddr(), labelled)
		if diff := cmp.Diff(map[string]Status{"victim": StatusAlive}, seen(g)); diff != "" {
			t.Fatalf("membership after %x (-want +got):\n%s", data, diff)
		}
	})
}

func TestStreamsBeyondTheLimitAreClosedAndTheirRoomComesBack(t *testing.T) {
	a := start(t, worker("a", clusterA))
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	for range MaxInboundStreams {
		c, err := net.DialTimeout("tcp", a.LocalAddr(), hostileLimit)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	eventually(t, realLimit, "one more stream is closed at once", func() bool {
		c, err := net.DialTimeout("tcp", a.LocalAddr(), hostileLimit)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		return !isTimeout(err)
	}, func() any { return "it stays open" })
	for _, c := range idle {
		_ = c.Close()
	}
	start(t, worker("b", clusterA, a.LocalAddr()))
	waitStatus(t, realLimit, a, "b", StatusAlive)
}
