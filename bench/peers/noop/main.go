// Command noop is the smallest executor: it registers with its driver over gRPC
// and waits until the driver closes the connection. Without HEARTH_DRIVER_ADDR
// it ends at once, which is what the probe of process starts runs.
//
// It is a static binary that uses system calls alone, so that what a launch
// costs is not the start of a large program: the HTTP/2 frames of its one
// message are written by hand (RFC 9113; RFC 7541, literal fields without
// indexing).
package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	exitUnreachable = 1
	exitUsage       = 2

	frameData, frameHeaders, frameSettings = 0x0, 0x1, 0x4
	flagEndHeaders                         = 0x4

	varint, length = 0, 2 // wire types of protobuf
)

func main() {
	addr, ok := syscall.Getenv("HEARTH_DRIVER_ADDR")
	if !ok {
		return
	}
	os.Exit(register(addr))
}

func register(addr string) int {
	host, port, _ := strings.Cut(addr, ":")
	n, err := strconv.Atoi(port)
	to := &syscall.SockaddrInet4{Port: n}
	if err != nil || !ipv4(host, &to.Addr) {
		return exitUsage
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil || syscall.Connect(fd, to) != nil {
		return exitUnreachable
	}
	hello, ok := helloMessage()
	if !ok {
		return exitUsage
	}
	if !writeAll(fd, conversation(addr, hello)) {
		return exitUnreachable
	}
	var buf [4096]byte
	for {
		// Whatever the driver says, the end is all that counts.
		n, err := syscall.Read(fd, buf[:])
		if n == 0 && err == nil || err != nil && err != syscall.EINTR {
			return 0
		}
	}
}

func ipv4(s string, into *[4]byte) bool {
	parts := strings.Split(s, ".")
	if len(parts) != len(into) {
		return false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 8)
		if err != nil {
			return false
		}
		into[i] = byte(n)
	}
	return true
}

// conversation is all that is ever sent: preface, settings, the head of one
// stream and its first message.
func conversation(authority string, message []byte) []byte {
	var b bytes.Buffer
	b.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(&b, frameSettings, 0, 0, nil)
	var head bytes.Buffer
	for _, kv := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/hearth.cluster.v1.Executors/Session"},
		{":authority", authority},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		head.WriteByte(0)
		for _, s := range kv {
			head.WriteByte(byte(len(s))) // below 127: one byte, no Huffman code
			head.WriteString(s)
		}
	}
	frame(&b, frameHeaders, flagEndHeaders, 1, head.Bytes())
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	frame(&b, frameData, 0, 1, append(data, message...))
	return b.Bytes()
}

func frame(b *bytes.Buffer, kind, flags byte, stream uint32, payload []byte) {
	b.Write([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags})
	b.Write(binary.BigEndian.AppendUint32(nil, stream))
	b.Write(payload)
}

// helloMessage encodes ExecutorUp{hello: ExecutorHello{app, executor, secret,
// cores, host, pid}}.
func helloMessage() ([]byte, bool) {
	app, _ := syscall.Getenv("HEARTH_APP_ID")
	id, _ := syscall.Getenv("HEARTH_EXECUTOR_ID")
	n, err := strconv.ParseUint(id, 10, 32)
	path, _ := syscall.Getenv("HEARTH_SECRET_FILE")
	secret, ok := readFile(path)
	if app == "" || err != nil || !ok {
		return nil, false
	}
	var hello []byte
	hello = text(hello, 1, app)
	hello = number(hello, 2, n)
	hello = text(hello, 3, secret)
	hello = number(hello, 4, 1)
	hello = text(hello, 5, "noop")
	hello = number(hello, 6, uint64(syscall.Getpid()))
	return text(nil, 1, string(hello)), true
}

func number(b []byte, field byte, v uint64) []byte {
	return binary.AppendUvarint(append(b, field<<3|varint), v)
}

func text(b []byte, field byte, s string) []byte {
	return append(binary.AppendUvarint(append(b, field<<3|length), uint64(len(s))), s...)
}

func readFile(path string) (string, bool) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	var buf [512]byte
	n, err := syscall.Read(fd, buf[:])
	return strings.TrimSpace(string(buf[:max(n, 0)])), err == nil && n > 0
}

func writeAll(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}
