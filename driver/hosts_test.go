package driver

import "testing"

// UX-10: behind a bridge a driver in cluster mode is reached as its worker is, unless it is told otherwise.
func TestUX10ADriverInClusterModeIsAnnouncedAsItsWorkerIs(t *testing.T) {
	worker := []string{"HEARTH_DRIVER_BIND=0.0.0.0", "HEARTH_DRIVER_ADVERTISE=w1.example"}
	for name, c := range map[string]struct {
		bind, advertise string
		env             []string
		serve, announce string
	}{
		"started by a user":          {serve: "127.0.0.1"},
		"told by its worker":         {env: worker, serve: "0.0.0.0", announce: "w1.example"},
		"its own name":               {env: worker, advertise: "d.example", serve: "0.0.0.0", announce: "d.example"},
		"its own address":            {env: worker, bind: "10.0.0.9", serve: "10.0.0.9"},
		"its own of both":            {env: worker, bind: "10.0.0.9", advertise: "d.example", serve: "10.0.0.9", announce: "d.example"},
		"half of a word is no word":  {env: worker[:1], serve: "127.0.0.1"},
		"started by a user, by name": {advertise: "d.example", serve: "127.0.0.1", announce: "d.example"},
	} {
		t.Run(name, func(t *testing.T) {
			serve, announce, err := Hosts(t.Context(), c.bind, c.advertise, c.env, []string{"127.0.0.1:7070"})
			if err != nil || serve != c.serve || announce != c.announce {
				t.Errorf("it serves on %q and is announced as %q, error %v; want %q and %q", serve, announce, err, c.serve, c.announce)
			}
		})
	}
}
