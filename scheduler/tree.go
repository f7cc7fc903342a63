package scheduler

// fanout is how many entries a node holds: wide enough that 50,000 workers are
// three levels, small enough that a node is a few cache lines per question.
const fanout = 64

// maxDepth bounds the levels below the root. A node that runs low joins its
// neighbour, so even 2^32 entries need fewer.
const maxDepth = 12

// dimensions is how many quantities a search can ask for at once.
const dimensions = 4

// capacity is what an entry can give, by dimension, or the most that any entry
// below a node can give. A dimension that a tree does not track is 0.
type capacity [dimensions]int32

// node is an inner node or a leaf. In a leaf an entry is (key, capacity,
// worker's slot); in an inner node it is (a key that is not above any below,
// the most of each dimension below, node). Each quantity is an array of its
// own, because what a search costs is the cache lines that it touches.
type node struct {
	n    int32
	refs [fanout]int32
	keys [fanout]uint64
	caps [dimensions][fanout]int32
}

// tree is a B+ tree of unique keys whose inner entries know the most that is
// to be had below them, so that a search in key order passes over what cannot
// answer it. Nodes live in one slice and refer to each other by position.
type tree struct {
	dims  []int // that are tracked
	nodes []node
	spare []int32 // nodes out of use
	root  int32
	depth int // levels below the root
	size  int
}

func newTree(dims ...int) *tree { return &tree{dims: dims, nodes: make([]node, 1)} }

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

func (t *tree) put(nd *node, i int32, key uint64, c *capacity, ref int32) {
	copy(nd.keys[i+1:nd.n+1], nd.keys[i:nd.n])
	copy(nd.refs[i+1:nd.n+1], nd.refs[i:nd.n])
	nd.keys[i], nd.refs[i] = key, ref
	for _, d := range t.dims {
		copy(nd.caps[d][i+1:nd.n+1], nd.caps[d][i:nd.n])
		nd.caps[d][i] = c[d]
	}
	nd.n++
}

func (t *tree) cut(nd *node, i int32) {
	copy(nd.keys[i:nd.n-1], nd.keys[i+1:nd.n])
	copy(nd.refs[i:nd.n-1], nd.refs[i+1:nd.n])
	for _, d := range t.dims {
		copy(nd.caps[d][i:nd.n-1], nd.caps[d][i+1:nd.n])
	}
	nd.n--
}

// move appends the entries of a node from a position on to another one.
func (t *tree) move(to, from *node, i int32) {
	copy(to.keys[to.n:], from.keys[i:from.n])
	copy(to.refs[to.n:], from.refs[i:from.n])
	for _, d := range t.dims {
		copy(to.caps[d][to.n:], from.caps[d][i:from.n])
	}
	to.n += from.n - i
	from.n = i
}

// most is the most of each dimension in a node.
func (t *tree) most(nd *node) (m capacity) {
	for _, d := range t.dims {
		for _, v := range nd.caps[d][:nd.n] {
			m[d] = max(m[d], v)
		}
	}
	return m
}

func (t *tree) capacity(nd *node, i int32) (c capacity) {
	for _, d := range t.dims {
		c[d] = nd.caps[d][i]
	}
	return c
}

func (t *tree) setCapacity(nd *node, i int32, c *capacity) {
	for _, d := range t.dims {
		nd.caps[d][i] = c[d]
	}
}

func (t *tree) raise(nd *node, i int32, c *capacity) {
	for _, d := range t.dims {
		if c[d] > nd.caps[d][i] {
			nd.caps[d][i] = c[d]
		}
	}
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
		most := t.most(&t.nodes[old])
		t.put(&t.nodes[root], 0, t.nodes[old].keys[0], &most, old)
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
		if key < nd.keys[i] {
			nd.keys[i] = key
		}
		t.raise(nd, i, &c)
		at = nd.refs[i]
	}
	nd := &t.nodes[at]
	t.put(nd, nd.lowerBound(key), key, &c, ref)
}

