package scheduler

// fanout is how many entries a node holds: wide enough that 50,000 workers are
// four levels, small enough that a node is a few cache lines per question.
const fanout = 32

// maxDepth bounds the levels below the root. A node that runs low joins its
// neighbour, so even 2^32 entries need fewer.
const maxDepth = 12

// dimensions is how many quantities a search can ask for at once.
const dimensions = 4

// capacity is what an entry can give, by dimension, or more than any entry
// below a node can give. A dimension that a tree does not track is 0.
type capacity [dimensions]int32

// entry is a worker's slot in a leaf, under a key of its own, or in an inner
// node another node, under a key that is not above any below.
type entry struct {
	key uint64
	ref int32
	cap int32 // in the first dimension of the tree
}

// node is an inner node or a leaf. What a search costs is the cache lines that
// it touches, so the first dimension, often the only one, is beside the keys
// and the others are apart.
type node struct {
	n       int32
	entries [fanout]entry
	others  [dimensions - 1][fanout]int32
}

// tree is a B+ tree of unique keys whose inner entries know a bound of what is
// to be had below them, so that a search in key order passes over what cannot
// answer it. Nodes live in one slice and refer to each other by position.
//
// Bounds are raised at once and lowered lazily: a search that was led astray
// by one puts in the truth before it goes on. So each entry that left costs at
// most one look at its node, and most cost nothing.
type tree struct {
	first  int   // dimension beside the keys
	others []int // further dimensions that are tracked
	nodes  []node
	spare  []int32 // nodes out of use
	root   int32
	depth  int // levels below the root
	size   int
	// last is where a search or change has been, while shape is the same:
	// what is found is most often what changes next.
	last  way
	shape uint64 // counts splits and joins
}

// way leads from the root to an entry of a leaf.
type way struct {
	path  [maxDepth]step
	leaf  step
	shape uint64
}

// newTree returns a tree that tracks a dimension, and perhaps others.
func newTree(first int, others ...int) *tree {
	return &tree{first: first, others: others, nodes: make([]node, 1), shape: 1}
}

// step is a position in a node.
type step struct{ node, i int32 }

// child is the entry of an inner node below which key belongs.
func (nd *node) child(key uint64) int32 { return max(nd.lowerBound(key+1)-1, 0) }

// lowerBound is the first position whose key is at least key. It has no branch
// that depends on a key, since none of them could be foreseen.
func (nd *node) lowerBound(key uint64) int32 {
	lo, n := int32(0), nd.n
	for n > 1 {
		half := n / 2
		if k := nd.entries[(lo+half-1)&(fanout-1)].key; k < key {
			lo += half
		}
		n -= half
	}
	if n == 1 && nd.entries[lo&(fanout-1)].key < key {
		lo++
	}
	return lo
}

func (t *tree) put(nd *node, i int32, key uint64, c *capacity, ref int32) {
	copy(nd.entries[i+1:nd.n+1], nd.entries[i:nd.n])
	nd.entries[i] = entry{key, ref, c[t.first]}
	for o, d := range t.others {
		copy(nd.others[o][i+1:nd.n+1], nd.others[o][i:nd.n])
		nd.others[o][i] = c[d]
	}
	nd.n++
}

func (t *tree) cut(nd *node, i int32) {
	copy(nd.entries[i:nd.n-1], nd.entries[i+1:nd.n])
	for o := range t.others {
		copy(nd.others[o][i:nd.n-1], nd.others[o][i+1:nd.n])
	}
	nd.n--
}

// move appends the entries of a node from a position on to another one.
func (t *tree) move(to, from *node, i int32) {
	copy(to.entries[to.n:], from.entries[i:from.n])
	for o := range t.others {
		copy(to.others[o][to.n:], from.others[o][i:from.n])
	}
	to.n += from.n - i
	from.n = i
}

// most is the most of each dimension in a node.
func (t *tree) most(nd *node) (m capacity) {
	for i := range nd.entries[:nd.n] {
		m[t.first] = max(m[t.first], nd.entries[i].cap)
	}
	for o, d := range t.others {
		for _, v := range nd.others[o][:nd.n] {
			m[d] = max(m[d], v)
		}
	}
	return m
}

