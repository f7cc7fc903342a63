package fsm

import (
	"maps"

	"github.com/hearthd/hearth/model"
)

// What queues and users hold, in cores that count against their caps. The index
// is derived: it is kept only while a setting asks for it, so that a cluster
// without queues and caps does not pay for it.

func queueKey(queue string) string { return "q" + queue }

func userKey(user string) string { return "u" + user }

// countsHeld reports whether the settings ask what queues and users hold.
func countsHeld(s *model.Settings) bool { return len(s.Queues) > 0 || s.UserCores > 0 }

// hold notes that the cores of an application that count have changed.
func (t *tx) hold(a *model.App, cores int) {
	if cores == 0 || !countsHeld(t.meta.settings) {
		return
	}
	for _, key := range []string{queueKey(a.Spec.QueueName()), userKey(model.AppUser(a))} {
		n, _ := t.held.get([]byte(key))
		if n += cores; n == 0 {
			t.held.remove([]byte(key))
		} else {
			t.held.put([]byte(key), n)
		}
	}
}

// recountHeld makes the index anew, after the settings have changed.
func (t *tx) recountHeld() {
	t.held = indexTx[int]{base: newIndex[int]()}
	if !countsHeld(t.meta.settings) {
		return
	}
	for _, a := range t.apps.collect(nil) {
		t.hold(a, model.CoresCounted(a))
	}
}

// heldCores is what the index says of a key.
func (s *state) heldCores(key string) int {
	n, _ := s.held.tree.get([]byte(key))
	return n
}

// driverCores are the cores that a driver holds by being placed.
func driverCores(d *model.Driver) int {
	if d.State.Terminal() || d.State.Queued() {
		return 0
	}
	return d.Spec.Cores
}

// maxDriverCores is how many cores drivers may hold together by the share that
// is set, which must not be 0 (no limit). offered are the cores of the workers
// that may get work. A share below one core leaves drivers none.
func maxDriverCores(s *model.Settings, offered int) int {
	return int(int64(offered) * int64(s.DriverShareMilli) / 1000)
}

func (c *checker) checkHeld() {
	want := map[string]int{}
	if countsHeld(c.s.meta.settings) {
		c.s.apps.walk(nil, func(a *model.App) bool {
			if n := model.CoresCounted(a); n != 0 {
				want[queueKey(a.Spec.QueueName())] += n
				want[userKey(model.AppUser(a))] += n
			}
			return true
		})
	}
	got := map[string]int{}
	c.s.held.tree.walk(func(k string, n int) bool {
		got[k] = n
		return true
	})
	if !maps.Equal(got, want) {
		c.bad("queues and users hold %v by the book, %v by their applications", got, want)
	}
}

// overDriverShare reports whether a driver would pass the share of cores that
// drivers may hold, and how much they hold and may hold.
func (t *tx) overDriverShare(d *model.Driver) (over bool, cores, most int) {
	if t.meta.settings.DriverShareMilli == 0 {
		return false, 0, 0
	}
	now := t.sumsNow()
	cores, most = now.driverCores, maxDriverCores(t.meta.settings, now.offered)
	return cores+d.Spec.Cores > most, cores, most
}
