package stuck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
)

// States of a GroupStanding.
const (
	groupJoining = "joining"
	groupBroken  = "broken"
)

// group is a group of the job, as the NICs of its members report it.
type group struct {
	name    string
	index   uint32
	part    bool
	size    int
	members []member // by rank
	state   string   // broken if any member reports that, joining if all do
}

// member is a rank of the job in a group.
type member struct {
	k *rank
	g *ctl.GroupStanding
}

// findGroups collects the groups of the ranks.
func (a *analysis) findGroups() {
	type key struct {
		name  string
		index uint32
		part  bool
	}
	found := map[key]*group{}
	for _, k := range a.ranks {
		if k.row == nil || k.row.Standing == nil {
			continue
		}
		for i := range k.row.Standing.Groups {
			s := &k.row.Standing.Groups[i]
			g := found[key{s.Group, s.Index, s.Part}]
			if g == nil {
				g = &group{name: s.Group, index: s.Index, part: s.Part, state: groupJoining}
				found[key{s.Group, s.Index, s.Part}] = g
				a.groups = append(a.groups, g)
			}
			g.members = append(g.members, member{k, s})
			g.size = max(g.size, s.Size)
			if s.State == groupBroken || s.State != groupJoining && g.state == groupJoining {
				g.state = s.State
			}
		}
	}
	slices.SortFunc(a.groups,
		func(x, y *group) int { return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.index, y.index)) })
}

func (g *group) title() string {
	if !g.part {
		if g.index == 0 {
			return "group " + g.name
		}
		return fmt.Sprintf("group %s (shrunk %s)", g.name, count(int(g.index), "time"))
	}
	var in []int
	for _, m := range g.members {
		in = append(in, m.k.n)
	}
	return "the part of a group with " + ranksText(in)
}

// stands reports whether m waits in an operation of a group that is not broken.
func (m *member) stands() bool { return m.g.In != nil && m.g.State != groupBroken }

// isBehind reports whether m has neither entered nor done an operation.
func (m *member) isBehind(number uint32) bool {
	at := m.g.Done
	if m.stands() {
		at = m.g.In.Number
	}
	return int32(at-number) < 0 || m.g.State == groupJoining && number > 0
}

// step is an operation and the members that stand in it, or stood in it when the group broke.
type step struct {
	*ctl.GroupStep
	in []member
}

func (s *step) ranks() (l []int) {
	for _, m := range s.in {
		l = append(l, m.k.n)
	}
	return l
}

// longest returns the time of the member that has been in the operation longest.
func (s *step) longest() (d int64) {
	for _, m := range s.in {
		d = max(d, m.g.For)
	}
	return d
}

// steps lists the operations that members are in: the operations with the most members first,
// then the latest. Members of a broken group count for the operation that failed.
func (g *group) steps() (l []*step) {
	found := map[ctl.GroupStep]*step{}
	for _, m := range g.members {
		if m.g.In == nil {
			continue
		}
		s := found[*m.g.In]
		if s == nil {
			s = &step{GroupStep: m.g.In}
			found[*m.g.In] = s
			l = append(l, s)
		}
		s.in = append(s.in, m)
	}
	slices.SortStableFunc(l, func(x, y *step) int {
		return cmp.Or(cmp.Compare(len(y.in), len(x.in)), cmp.Compare(int32(y.Number-x.Number), 0))
	})
	return l
}

// disagreements lists the different operations that members do under one number. It looks at the
// number where most members are. If the members agree, it returns nil.
func (g *group) disagreements() []*step {
	all := g.steps()
	for i, s := range all {
		same := []*step{s}
		for _, o := range all[i+1:] {
			if o.Number == s.Number {
				same = append(same, o)
			}
		}
		if len(same) > 1 {
			return same
		}
	}
	return nil
}

// failed returns a member with an operation that failed since the group broke, or nil.
func (g *group) failed() *member {
	for i := range g.members {
		if m := &g.members[i]; m.g.State == groupBroken && m.g.In != nil {
			return m
		}
	}
	return nil
}