func (t *tree) setCapacity(nd *node, i int32, c *capacity) {
	nd.entries[i].cap = c[t.first]
	for o, d := range t.others {
		nd.others[o][i] = c[d]
	}
}

func (t *tree) raise(nd *node, i int32, c *capacity) {
	if e := &nd.entries[i]; c[t.first] > e.cap {
		e.cap = c[t.first]
	}
	for o, d := range t.others {
		if c[d] > nd.others[o][i] {
			nd.others[o][i] = c[d]
		}
	}
}

func (t *tree) alloc() int32 {
	t.shape++
	if n := len(t.spare); n > 0 {
		at := t.spare[n-1]
		t.spare = t.spare[:n-1]
		t.nodes[at].n = 0
		return at
	}
	t.nodes = append(t.nodes, node{})
	return int32(len(t.nodes) - 1)
}

func (t *tree) drop(at int32) {
	t.shape++
	t.spare = append(t.spare, at)
}

// insert adds an entry whose key is not present. Full nodes are split on the
// way down.
func (t *tree) insert(key uint64, c capacity, ref int32) {
	t.size++
	if t.nodes[t.root].n == fanout {
		old, root := t.root, t.alloc()
		t.root = root
		t.depth++
		most := t.most(&t.nodes[old])
		t.put(&t.nodes[root], 0, t.nodes[old].entries[0].key, &most, old)
		t.split(root, 0)
	}
	at := t.root
	for range t.depth {
		i := t.nodes[at].child(key)
		if t.nodes[t.nodes[at].entries[i].ref].n == fanout {
			t.split(at, i)
			i = t.nodes[at].child(key)
		}
		nd := &t.nodes[at]
		if e := &nd.entries[i]; key < e.key {
			e.key = key
		}
		t.raise(nd, i, &c)
		at = nd.entries[i].ref
	}
	nd := &t.nodes[at]
	t.put(nd, nd.lowerBound(key), key, &c, ref)
}

// split moves the upper half of a full child to a new node beside it.
func (t *tree) split(at, i int32) {
	made := t.alloc() // may move the nodes
	parent := &t.nodes[at]
	from, to := &t.nodes[parent.entries[i].ref], &t.nodes[made]
	t.move(to, from, fanout/2)
	most := t.most(from)
	t.setCapacity(parent, i, &most)
	most = t.most(to)
	t.put(parent, i+1, to.entries[0].key, &most, made)
}

// find walks to the entry with the key, which must be present.
func (t *tree) find(key uint64) *way {
	w := &t.last
	if w.shape == t.shape {
		if nd := &t.nodes[w.leaf.node]; w.leaf.i < nd.n && nd.entries[w.leaf.i].key == key {
			return w
		}
	}
	at := t.root
	for l := range t.depth {
		nd := &t.nodes[at]
		i := nd.child(key)
		w.path[l] = step{at, i}
		at = nd.entries[i].ref
	}
	nd := &t.nodes[at]
	w.leaf, w.shape = step{at, nd.lowerBound(key)}, t.shape
	if w.leaf.i == nd.n || nd.entries[w.leaf.i].key != key {
		panic("scheduler: a worker is not where the index says")
	}
	return w
}

// remove takes out the entry with the key, which must be present.
func (t *tree) remove(key uint64) {
	w := t.find(key)
	nd := &t.nodes[w.leaf.node]
	t.cut(nd, w.leaf.i)
	t.size--
	if nd.n >= fanout/4 {
		return
	}
	for l := t.depth - 1; l >= 0; l-- {
		parent, i := &t.nodes[w.path[l].node], w.path[l].i
		if t.nodes[parent.entries[i].ref].n >= fanout/4 || !t.join(parent, i) {
			break
		}
	}
	for t.depth > 0 && t.nodes[t.root].n == 1 {
		t.drop(t.root)
		t.root = t.nodes[t.root].entries[0].ref
		t.depth--
	}
}

// set changes the capacity of the entry with the key, which must be present.
func (t *tree) set(key uint64, c capacity) {
	w := t.find(key)
	t.setCapacity(&t.nodes[w.leaf.node], w.leaf.i, &c)
	for l := range t.depth {
		t.raise(&t.nodes[w.path[l].node], w.path[l].i, &c)
	}
}

