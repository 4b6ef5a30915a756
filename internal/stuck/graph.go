package stuck

import "slices"

// node is a rank, or an operation of a group in which ranks wait. Operations keep the graph
// small: each of n ranks waits for one operation, and the operation waits for the ranks that have
// not entered it.
type node struct {
	k        *rank // nil: an operation
	to, from []*node
	// The node is a rank that waits for no other rank although others wait for it, or is in a
	// cycle of messages.
	hard  bool
	leads bool // it waits for such a rank, directly or through others

	order, low int // by Tarjan's algorithm
	on         bool
}

// mostSteps limits the number of operations of one group in the graph. In a group that works,
// members are in one or two operations.
const mostSteps = 64

// draw makes the graph of waits between the ranks.
func (a *analysis) draw() {
	for _, k := range a.ranks {
		k.node = &node{k: k}
		a.nodes = append(a.nodes, k.node)
	}
	for _, g := range a.groups {
		for _, m := range g.members {
			if m.k.in == m.g {
				m.k.group = g
			}
		}
		steps := g.steps()
		for _, s := range steps[:min(len(steps), mostSteps)] {
			a.drawStep(g, s)
		}
	}
	for _, k := range a.ranks {
		if k.does != doesWaits {
			continue
		}
		for _, w := range k.waits {
			if p := a.rankOf(w.Peer); p != nil && !slices.Contains(k.node.to, p.node) {
				k.node.join(p.node)
			}
		}
	}
	for _, n := range a.nodes {
		n.hard = n.k != nil && len(n.from) > 0 && n.k.does != doesOperation && n.k.does != doesWaits
	}
}

func (n *node) join(to *node) { n.to, to.from = append(n.to, to), append(to.from, n) }

// drawStep connects an operation with the members that wait in it, and with the members for which
// it waits. In a broadcast, the others wait only for its root.
func (a *analysis) drawStep(g *group, s *step) {
	if !slices.ContainsFunc(s.in, func(m member) bool { return m.k.does == doesOperation && m.stands() }) {
		return
	}
	var op *node
	late := func(k *rank) {
		if op == nil {
			op = &node{}
			a.nodes = append(a.nodes, op)
		}
		k.behind = true
		op.join(k.node)
	}
	for i := range g.members {
		m := &g.members[i]
		other := m.stands() && m.g.In.Number == s.Number && *m.g.In != *s.GroupStep
		if (m.isBehind(s.Number) || other) &&
			(s.Kind != "broadcast" || a.rankOf(s.Root) == m.k || a.rankOf(s.Root) == nil || a.rootStands(s)) {
			late(m.k)
		}
	}
	for _, k := range a.unseen(g) {
		late(k)
	}
	if op == nil {
		return
	}
	for i := range s.in {
		if m := &s.in[i]; m.stands() && m.k.does == doesOperation {
			m.k.node.join(op)
		}
	}
}

// rootStands reports whether the root of a broadcast is in it. The root waits for all members.
func (a *analysis) rootStands(s *step) bool {
	root := a.rankOf(s.Root)
	return slices.ContainsFunc(s.in, func(m member) bool { return m.k == root })
}

// waiting counts the other ranks that wait for the given ranks, directly or through others.
func (a *analysis) waiting(ranks ...*rank) (n int) {
	seen := map[*node]bool{}
	var queue []*node
	for _, k := range ranks {
		seen[k.node] = true
		queue = append(queue, k.node)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, o := range at.from {
			if !seen[o] {
				seen[o] = true
				queue = append(queue, o)
				if o.k != nil {
					n++
				}
			}
		}
	}
	return n
}

// findLeads marks the nodes that wait for a hard node.
func (a *analysis) findLeads() {
	var queue []*node
	for _, n := range a.nodes {
		if n.hard {
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, o := range queue[0].from {
			if !o.leads {
				o.leads = true
				queue = append(queue, o)
			}
		}
	}
}

// knots lists the sets of nodes that all wait for each other, by Tarjan's algorithm. If messages
// is true, operations of groups do not count.
func (a *analysis) knots(messages bool) (l [][]*node) {
	t := tarjan{messages: messages}
	for _, n := range a.nodes {
		n.order, n.low, n.on = 0, 0, false
	}
	for _, n := range a.nodes {
		if n.order == 0 && t.counts(n) {
			t.visit(n)
		}
	}
	return t.found
}

type tarjan struct {
	messages bool
	order    int
	stack    []*node
	found    [][]*node
}

func (t *tarjan) counts(n *node) bool { return n.k != nil || !t.messages }

func (t *tarjan) visit(n *node) {
	t.order++
	n.order, n.low, n.on = t.order, t.order, true
	t.stack = append(t.stack, n)
	for _, o := range n.to {
		switch {
		case !t.counts(o):
		case o.order == 0:
			t.visit(o)
			n.low = min(n.low, o.low)
		case o.on:
			n.low = min(n.low, o.order)
		}
	}
	if n.low != n.order {
		return
	}
	at := slices.Index(t.stack, n)
	knot := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, o := range knot {
		o.on = false
	}
	if len(knot) > 1 || slices.Contains(n.to, n) {
		t.found = append(t.found, knot)
	}
}

// cycle finds a shortest path from the lowest rank of a knot back to it, and returns its ranks
// without the operations in between.
func cycle(knot []*node, messages bool) (ranks []*rank) {
	var first *node
	in := map[*node]bool{}
	for _, n := range knot {
		in[n] = true
		if n.k != nil && (first == nil || n.k.n < first.k.n) {
			first = n
		}
	}
	before := map[*node]*node{}
	for queue := []*node{first}; before[first] == nil; queue = queue[1:] {
		for _, o := range queue[0].to {
			if in[o] && before[o] == nil && (o.k != nil || !messages) {
				before[o] = queue[0]
				queue = append(queue, o)
			}
		}
	}
	for at := before[first]; ; at = before[at] {
		if at.k != nil {
			ranks = append(ranks, at.k)
		}
		if at == first {
			break
		}
	}
	slices.Reverse(ranks)
	return ranks
}
