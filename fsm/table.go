package fsm

import "github.com/tidwall/btree"

// entry is one record in a table. Once its batch is committed it never
// changes again: the next batch that wants to change the record puts a new
// entry in its place.
type entry[T any] struct {
	rec   *T
	sum   Hash   // what the state hash counts for it
	fixed Hash   // what it counts for parts of it that never change
	batch uint64 // the batch that made the entry and may still change rec
	gone  bool   // deleted by that same batch
}

// table is an immutable map from keys to records, in key order.
type table[T any] struct {
	tree *tree[*entry[T]]
	n    int
}

func newTable[T any]() table[T] { return table[T]{tree: newTree[*entry[T]]()} }

func (t table[T]) get(key []byte) (*T, bool) {
	e, ok := t.tree.get(key)
	if !ok {
		return nil, false
	}
	return e.rec, true
}

// walk visits the records whose keys begin with prefix, in key order, until
// visit returns false.
func (t table[T]) walk(prefix []byte, visit func(*T) bool) {
	t.tree.walkPrefix(prefix, func(_ string, e *entry[T]) bool { return visit(e.rec) })
}

// tableTx changes a table within one batch.
type tableTx[T any] struct {
	base  table[T]
	own   *btree.Map[string, *entry[T]] // nil until the first write
	n     int
	batch uint64
	dirty []*entry[T]
	total *Hash
	clone func(*T) *T
	hash  func(*T) Hash
	// book keeps sums over the records: it is called with -1 for one that the
	// batch takes over to change or remove, and with 1 for what becomes of it;
	// nil = there are none.
	book func(rec *T, by int)
}

// now is the table as the batch has left it, for reading only.
func (t *tableTx[T]) now() *btree.Map[string, *entry[T]] {
	if t.own != nil {
		return t.own
	}
	return t.base.tree.m
}

func (t *tableTx[T]) writer() *btree.Map[string, *entry[T]] {
	if t.own == nil {
		t.own = t.base.tree.edit()
	}
	return t.own
}

// get returns the record for reading only.
func (t *tableTx[T]) get(key []byte) (*T, bool) {
	e, ok := t.now().Get(string(key))
	if !ok {
		return nil, false
	}
	return e.rec, true
}

// edit returns a record that this batch may change, and whether this is the
// first change in the batch. The key must be present.
func (t *tableTx[T]) edit(key []byte) (*T, bool) {
	e, ok := t.now().Get(string(key))
	if !ok {
		return nil, false
	}
	if e.batch == t.batch {
		return e.rec, false
	}
	own := &entry[T]{rec: t.clone(e.rec), sum: e.sum, fixed: e.fixed, batch: t.batch}
	t.writer().Set(string(key), own)
	t.dirty = append(t.dirty, own)
	if t.book != nil {
		t.book(e.rec, -1)
	}
	return own.rec, true
}

// insert adds a record under a key that is not present.
func (t *tableTx[T]) insert(key []byte, rec *T) {
	own := &entry[T]{rec: rec, batch: t.batch}
	t.writer().Set(string(key), own)
	t.dirty = append(t.dirty, own)
	t.n++
}

// fix counts a hash for a record until it is removed.
func (t *tableTx[T]) fix(key []byte, sum Hash) {
	if e, ok := t.now().Get(string(key)); ok {
		e.fixed = sum
		t.total.add(sum)
	}
}

// remove deletes a record that is present.
func (t *tableTx[T]) remove(key []byte) {
	e, ok := t.writer().Delete(string(key))
	if !ok {
		return
	}
	t.n--
	t.total.sub(e.sum)
	t.total.sub(e.fixed)
	if e.batch == t.batch {
		e.gone = true
	} else if t.book != nil {
		t.book(e.rec, -1)
	}
}

// walk visits the records whose keys begin with prefix, in key order, until
// visit returns false. The table must not be changed meanwhile.
func (t *tableTx[T]) walk(prefix []byte, visit func(*T) bool) {
	walkPrefix(t.now(), prefix, func(_ string, e *entry[T]) bool { return visit(e.rec) })
}

// collect returns the records whose keys begin with prefix, for writers.
func (t *tableTx[T]) collect(prefix []byte) []*T {
	var out []*T
	t.walk(prefix, func(rec *T) bool {
		out = append(out, rec)
		return true
	})
	return out
}

// first returns the lowest key.
func (t *tableTx[T]) first() ([]byte, bool) {
	key, _, ok := t.now().Min()
	return []byte(key), ok
}

// commit hashes what has changed and returns the new table.
func (t *tableTx[T]) commit() table[T] {
	if t.own == nil {
		return t.base
	}
	for _, e := range t.dirty {
		if e.gone {
			continue
		}
		sum := t.hash(e.rec)
		t.total.sub(e.sum)
		t.total.add(sum)
		e.sum = sum
		if t.book != nil {
			t.book(e.rec, 1)
		}
	}
	return table[T]{tree: &tree[*entry[T]]{m: t.own}, n: t.n}
}

// index is an immutable ordered map that is derived from the tables: it is
// not hashed and not written to snapshots.
type index[V any] struct {
	tree *tree[V]
	n    int
}

func newIndex[V any]() index[V] { return index[V]{tree: newTree[V]()} }

// indexTx changes an index within one batch.
type indexTx[V any] struct {
	base index[V]
	own  *btree.Map[string, V] // nil until the first write
	n    int
}

func (x *indexTx[V]) now() *btree.Map[string, V] {
	if x.own != nil {
		return x.own
	}
	return x.base.tree.m
}

func (x *indexTx[V]) writer() *btree.Map[string, V] {
	if x.own == nil {
		x.own = x.base.tree.edit()
	}
	return x.own
}

func (x *indexTx[V]) get(key []byte) (V, bool) { return x.now().Get(string(key)) }

func (x *indexTx[V]) put(key []byte, v V) {
	if _, had := x.writer().Set(string(key), v); !had {
		x.n++
	}
}

func (x *indexTx[V]) remove(key []byte) {
	if _, had := x.writer().Delete(string(key)); had {
		x.n--
	}
}

// walkPrefix visits the keys that begin with prefix, in order, until visit
// returns false. The index must not be changed meanwhile.
func (x *indexTx[V]) walkPrefix(prefix []byte, visit func(key string, v V) bool) {
	walkPrefix(x.now(), prefix, visit)
}

// first returns the value with the lowest key.
func (x *indexTx[V]) first() ([]byte, V, bool) {
	key, v, ok := x.now().Min()
	return []byte(key), v, ok
}

func (x *indexTx[V]) commit() index[V] {
	if x.own == nil {
		return x.base
	}
	return index[V]{tree: &tree[V]{m: x.own}, n: x.n}
}
