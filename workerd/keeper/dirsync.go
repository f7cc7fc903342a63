//go:build linux

package keeper

import "sync"

// dirSync syncs one directory for many at once: who comes while a sync is under way waits for the
// next one, together with all others who do. A sync that had begun before a file got its name may
// have missed it. When an application ends, hundreds of exits are written in the same moment.
type dirSync struct {
	call func() error

	mu      sync.Mutex
	running bool
	next    *syncRound // who joins it is covered; nil until somebody does
}

type syncRound struct {
	done chan struct{} // closed when err is final
	err  error
}

// sync returns when a sync that has begun after the call has ended.
func (d *dirSync) sync() error {
	d.mu.Lock()
	round := d.next
	if round == nil {
		round = &syncRound{done: make(chan struct{})}
		d.next = round
	}
	lead := !d.running
	d.running = true
	d.mu.Unlock()
	if lead {
		go d.run()
	}
	<-round.done
	return round.err
}

// run syncs for as long as somebody waits.
func (d *dirSync) run() {
	for {
		d.mu.Lock()
		round := d.next
		d.next = nil
		d.running = round != nil
		d.mu.Unlock()
		if round == nil {
			return
		}
		round.err = d.call()
		close(round.done)
	}
}
