package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/hearthd/hearth/model"
)

// Each connection between masters begins with one hello in each direction: the
// dialer's, then the listener's with its verdict. Only then does the Raft
// library see the connection. The bytes are:
//
//	magic "HRTHRAFT" · version u16 · length u16 · body
//	body: verdict u8 · cluster id, from, to, reason (each u16 length + bytes) · epoch u64 · epoch id u64
//
// with all integers big-endian. The dialer sends verdict 0 and no reason.
const (
	helloMagic      = "HRTHRAFT"
	helloVersion    = 1
	helloHeaderSize = len(helloMagic) + 4

	verdictWelcome = 0
	verdictRefused = 1

	maxIDBytes     = 256
	maxReasonBytes = 512
	// maxHelloBody bounds what a stranger can make a master read.
	maxHelloBody = 1 + 4*2 + 3*maxIDBytes + maxReasonBytes + 16
)

var (
	errNotHearth    = errors.New("not a hearth master: bad magic")
	errBadHello     = errors.New("malformed hello")
	errNoWord       = errors.New("the peer left without a word")
	errHelloVersion = errors.New("unknown version of the raft handshake")
)

// hello says who is at one end of a connection.
type hello struct {
	Verdict byte
	Cluster model.ClusterIdentity
	From    model.MasterID // who sends this
	To      model.MasterID // whom the dialer wants to reach; in the answer, the dialer
	Reason  string         // why the connection is refused
}

// append encodes the hello behind b.
func (h hello) append(b []byte) []byte {
	body := []byte{h.Verdict}
	for _, field := range []struct {
		text string
		max  int
	}{{h.Cluster.ID, maxIDBytes}, {string(h.From), maxIDBytes}, {string(h.To), maxIDBytes}, {h.Reason, maxReasonBytes}} {
		text := field.text[:min(len(field.text), field.max)]
		body = binary.BigEndian.AppendUint16(body, uint16(len(text)))
		body = append(body, text...)
	}
	body = binary.BigEndian.AppendUint64(body, h.Cluster.Epoch)
	body = binary.BigEndian.AppendUint64(body, h.Cluster.EpochID)

	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint16(b, helloVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

// readHello reads exactly one hello: not a byte more, since what follows is
// the library's.
func readHello(r io.Reader) (hello, error) {
	var header [helloHeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return hello{}, fmt.Errorf("read hello: %w: %w", errNoWord, err)
		}
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	if string(header[:len(helloMagic)]) != helloMagic {
		return hello{}, errNotHearth
	}
	if v := binary.BigEndian.Uint16(header[len(helloMagic):]); v != helloVersion {
		return hello{}, fmt.Errorf("%w: %d, this master speaks %d", errHelloVersion, v, helloVersion)
	}
	size := int(binary.BigEndian.Uint16(header[len(helloMagic)+2:]))
	if size > maxHelloBody {
		return hello{}, fmt.Errorf("%w: body of %d bytes, at most %d", errBadHello, size, maxHelloBody)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	return decodeHelloBody(body)
}

func decodeHelloBody(body []byte) (hello, error) {
	if len(body) < 1 {
		return hello{}, errBadHello
	}
	h := hello{Verdict: body[0]}
	rest := body[1:]
	var ok bool
	var cluster, from, to string
	for _, field := range []struct {
		to  *string
		max int
	}{{&cluster, maxIDBytes}, {&from, maxIDBytes}, {&to, maxIDBytes}, {&h.Reason, maxReasonBytes}} {
		if *field.to, rest, ok = cutText(rest, field.max); !ok {
			return hello{}, errBadHello
		}
	}
	if len(rest) != 16 || h.Verdict > verdictRefused {
		return hello{}, errBadHello
	}
	h.Cluster = model.ClusterIdentity{
		ID: cluster, Epoch: binary.BigEndian.Uint64(rest), EpochID: binary.BigEndian.Uint64(rest[8:]),
	}
	h.From, h.To = model.MasterID(from), model.MasterID(to)
	return h, nil
}

// cutText takes a length-prefixed text of valid UTF-8 off b.
func cutText(b []byte, limit int) (text string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n > limit || n > len(b) || !utf8.Valid(b[:n]) {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}
