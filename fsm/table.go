package fsm

import (
	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// entry is one record in a table. Once its batch is committed it never
// changes again: the next batch that wants to change the record puts a new
// entry in its place.
type entry[T any] struct {
	rec   *T
	sum   Hash   // what the state hash counts for it
	batch uint64 // the batch that made the entry and may still change rec
	gone  bool   // deleted by that same batch
}

// table is an immutable map from keys to records, in key order.
type table[T any] struct {
	tree *iradix.Tree[*entry[T]]
	n    int
}

func newTable[T any]() table[T] { return table[T]{tree: iradix.New[*entry[T]]()} }

func (t table[T]) get(key []byte) (*T, bool) {
	e, ok := t.tree.Get(key)
	if !ok {
		return nil, false
	}
	return e.rec, true
}

// walk visits the records whose keys begin with prefix, in key order, until
// visit returns false.
func (t table[T]) walk(prefix []byte, visit func(*T) bool) {
	t.tree.Root().WalkPrefix(prefix, func(_ []byte, e *entry[T]) bool { return !visit(e.rec) })
}

// tableTx changes a table within one batch.
type tableTx[T any] struct {
	base  table[T]
	txn   *iradix.Txn[*entry[T]] // nil until the first write
	n     int
	batch uint64
	dirty []*entry[T]
	total *Hash
	clone func(*T) *T
	hash  func(*T) Hash
}

func (t *tableTx[T]) root() *iradix.Node[*entry[T]] {
	if t.txn != nil {
		return t.txn.Root()
	}
	return t.base.tree.Root()
}

func (t *tableTx[T]) writer() *iradix.Txn[*entry[T]] {
	if t.txn == nil {
		t.txn = t.base.tree.Txn()
	}
	return t.txn
}

// get returns the record for reading only.
func (t *tableTx[T]) get(key []byte) (*T, bool) {
	e, ok := t.root().Get(key)
	if !ok {
		return nil, false
	}
	return e.rec, true
}

// edit returns a record that this batch may change, and whether this is the
// first change in the batch. The key must be present.
func (t *tableTx[T]) edit(key []byte) (*T, bool) {
	e, ok := t.root().Get(key)
	if !ok {
		return nil, false
	}
	if e.batch == t.batch {
		return e.rec, false
	}
	own := &entry[T]{rec: t.clone(e.rec), sum: e.sum, batch: t.batch}
	t.writer().Insert(key, own)
	t.dirty = append(t.dirty, own)
	return own.rec, true
}

// insert adds a record under a key that is not present.
func (t *tableTx[T]) insert(key []byte, rec *T) {
	own := &entry[T]{rec: rec, batch: t.batch}
	t.writer().Insert(key, own)
	t.dirty = append(t.dirty, own)
	t.n++
}

// remove deletes a record that is present.
func (t *tableTx[T]) remove(key []byte) {
	e, ok := t.writer().Delete(key)
	if !ok {
		return
	}
	t.n--
	t.total.sub(e.sum)
	if e.batch == t.batch {
		e.gone = true
	}
}

// collect returns the records whose keys begin with prefix. The tree must not
// be walked while it is changed, so writers collect first.
func (t *tableTx[T]) collect(prefix []byte) []*T {
	var out []*T
	t.root().WalkPrefix(prefix, func(_ []byte, e *entry[T]) bool {
		out = append(out, e.rec)
		return false
	})
	return out
}

// commit hashes what has changed and returns the new table.
func (t *tableTx[T]) commit() table[T] {
	if t.txn == nil {
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
	}
	return table[T]{tree: t.txn.Commit(), n: t.n}
}

// index is an immutable ordered map that is derived from the tables: it is
// not hashed and not written to snapshots.
type index[V any] struct {
	tree *iradix.Tree[V]
	n    int
}

func newIndex[V any]() index[V] { return index[V]{tree: iradix.New[V]()} }

// indexTx changes an index within one batch.
type indexTx[V any] struct {
	base index[V]
	txn  *iradix.Txn[V]
	n    int
}

func (x *indexTx[V]) root() *iradix.Node[V] {
	if x.txn != nil {
		return x.txn.Root()
	}
	return x.base.tree.Root()
}

func (x *indexTx[V]) get(key []byte) (V, bool) { return x.root().Get(key) }

func (x *indexTx[V]) put(key []byte, v V) {
	if x.txn == nil {
		x.txn = x.base.tree.Txn()
	}
	if _, had := x.txn.Insert(key, v); !had {
		x.n++
	}
}

func (x *indexTx[V]) remove(key []byte) {
	if x.txn == nil {
		x.txn = x.base.tree.Txn()
	}
	if _, had := x.txn.Delete(key); had {
		x.n--
	}
}

// first returns the value with the lowest key.
func (x *indexTx[V]) first() ([]byte, V, bool) { return x.root().Minimum() }

func (x *indexTx[V]) commit() index[V] {
	if x.txn == nil {
		return x.base
	}
	return index[V]{tree: x.txn.Commit(), n: x.n}
}
