package scheduler

// fanout is how many entries a node holds: wide enough that 50,000 workers are
// four levels, small enough that a node is a few cache lines per question.
const fanout = 32

// maxDepth bounds the levels below the root. A node that runs low joins its
// neighbour, so even 2^32 entries need fewer.
const maxDepth = 12

// capacity is what an entry can give, by dimension, or the most that any entry
// below a node can give. A dimension that is not tracked is 0 everywhere.
type capacity [4]int32

// covers reports whether each dimension is at least that of need.
func (c *capacity) covers(need *capacity) bool {
	return c[0] >= need[0] && c[1] >= need[1] && c[2] >= need[2] && c[3] >= need[3]
}

func (c *capacity) raise(by *capacity) {
	for d, v := range by {
		c[d] = max(c[d], v)
	}
}

// node is an inner node or a leaf. In a leaf an entry is (key, capacity,
// worker's slot); in an inner node it is (a key that is not above any below,
// the most of each dimension below, node).
type node struct {
	n    int32
	refs [fanout]int32
	keys [fanout]uint64
	caps [fanout]capacity
}

// tree is a B+ tree of unique keys whose inner entries know the most that is
// to be had below them, so that a search in key order passes over what cannot
// answer it. Nodes live in one slice and refer to each other by position.
type tree struct {
	nodes []node
	spare []int32 // nodes out of use
	root  int32
	depth int // levels below the root
	size  int
}

func newTree() *tree { return &tree{nodes: make([]node, 1)} }

// step is a position in a node.
type step struct{ node, i int32 }

// child is the entry of an inner node below which key belongs.
func (nd *node) child(key uint64) int32 { return max(nd.lowerBound(key+1)-1, 0) }

