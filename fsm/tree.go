package fsm

import (
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// treeDegree is half of how many keys a node holds: an entry of the log copies
// one node of each level for each table that it writes, so nodes are small.
const treeDegree = 12

// tree is an immutable ordered map. Reading is safe from anywhere; a copy shares
// all nodes with the original until they are written. ADR 0044.
type tree[V any] struct {
	copying sync.Mutex // a copy marks the original, which readers do not look at
	m       *btree.Map[string, V]
}

func newTree[V any]() *tree[V] { return &tree[V]{m: btree.NewMap[string, V](treeDegree)} }

// edit returns a copy that one goroutine may write, until it is made a tree.
func (t *tree[V]) edit() *btree.Map[string, V] {
	t.copying.Lock()
	defer t.copying.Unlock()
	return t.m.Copy()
}

// get finds the value of a key.
func (t *tree[V]) get(key []byte) (V, bool) { return t.m.Get(string(key)) }

// walk visits all keys in order until visit returns false.
func (t *tree[V]) walk(visit func(key string, v V) bool) { t.m.Scan(visit) }

// reverse visits all keys, the highest first, until visit returns false.
func (t *tree[V]) reverse(visit func(key string, v V) bool) { t.m.Reverse(visit) }

// walkPrefix visits the keys that begin with prefix, in order, until visit
// returns false.
func (t *tree[V]) walkPrefix(prefix []byte, visit func(key string, v V) bool) {
	walkPrefix(t.m, prefix, visit)
}

func walkPrefix[V any](m *btree.Map[string, V], prefix []byte, visit func(key string, v V) bool) {
	p := string(prefix)
	m.Ascend(p, func(key string, v V) bool { return strings.HasPrefix(key, p) && visit(key, v) })
}
