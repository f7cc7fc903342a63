//go:build linux

package workerd

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// FuzzHTTP throws bytes at the HTTP listener of a running worker.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{
		"GET /json HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /logs/app-20261130061500-0001/0/stdout?offset=-9223372036854775808&follow=1 HTTP/1.0\r\n\r\n",
		"GET /logs/..%2f..%2fetc/0/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"POST /healthz HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
		"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		f.Add([]byte(seed))
	}
	// A log of f must not be written to while a target runs.
	r := newLoggedRig(f, hclog.NewNullLogger(), "127.0.0.1:1")
	var d net.Dialer
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := d.DialContext(t.Context(), "tcp", r.worker.HTTPAddr())
		if err != nil {
			t.Fatalf("the listener is gone: %v", err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(data)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		select {
		case err := <-r.ended:
			t.Fatalf("the worker ended: %v", err)
		default:
		}
	})
}