// split moves the upper half of a full child to a new node beside it.
func (t *tree) split(at, i int32) {
	made := t.alloc() // may move the nodes
	parent := &t.nodes[at]
	from, to := &t.nodes[parent.refs[i]], &t.nodes[made]
	t.move(to, from, fanout/2)
	most := t.most(from)
	t.setCapacity(parent, i, &most)
	most = t.most(to)
	t.put(parent, i+1, to.keys[0], &most, made)
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
	lost := t.capacity(nd, leaf.i)
	t.cut(nd, leaf.i)
	t.size--
	t.repair(&path, &lost)
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
	nd := &t.nodes[leaf.node]
	old := t.capacity(nd, leaf.i)
	t.setCapacity(nd, leaf.i, &c)
	for l := t.depth - 1; l >= 0; l-- {
		t.raise(&t.nodes[path[l].node], path[l].i, &c)
	}
	t.repair(&path, &old)
}

// repair makes the inner entries on a way true again after a leaf on it has
// lost something, and joins nodes that have run low.
func (t *tree) repair(path *[maxDepth]step, lost *capacity) {
	for l := t.depth - 1; l >= 0; l-- {
		parent, i := &t.nodes[path[l].node], path[l].i
		child := &t.nodes[parent.refs[i]]
		low := child.n < fanout/4
		if low && t.join(parent, i) {
			continue // what the parent knows of the joined child is true
		}
		shows := false
		for _, d := range t.dims {
			shows = shows || (lost[d] > 0 && lost[d] >= parent.caps[d][i])
		}
		switch {
		case shows:
			most := t.most(child)
			t.setCapacity(parent, i, &most)
		case !low:
			return // above, the most is at least this, so nothing shows there
		}
	}
}

// join moves what a child holds to a neighbour with room, or the other way
// round, and drops the emptied one. An empty child is dropped anyway if it has
// neighbours.
func (t *tree) join(parent *node, i int32) bool {
	into := i
	switch {
	case t.nodes[parent.refs[i]].n == 0 && parent.n > 1:
		t.spare = append(t.spare, parent.refs[i])
		t.cut(parent, i)
		return true
	case i > 0 && t.nodes[parent.refs[i-1]].n <= fanout/2:
		into = i - 1
	case i+1 < parent.n && t.nodes[parent.refs[i+1]].n <= fanout/2:
	default:
		return false
	}
	left, right := &t.nodes[parent.refs[into]], &t.nodes[parent.refs[into+1]]
	t.move(left, right, 0)
	t.spare = append(t.spare, parent.refs[into+1])
	most := t.most(left)
	t.setCapacity(parent, into, &most)
	t.cut(parent, into+1)
	return true
}

// cursor visits entries in key order, passing over those whose capacity does
// not cover a need. The tree must not change meanwhile.
type cursor struct {
	t     *tree
	need  capacity
	asked []int // dimensions in which something is needed
	down  bool  // descending
	level int
	path  [maxDepth + 1]step // the next position to look at, per level
}

func (c *cursor) start(t *tree, need capacity, down bool) {
	c.t, c.need, c.down, c.asked = t, need, down, c.asked[:0]
	for _, d := range t.dims {
		if need[d] > 0 {
			c.asked = append(c.asked, d)
		}
	}
}

// ascend starts at the first key that is at least from.
func (c *cursor) ascend(t *tree, from uint64, need capacity) {
	c.start(t, need, false)
	c.level = t.depth
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
	c.start(t, need, true)
	c.level = 0
	c.path[0] = step{t.root, t.nodes[t.root].n - 1}
}

// covers reports whether an entry has what is needed.
func (c *cursor) covers(nd *node, i int32) bool {
	for _, d := range c.asked {
		if nd.caps[d][i] < c.need[d] {
			return false
		}
	}
	return true
}

// next returns the next entry that covers the need.
func (c *cursor) next() (key uint64, ref int32, ok bool) {
	for c.level >= 0 {
		at := &c.path[c.level]
		nd := &c.t.nodes[at.node]
		i, by, end := at.i, int32(1), nd.n
		if c.down {
			by, end = -1, -1
		}
		for i != end && !c.covers(nd, i) {
			i += by
		}
		if i == end {
			c.level--
			continue
		}
		at.i = i + by
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
