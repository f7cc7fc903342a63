//go:build linux

package testcluster

import (
	"fmt"
	"slices"
)

// WipeMaster gives a master that is down an empty disk, so that it starts as another one on the same machine, and returns
// the disk that it had.
func (c *Cluster) WipeMaster(m *Master) (disk string) {
	c.t.Helper()
	if m.Up() {
		c.t.Fatalf("wipe master: %s runs", m.Host)
	}
	disk, m.dir = m.dir, c.dataDir(m.Host)
	return disk
}

// StartMasterOn starts one more master, on a machine of its own, with the disk of another one.
func (c *Cluster) StartMasterOn(disk string) *Master {
	c.t.Helper()
	m := &Master{Host: fmt.Sprintf("m%d", len(c.masters)+1), dir: disk}
	c.masters = append(c.masters, m)
	return c.StartMaster(len(c.masters) - 1)
}

// DropMaster stops a master for good: nothing starts it again, nothing waits for it.
func (c *Cluster) DropMaster(m *Master) {
	c.t.Helper()
	if m.Up() {
		c.StopMaster(m)
	}
	c.masters = slices.DeleteFunc(c.masters, func(x *Master) bool { return x == m })
}