// join moves what a child holds to a neighbour with room, or the other way
// round, and drops the emptied one. An empty child is dropped anyway if it has
// neighbours.
func (t *tree) join(parent *node, i int32) bool {
	into := i
	switch {
	case t.nodes[parent.entries[i].ref].n == 0 && parent.n > 1:
		t.drop(parent.entries[i].ref)
		t.cut(parent, i)
		return true
	case i > 0 && t.nodes[parent.entries[i-1].ref].n <= fanout/2:
		into = i - 1
	case i+1 < parent.n && t.nodes[parent.entries[i+1].ref].n <= fanout/2:
	default:
		return false
	}
	left, right := &t.nodes[parent.entries[into].ref], &t.nodes[parent.entries[into+1].ref]
	t.move(left, right, 0)
	t.drop(parent.entries[into+1].ref)
	most := t.most(left)
	t.setCapacity(parent, into, &most)
	t.cut(parent, into+1)
	return true
}

// cursor visits entries in key order, passing over those whose capacity does
// not cover a need. The tree must not change meanwhile.
type cursor struct {
	t      *tree
	first  int32 // needed in the first dimension of the tree
	others []ask // and in others
	down   bool  // descending
	level  int
	path   [maxDepth + 1]step // the position looked at last, per level
	astray bool               // nothing was found since the cursor came down
}

type ask struct{ other, need int32 }

func (c *cursor) start(t *tree, need *capacity, down bool) {
	c.t, c.first, c.down, c.others = t, need[t.first], down, c.others[:0]
	c.astray = false
	for o, d := range t.others {
		if need[d] > 0 {
			c.others = append(c.others, ask{int32(o), need[d]})
		}
	}
}

// ascend starts at the first key that is at least from.
func (c *cursor) ascend(t *tree, from uint64, need capacity) {
	c.start(t, &need, false)
	c.level = t.depth
	at := t.root
	for l := range t.depth {
		i := t.nodes[at].child(from)
		c.path[l] = step{at, i}
		at = t.nodes[at].entries[i].ref
	}
	c.path[t.depth] = step{at, t.nodes[at].lowerBound(from) - 1}
}

// descend starts at the last key.
func (c *cursor) descend(t *tree, need capacity) {
	c.start(t, &need, true)
	c.level = 0
	c.path[0] = step{t.root, t.nodes[t.root].n}
}

// covers reports whether an entry has what is needed.
func (c *cursor) covers(nd *node, i int32) bool {
	if nd.entries[i].cap < c.first {
		return false
	}
	for _, a := range c.others {
		if nd.others[a.other][i] < a.need {
			return false
		}
	}
	return true
}

// next returns the next entry that covers the need.
func (c *cursor) next() (key uint64, ref int32, ok bool) {
	t := c.t
	by := int32(1)
	if c.down {
		by = -1
	}
	for {
		at := &c.path[c.level]
		nd := &t.nodes[at.node]
		i, end := at.i+by, nd.n
		if c.down {
			end = -1
		}
		for i != end && !c.covers(nd, i) {
			i += by
		}
		at.i = i
		switch {
		case i == end && c.level == 0:
			at.i -= by // the next call ends here again
			return 0, 0, false
		case i == end:
			c.level--
			if c.astray { // the bound has promised what is not there
				most := t.most(nd)
				t.setCapacity(&t.nodes[c.path[c.level].node], c.path[c.level].i, &most)
			}
		case c.level == t.depth:
			c.astray = false
			c.remember()
			return nd.entries[i].key, nd.entries[i].ref, true
		default:
			below := nd.entries[i].ref
			c.level++
			c.astray = true
			c.path[c.level] = step{below, -1}
			if c.down {
				c.path[c.level].i = t.nodes[below].n
			}
		}
	}
}

// remember tells the tree where the cursor is.
func (c *cursor) remember() {
	w := &c.t.last
	copy(w.path[:c.level], c.path[:c.level])
	w.leaf, w.shape = c.path[c.level], c.t.shape
}
