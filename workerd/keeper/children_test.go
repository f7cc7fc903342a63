//go:build linux

package keeper

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startFamily starts a shell with two children, the second of which is a shell with a child of its own, and
// returns their ids in this order.
func startFamily(t *testing.T) (parent, lone, shell, grandchild int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `sleep 300 & l=$!; sh -c 'sleep 300 & echo $! ; wait' & echo $$ $l $!; wait`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	in := bufio.NewScanner(out)
	for range 2 { // in either order
		if !in.Scan() {
			t.Fatal("the family has not said who it is")
		}
		into := []any{&parent, &lone, &shell}
		if !strings.Contains(in.Text(), " ") {
			into = []any{&grandchild}
		}
		if _, err := fmt.Sscan(in.Text(), into...); err != nil {
			t.Fatal(err)
		}
	}
	return parent, lone, shell, grandchild
}

// keeperOf is a server that takes parent for its own process.
func keeperOf(t *testing.T, parent int, mains ...int) (*Server, map[int]*entry) {
	t.Helper()
	if !childListsHere() {
		t.Skip("this kernel has no lists of children")
	}
	s := newServer(Config{StateDir: t.TempDir()}, nil)
	s.childLists = true
	s.info.Proc.PID = parent
	for _, pid := range mains {
		st, err := readStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		e := newEntry(fmt.Sprint(pid), identity{})
		e.state, e.proc = StateRunning, Proc{PID: pid, StartTicks: st.start}
		s.byPID[pid] = e
	}
	return s, s.byPID
}

func TestChildrenOfAProcessAreListedAndNoOthers(t *testing.T) {
	parent, lone, shell, grandchild := startFamily(t)
	if !childListsHere() {
		t.Skip("this kernel has no lists of children")
	}
	var l childLister
	for _, c := range []struct {
		of   int
		want []int
	}{{parent, []int{lone, shell}}, {shell, []int{grandchild}}, {lone, nil}} {
		got, err := l.of(c.of)
		slices.Sort(got)
		slices.Sort(c.want)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("children of %d: got %v, %v, want %v", c.of, got, err, c.want)
		}
	}
	if got, err := l.of(1 << 30); err == nil {
		t.Errorf("a process that does not exist has children %v", got)
	}
}

func TestOneProcessAloneIsToldFromOneWithAChild(t *testing.T) {
	parent, lone, shell, _ := startFamily(t)
	s, mains := keeperOf(t, parent, lone, shell)
	if main, ok := s.lone(mains[lone]); !ok || main.pid != lone || main.pgrp != parent {
		t.Errorf("a process without children: got %+v, %v", main, ok)
	}
	if _, ok := s.lone(mains[shell]); ok {
		t.Error("a process with a child counts as alone")
	}
	other := *mains[lone]
	other.proc.StartTicks++
	if _, ok := s.lone(&other); ok {
		t.Error("a stranger under a reused number counts as the process")
	}
	mains[lone].reaped = true
	if _, ok := s.lone(mains[lone]); ok {
		t.Error("a process that has been reaped counts as alone")
	}
}

// What a main process has left behind is a child of the keeper and the main process of no key.
func TestNothingIsCalledGoneWhileTheKeeperHasAStrayChild(t *testing.T) {
	parent, lone, shell, _ := startFamily(t)
	s, mains := keeperOf(t, parent, lone)
	ended := newEntry("ended", identity{})
	s.noteGone([]*entry{ended})
	if ended.gone {
		t.Errorf("nothing is left, although process %d belongs to no key", shell)
	}
	if _, ok := s.lone(mains[lone]); ok {
		t.Errorf("a process counts as alone, although process %d may be its child", shell)
	}
	s.byPID[shell] = mains[lone]
	s.noteGone([]*entry{ended})
	if !ended.gone {
		t.Error("something is left, although every child is the main process of a key")
	}
	s.childLists, ended.gone = false, false
	s.noteGone([]*entry{ended})
	if ended.gone {
		t.Error("nothing is left, says a kernel without lists of children")
	}
}
