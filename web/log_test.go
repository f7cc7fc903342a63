package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const someLog = "/logs/app-20261130120000-0001/1/stdout"

func TestALogPageShowsTheEndAndLeadsToTheRest(t *testing.T) {
	s := newFake()
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&b, "line %05d\n", i)
	}
	s.log = b.String() // 440,000 bytes
	h := handlerOf(s)
	page := get(t, h, someLog)
	wants(t, page, "line 39999", "bytes 374\u202f464 to 440\u202f000", `data-follow="`+someLog+`/raw"`, `data-next="440000"`, `href="`+someLog+`?offset=308928"`)
	if strings.Contains(page, "line 34000\n") || len(page) > logPage+20_000 {
		t.Errorf("the page has %d bytes, more than the end", len(page))
	}
	older := get(t, h, someLog+"?offset=308928")
	wants(t, older, "bytes 308\u202f928 to 374\u202f464", `href="`+someLog+`?offset=374464"`, `href="`+someLog+`?offset=243392"`)
	if strings.Contains(older, "data-follow") {
		t.Error("the middle of a log is followed")
	}
	first := get(t, h, someLog+"?offset=0")
	wants(t, first, "line 00000")
	if strings.Contains(first, "older") {
		t.Error("there is something before the beginning")
	}
}

func TestRawLogsAreBoundedAndGoOn(t *testing.T) {
	s := newFake()
	s.log = strings.Repeat("x", 3*maxLogRange)
	h := handlerOf(s)
	w := ask(h, http.MethodGet, someLog+"/raw?offset=7")
	if w.Body.Len() != maxLogRange || w.Header().Get("Hearth-Log-Next") != fmt.Sprint(maxLogRange+7) {
		t.Errorf("got %d bytes, next %s", w.Body.Len(), w.Header().Get("Hearth-Log-Next"))
	}
	w = ask(h, http.MethodGet, someLog+"/raw?offset=-5")
	if w.Body.String() != "xxxxx" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("got %q as %s", w.Body, w.Header().Get("Content-Type"))
	}
	w = ask(h, http.MethodGet, fmt.Sprintf("%s/raw?offset=%d", someLog, len(s.log)))
	if w.Body.Len() != 0 || w.Header().Get("Hearth-Log-Next") != fmt.Sprint(len(s.log)) {
		t.Errorf("at the end: got %d bytes, next %s", w.Body.Len(), w.Header().Get("Hearth-Log-Next"))
	}
}

func TestAnEmptyLogIsNoError(t *testing.T) {
	s := newFake()
	s.log = ""
	wants(t, get(t, handlerOf(s), someLog), "Nothing has been written yet", `data-next="0"`)
}
