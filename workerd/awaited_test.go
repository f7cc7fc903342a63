//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// A worker is restarted while a launch waits for an artifact that comes slowly: at once, and the next start fetches it and
// starts the process that was ordered, with its secret. The leader hears nothing but that it is being launched.
func TestAWorkerIsRestartedAtOnceWhileAnArtifactComes(t *testing.T) {
	script := []byte("#!/bin/sh\necho \"$WORD $(cat \"$HEARTH_SECRET_FILE\")\"\nexec sleep 1000\n")
	var asked atomic.Int32
	url := serves(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(script)))
		if asked.Add(1) > 1 {
			_, _ = w.Write(script)
			return
		}
		_, _ = w.Write(script[:10])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	o := s.launch(ref(0), "./bin/driver")
	o.Secret, o.Spec.Artifacts = "open sesame", []model.Artifact{artifactAt(url+"/driver", script)}
	o.Spec.Command.Env = []string{"WORD=hello"}
	s.send(model.WorkerDown{Launch: o})
	s.reported(ref(0), model.ExecutorLaunching)
	eventually(t, "the artifact is on its way", func() bool { return asked.Load() == 1 })

	began := time.Now()
	if _, err := r.control().Restart(t.Context(), Handover{}); err != nil {
		t.Fatal(err)
	}
	if err := r.over(); !errors.Is(err, ErrRestart) {
		t.Fatalf("the worker ended with %v, want ErrRestart", err)
	}
	if took := time.Since(began); took > handoverBound/2 {
		t.Errorf("the restart took %s, as if it had waited", took)
	}
	r.start()
	s2 := leader.welcomed(3)
	if inv := s2.hello.Inventory; len(inv) != 1 || inv[0].Ref != ref(0) || inv[0].State != model.ExecutorLaunching {
		t.Errorf("inventory %+v, want %s LAUNCHING", inv, ref(0))
	}
	s2.reported(ref(0), model.ExecutorRunning)
	if n := asked.Load(); n != 2 {
		t.Errorf("the artifact was asked for %d times, want 2", n)
	}
	if out, err := r.log(ref(0), rpc.LogStdout, false); err != nil || out != "hello open sesame\n" {
		t.Errorf("it wrote %q, %v", out, err)
	}
	s2.kill(ref(0), time.Second)
	s2.reported(ref(0), model.ExecutorKilled)
}

// What is handed over and given up meanwhile begins anew when the restart does not take place, ends if it was killed, and is
// lost with a crash of the worker that has taken it up.
func TestALaunchThatWaitsForContentIsHandedOver(t *testing.T) {
	order := launchOf(ref(0))
	order.Secret = "open sesame"
	order.Spec.Artifacts = []model.Artifact{artifactAt("http://files/x", nil)}
	waiting := func() (*table, *[]journalRecord) {
		var records []journalRecord
		tab := testTable()
		tab.rec = memoryRecorder(&records)
		tab.launch(order)
		if tab.starting() != 0 {
			t.Fatal("a planned restart would wait for it")
		}
		tab.handOver()
		if tab.proceed(ref(0)) || tab.startFailed(ref(0), errAgentEnded, true) != nil {
			t.Fatal("it is started, or ends, after it was handed over")
		}
		return tab, &records
	}
	t.Run("it begins anew without a restart", func(t *testing.T) {
		tab, _ := waiting()
		wantKinds(t, "taken back", tab.takeBack(), effectStart)
		if !tab.proceed(ref(0)) {
			t.Error("it does not go on")
		}
	})
	t.Run("it begins anew after one, with its secret", func(t *testing.T) {
		_, records := waiting()
		next := testTable()
		next.rec = memoryRecorder(records)
		next.restore(*records)
		got := next.attach(nil, start)
		wantKinds(t, "attached", got, effectStart)
		if o := got[0].launch; o.Secret != order.Secret || len(o.Spec.Artifacts) != 1 {
			t.Errorf("it is launched as %+v", o)
		}
		crashed := testTable()
		crashed.restore(*records)
		crashed.attach(nil, start)
		if got := crashed.said(ref(0)); got.State != model.ExecutorLost {
			t.Errorf("after a crash it is %s, want LOST", got.State)
		}
	})
	t.Run("a compacted journal has it too", func(t *testing.T) {
		tab, _ := waiting()
		next := testTable()
		next.restore(tab.records())
		wantKinds(t, "attached", next.attach(nil, start), effectStart)
	})
	t.Run("it ends if it was killed meanwhile", func(t *testing.T) {
		tab, records := waiting()
		tab.killOrder(&model.KillOrder{Ref: ref(0), Reason: "by ann"})
		next := testTable()
		next.restore(*records)
		next.attach(nil, start)
		if got := next.said(ref(0)); got.State != model.ExecutorKilled {
			t.Errorf("it is %s, want KILLED", got.State)
		}
	})
}
