package parallel

import "context"

// A tree combines the blocks of a shape. A node of the tree covers 2ᵏ blocks, and its first block
// is a multiple of 2ᵏ. So the nodes do not depend on the distribution of blocks to ranks. The
// tree keeps only the largest complete nodes:
//
//	block  0 1 2 3 4 5 6 7 8 9 10    the nodes after block 10:  [0,8) [8,10) [10,11)
//	rank   0 0 0 0 1 1 1 1 2 2 2     rank 1 sends [4,8), which makes [0,8) with [0,4)
//
// A node holds one value for each line. A shape of one axis has one line. A shape of several axes
// has one line for each position of the axes that are not divided.
type tree[E any] struct {
	join  func(a, b E) E
	lines int
	nodes []node[E]
	spare [][]E // slices of former nodes, for reuse
}

type node[E any] struct {
	first, blocks int
	v             []E
	before        []E // all nodes up to and including this one; nil until it is needed
}

// push adds the value of the next blocks. The tree keeps v.
func (t *tree[E]) push(first, blocks int, v []E) {
	for len(t.nodes) > 0 {
		top := &t.nodes[len(t.nodes)-1]
		if top.blocks != blocks || top.first%(2*blocks) != 0 {
			break
		}
		for i, x := range v {
			top.v[i] = t.join(top.v[i], x)
		}
		t.spare = append(t.spare, v)
		if len(t.nodes) > 1 && top.before != nil {
			t.spare = append(t.spare, top.before)
		}
		v, first, blocks = top.v, top.first, 2*blocks
		t.nodes = t.nodes[:len(t.nodes)-1]
	}
	t.nodes = append(t.nodes, node[E]{first: first, blocks: blocks, v: v})
}

// take returns a slice for the value of a node. Its elements are undefined.
func (t *tree[E]) take() []E {
	if n := len(t.spare); n > 0 {
		v := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return v
	}
	return make([]E, t.lines)
}

// prefix sets the slice to to the combination of all blocks so far.
func (t *tree[E]) prefix(to []E, identity E) {
	if len(t.nodes) == 0 {
		for i := range to {
			to[i] = identity
		}
		return
	}
	from := len(t.nodes) - 1
	for from > 0 && t.nodes[from].before == nil {
		from--
	}
	t.nodes[0].before = t.nodes[0].v
	for k := max(from, 1); k < len(t.nodes); k++ {
		n := &t.nodes[k]
		if n.before != nil {
			continue
		}
		n.before = t.take()
		for i, x := range t.nodes[k-1].before {
			n.before[i] = t.join(x, n.v[i])
		}
	}
	copy(to, t.nodes[len(t.nodes)-1].before)
}

// treeOf returns the tree of the nodes of several ranks.
func treeOf[E any](like *tree[E], nodes [][]node[E]) *tree[E] {
	t := &tree[E]{join: like.join, lines: like.lines}
	for _, list := range nodes {
		for _, n := range list {
			t.push(n.first, n.blocks, n.v)
		}
	}
	return t
}

// spans lists the nodes that a tree holds after the blocks from a to b−1. An entry holds the
// first block and the number of blocks.
func spans(a, b int) (list [][2]int) {
	for a < b {
		n := 1
		for a%(2*n) == 0 && a+2*n <= b {
			n *= 2
		}
		list = append(list, [2]int{a, n})
		a += n
	}
	return list
}

// blocksOf returns the blocks of a rank as the tree counts them. If back is true, the tree counts
// from the last block.
func (s *Shape) blocksOf(rank int, back bool) (a, b int) {
	if back {
		return s.blocks - s.first[rank+1], s.blocks - s.first[rank]
	}
	return s.first[rank], s.first[rank+1]
}

// gatherNodes exchanges the nodes of all ranks, and returns the nodes of each rank. own holds the
// nodes of this rank.
func gatherNodes[E any](ctx context.Context, s *Shape, own *tree[E], back bool) ([][]node[E], error) {
	m := s.m
	var mine []E
	for _, n := range own.nodes {
		mine = append(mine, n.v...)
	}
	pieces, wants := make([]piece, 0, m.size), make([]want, 0, m.size)
	all, lists := make([][]E, m.size), make([][][2]int, m.size)
	for i := range m.size {
		r := (m.rank + 1 + i) % m.size
		lists[r] = spans(s.blocksOf(r, back))
		all[r] = mine
		if r == m.rank {
			continue
		}
		all[r] = make([]E, len(lists[r])*own.lines)
		if len(mine) > 0 {
			pieces = append(pieces, piece{to: r, data: bytesOf(mine)})
		}
		if len(all[r]) > 0 {
			wants = append(wants, want{from: r, buf: bytesOf(all[r])})
		}
	}
	if err := m.exchange(ctx, pieces, wants); err != nil {
		return nil, err
	}
	nodes := make([][]node[E], m.size)
	for r, list := range lists {
		for i, span := range list {
			v := all[r][i*own.lines : (i+1)*own.lines : (i+1)*own.lines]
			if r == m.rank { // its pieces are in flight, and push changes v
				v = append([]E(nil), v...)
			}
			nodes[r] = append(nodes[r], node[E]{first: span[0], blocks: span[1], v: v})
		}
	}
	return nodes, nil
}
