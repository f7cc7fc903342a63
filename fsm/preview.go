package fsm

import (
	"math"

	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// previewBatch marks what a preview makes; no batch gets as far.
const previewBatch = math.MaxUint64

// Preview returns what commands would do as the next entry, and the state after
// it, without applying them. They are only read. It is safe from anywhere and
// changes nothing: what it returns is a guess, since another entry may come
// first. Nothing in the view is hashed.
func (f *FSM) Preview(cmds []*replogv1.Command) ([]Result, *View) {
	cur := f.cur.Load()
	t := begin(cur, cur.index+1, previewBatch)
	t.hasher.off = true
	results := make([]Result, len(cmds))
	for i, c := range cmds {
		results[i] = t.apply(c)
	}
	return results, &View{s: t.commit()}
}