// lowerBound is the first position whose key is at least key.
func (nd *node) lowerBound(key uint64) int32 {
	lo, n := int32(0), nd.n
	for n > 0 {
		half := n / 2
		if nd.keys[lo+half] < key {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return lo
}

func (nd *node) insert(i int32, key uint64, c capacity, ref int32) {
	copy(nd.keys[i+1:nd.n+1], nd.keys[i:nd.n])
	copy(nd.caps[i+1:nd.n+1], nd.caps[i:nd.n])
	copy(nd.refs[i+1:nd.n+1], nd.refs[i:nd.n])
	nd.keys[i], nd.caps[i], nd.refs[i] = key, c, ref
	nd.n++
}

func (nd *node) remove(i int32) {
	copy(nd.keys[i:nd.n-1], nd.keys[i+1:nd.n])
	copy(nd.caps[i:nd.n-1], nd.caps[i+1:nd.n])
	copy(nd.refs[i:nd.n-1], nd.refs[i+1:nd.n])
	nd.n--
}

// most is the most of each dimension in a node.
func (nd *node) most() capacity {
	var m capacity
	for i := range nd.n {
		m.raise(&nd.caps[i])
	}
	return m
}

func (t *tree) alloc() int32 {
	if n := len(t.spare); n > 0 {
		at := t.spare[n-1]
		t.spare = t.spare[:n-1]
		t.nodes[at].n = 0
		return at
	}
	t.nodes = append(t.nodes, node{})
	return int32(len(t.nodes) - 1)
}

// insert adds an entry whose key is not present. Full nodes are split on the
// way down.
func (t *tree) insert(key uint64, c capacity, ref int32) {
	t.size++
	if t.nodes[t.root].n == fanout {
		old, root := t.root, t.alloc()
		t.root = root
		t.depth++
		t.nodes[root].insert(0, t.nodes[old].keys[0], t.nodes[old].most(), old)
		t.split(root, 0)
	}
	at := t.root
	for range t.depth {
		i := t.nodes[at].child(key)
		if t.nodes[t.nodes[at].refs[i]].n == fanout {
			t.split(at, i)
			i = t.nodes[at].child(key)
		}
		nd := &t.nodes[at]
		nd.keys[i] = min(nd.keys[i], key)
		nd.caps[i].raise(&c)
		at = nd.refs[i]
	}
	nd := &t.nodes[at]
	nd.insert(nd.lowerBound(key), key, c, ref)
}

// split moves the upper half of a full child to a new node beside it.
func (t *tree) split(at, i int32) {
	made := t.alloc() // may move the nodes
	parent := &t.nodes[at]
	from, to := &t.nodes[parent.refs[i]], &t.nodes[made]
	const half = fanout / 2
	copy(to.keys[:], from.keys[half:])
	copy(to.caps[:], from.caps[half:])
	copy(to.refs[:], from.refs[half:])
	from.n, to.n = half, fanout-half
	parent.caps[i] = from.most()
	parent.insert(i+1, to.keys[0], to.most(), made)
}

// find walks to the entry with the key, which must be present, and notes the
// way.
func (t *tree) find(key uint64, path *[maxDepth]step) step {
	at := t.root
	for l := range t.depth {
		nd := &t.nodes[at]
		i := nd.child(key)
		path[l] = step{at, i}
		at = nd.refs[i]
	}
	i := t.nodes[at].lowerBound(key)
	if i == t.nodes[at].n || t.nodes[at].keys[i] != key {
		panic("scheduler: a worker is not where the index says")
	}
	return step{at, i}
}

// remove takes out the entry with the key, which must be present.
func (t *tree) remove(key uint64) {
	var path [maxDepth]step
	leaf := t.find(key, &path)
	nd := &t.nodes[leaf.node]
	lost := nd.caps[leaf.i]
	nd.remove(leaf.i)
	t.size--
	t.repair(&path, lost)
	for t.depth > 0 && t.nodes[t.root].n == 1 {
		t.spare = append(t.spare, t.root)
		t.root = t.nodes[t.root].refs[0]
		t.depth--
	}
}

// set changes the capacity of the entry with the key, which must be present.
func (t *tree) set(key uint64, c capacity) {
	var path [maxDepth]step
	leaf := t.find(key, &path)
	old := t.nodes[leaf.node].caps[leaf.i]
	if old == c {
		return
	}
	t.nodes[leaf.node].caps[leaf.i] = c
	for l := t.depth - 1; l >= 0; l-- {
		t.nodes[path[l].node].caps[path[l].i].raise(&c)
	}
	t.repair(&path, old)
}

// repair makes the inner entries on a way true again after a leaf on it has
// lost something, and joins nodes that have run low.
func (t *tree) repair(path *[maxDepth]step, lost capacity) {
	for l := t.depth - 1; l >= 0; l-- {
		parent, i := &t.nodes[path[l].node], path[l].i
		child := &t.nodes[parent.refs[i]]
		if child.n < fanout/4 && t.join(parent, i) {
			continue // what the parent knows of the joined child is true
		}
		if !mayShow(&parent.caps[i], &lost) {
			// Above, the most is at least this, so nothing shows there either;
			// but a parent that lost an entry may have run low.
			if child.n >= fanout/4 {
				return
			}
			continue
		}
		parent.caps[i] = child.most()
	}
}

// mayShow reports whether the most of some dimension may have been lost.
func mayShow(most, lost *capacity) bool {
	for d, v := range lost {
		if v > 0 && v >= most[d] {
			return true
		}
	}
	return false
}

// join moves what a child holds to a neighbour with room and drops the child.
// An empty child is dropped even without a neighbour.
func (t *tree) join(parent *node, i int32) bool {
	child := &t.nodes[parent.refs[i]]
	into := i
	switch {
	case child.n == 0 && parent.n > 1:
		t.spare = append(t.spare, parent.refs[i])
		parent.remove(i)
		return true
	case i > 0 && t.nodes[parent.refs[i-1]].n <= fanout/2:
		into = i - 1
	case i+1 < parent.n && t.nodes[parent.refs[i+1]].n <= fanout/2:
		into = i
	default:
		return false
	}
	left, right := &t.nodes[parent.refs[into]], &t.nodes[parent.refs[into+1]]
	copy(left.keys[left.n:], right.keys[:right.n])
	copy(left.caps[left.n:], right.caps[:right.n])
	copy(left.refs[left.n:], right.refs[:right.n])
	left.n += right.n
	t.spare = append(t.spare, parent.refs[into+1])
	parent.caps[into] = left.most()
	parent.remove(into + 1)
	return true
}

// cursor visits entries in key order, passing over those whose capacity does
// not cover a need. The tree must not change meanwhile.
type cursor struct {
	t     *tree
	need  capacity
	down  bool // descending
	level int
	path  [maxDepth + 1]step // the next position to look at, per level
}

// ascend starts at the first key that is at least from.
func (c *cursor) ascend(t *tree, from uint64, need capacity) {
	c.t, c.need, c.down, c.level = t, need, false, t.depth
	at := t.root
	for l := range t.depth {
		i := t.nodes[at].child(from)
		c.path[l] = step{at, i + 1}
		at = t.nodes[at].refs[i]
	}
	c.path[t.depth] = step{at, t.nodes[at].lowerBound(from)}
}

// descend starts at the last key.
func (c *cursor) descend(t *tree, need capacity) {
	c.t, c.need, c.down, c.level = t, need, true, 0
	c.path[0] = step{t.root, t.nodes[t.root].n - 1}
}

// next returns the next entry that covers the need.
func (c *cursor) next() (key uint64, ref int32, ok bool) {
	for c.level >= 0 {
		at := &c.path[c.level]
		nd := &c.t.nodes[at.node]
		i := at.i
		if c.down {
			for i >= 0 && !nd.caps[i].covers(&c.need) {
				i--
			}
		} else {
			for i < nd.n && !nd.caps[i].covers(&c.need) {
				i++
			}
		}
		switch {
		case i < 0 || i >= nd.n:
			c.level--
			continue
		case c.down:
			at.i = i - 1
		default:
			at.i = i + 1
		}
		if c.level == c.t.depth {
			return nd.keys[i], nd.refs[i], true
		}
		below := nd.refs[i]
		c.level++
		c.path[c.level] = step{below, 0}
		if c.down {
			c.path[c.level].i = c.t.nodes[below].n - 1
		}
	}
	return 0, 0, false
}