// unseen returns the ranks of the job that are not in a group, if the group has or expects all
// ranks. In any other group, the names of the missing members are not known.
func (a *analysis) unseen(g *group) (l []*rank) {
	if g.size != len(a.ranks) || len(g.members) == g.size {
		return nil
	}
	in := map[*rank]bool{}
	for _, m := range g.members {
		in[m.k] = true
	}
	for _, k := range a.ranks {
		if !in[k] {
			l = append(l, k)
		}
	}
	return l
}

// groupReports describes each group in which a member waits, and each group that broke.
func (a *analysis) groupReports() (l []Group) {
	for _, g := range a.groups {
		steps := g.steps()
		if len(steps) == 0 {
			continue
		}
		s := steps[0]
		r := Group{Title: g.title(), Group: g.name, Index: g.index, State: g.state, Size: g.size, Step: s.GroupStep,
			In: s.ranks(), For: s.longest()}
		switch {
		case g.state == groupBroken:
			a.brokenReport(g, &r)
		default:
			r.Text = fmt.Sprintf("%d of %d members %s in %s: %s", len(s.in), g.size, wait(r.For),
				numberedText(s.GroupStep), ranksText(r.In))
			r.Missing = a.missing(g, s)
		}
		l = append(l, r)
	}
	return l
}

func (a *analysis) brokenReport(g *group, r *Group) {
	if all := g.disagreements(); all != nil {
		r.Text = fmt.Sprintf("broke: its members did different things in operation %d", all[0].Number)
		for _, s := range all {
			for _, m := range s.in {
				r.Missing = append(r.Missing,
					Missing{m.k.n, fmt.Sprintf("called %s; now it %s", stepText(s.GroupStep), m.k.text())})
			}
		}
		return
	}
	failed := failedText(g.steps()[0])
	r.Text = "broke: " + failed
	if m := g.failed(); m != nil && m.g.Mismatch {
		r.Text = "broke: its members did different things, and " + failed
	} else if m != nil && m.g.Lost != "" {
		r.Text = fmt.Sprintf("broke when %s left: %s", m.g.Lost, failed)
	}
	for _, m := range g.members {
		r.Missing = append(r.Missing, Missing{m.k.n, m.k.text()})
	}
}

// missing lists the members that are not in the operation of most members.
func (a *analysis) missing(g *group, s *step) (l []Missing) {
	for _, m := range g.members {
		switch {
		case slices.ContainsFunc(s.in, func(o member) bool { return o.k == m.k }):
		case m.stands() && m.k.in == m.g:
			l = append(l, Missing{m.k.n, m.k.text()})
		case m.stands():
			l = append(l, Missing{m.k.n,
				fmt.Sprintf("stands in %s, operation %d; it %s", stepText(m.g.In), m.g.In.Number, m.k.text())})
		case m.g.Done == 0:
			l = append(l, Missing{m.k.n, "has done no operation yet; it " + m.k.text()})
		default:
			l = append(l, Missing{m.k.n, fmt.Sprintf("has done operation %d; it %s", m.g.Done, m.k.text())})
		}
	}
	for _, k := range a.unseen(g) {
		l = append(l, Missing{k.n, k.text()})
	}
	slices.SortFunc(l, func(x, y Missing) int { return cmp.Compare(x.Rank, y.Rank) })
	return l
}

// stepText describes an operation.
func stepText(s *ctl.GroupStep) string {
	switch s.Kind {
	case "join":
		return "the join"
	case "barrier":
		return "a barrier"
	case "broadcast":
		return "a broadcast from " + s.Root
	case "reduce":
		if s.Root == "" {
			return "a reduction to all"
		}
		return "a reduction to " + s.Root
	}
	return strings.ToLower(s.Kind)
}

func numberedText(s *ctl.GroupStep) string {
	if s.Kind == "join" {
		return "the join"
	}
	return fmt.Sprintf("operation %d, %s", s.Number, stepText(s))
}

func failedText(s *step) string {
	return fmt.Sprintf("operation %d, %s, failed at %s", s.Number, stepText(s.GroupStep), ranksText(s.ranks()))
}
