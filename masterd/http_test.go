package masterd

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testPatience}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

func TestHTTPTellsHealthReadinessAndTheView(t *testing.T) {
	m, _ := startOne(t)
	base := "http://" + m.HTTPAddr()
	if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
		t.Errorf("got /healthz %d, want 200", code)
	}
	eventually(t, "readyz", func() error {
		if why := m.unready(); why != "" {
			return textError(why)
		}
		return nil
	})
	if code, body := get(t, base+"/readyz"); code != http.StatusOK {
		t.Errorf("got /readyz %d %s, want 200", code, body)
	}
	_, body := get(t, base+"/json")
	var v model.ClusterView
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != model.ViewVersion || len(v.Masters) != 1 || v.Masters[0].ID != m.ID() || v.Masters[0].Role != model.MasterLeader {
		t.Errorf("got view %+v, want this master leading alone", v)
	}
}

type textError string

func (e textError) Error() string { return string(e) }

// FuzzHTTP throws bytes at the HTTP listener of a running master.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{
		"GET /json HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /apps?q=%00%ff&page=-1&rows=99999999999999999999&sort=%3Cscript%3E HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n",
		"GET /logs/app-1/99999999999999999999/stdout?offset=-9223372036854775808 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer \xff\r\nCookie: hearth_token=\xff\r\n\r\n",
		"POST /healthz HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
		"GET /%00%ff/../.. HTTP/9.9\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		f.Add([]byte(seed))
	}
	m, err := New(Config{DataDir: f.TempDir()}, Deps{Logger: hclog.NewNullLogger()})
	if err != nil {
		f.Fatal(err)
	}
	ctx := f.Context()
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	f.Cleanup(func() {
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
	<-m.Ready()
	// Ready says that there is a leader; its scope opens a moment later.
	deadline, tick := time.After(testPatience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for m.leading.Load() == nil {
		select {
		case <-tick.C:
		case <-deadline:
			f.Fatal("the master does not lead")
		}
	}
	var d net.Dialer
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := d.DialContext(t.Context(), "tcp", m.HTTPAddr())
		if err != nil {
			t.Fatalf("the listener is gone: %v", err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(data)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		if m.leading.Load() == nil {
			t.Fatal("the master no longer leads")
		}
	})
}
