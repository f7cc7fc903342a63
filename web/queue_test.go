package web

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hearthd/hearth/model"
)

func waitingFake() *fakeSource {
	s := newFake()
	s.waiting = []model.Why{
		fakeWhy("app-20261130120000-0002", "waiting for memory", true),
		fakeWhy("app-20261130120000-0003", "<b>hostile</b>", false),
	}
	s.waiting[1].Reasons[0].Code = model.WhyBusy
	return s
}

func TestTheQueuePageListsWhatWaitsAndWhy(t *testing.T) {
	t.Parallel()
	h := handlerOf(waitingFake())
	page := get(t, h, "/queue")
	wants(t, page, "waiting for memory", "/apps/app-20261130120000-0002", "NEVER_FITS", ">never<", "1 min 15 s", "batch",
		"needs 16 GiB per executor; the largest worker offers 8 GiB", "&lt;b&gt;hostile", "1 of these can", "0 <span class=\"dim\">of 4</span>")
	wants(t, get(t, h, "/queue?state=BUSY"), "1–1 of 1, 2 in all")
	wants(t, get(t, handlerOf(newFake()), "/queue"), "Nothing waits.")
}

func TestAnApplicationsPageSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	wants(t, get(t, handlerOf(waitingFake()), "/apps/app-20261130120000-0002"), "Waiting for 1 min 15 s", "never fits", "NEVER_FITS")
}

func TestWhyIsAnsweredAsJSON(t *testing.T) {
	t.Parallel()
	h := handlerOf(waitingFake())
	var list model.WaitingView
	if err := json.Unmarshal([]byte(get(t, h, "/v1/queue")), &list); err != nil || len(list.Waiting) != 2 || list.Version != model.ViewVersion {
		t.Errorf("%+v, error %v: want two that wait", list, err)
	}
	var one model.Why
	if err := json.Unmarshal([]byte(get(t, h, "/v1/why/app-20261130120000-0002")), &one); err != nil || one.Reasons[0].Missing != 8192 {
		t.Errorf("%+v, error %v: want the reason with its numbers", one, err)
	}
	if code := ask(h, http.MethodGet, "/v1/why/app-1").Code; code != http.StatusNotFound {
		t.Errorf("an unknown id is answered %d, want 404", code)
	}
}
