package stuck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
)

// mostCauses limits a report, because causes after the first are rarely read.
const mostCauses = 8

// causes lists the reasons why ranks wait, the most probable first. blamed holds the ranks whose
// waits already have a cause. Less certain causes leave them out.
func (a *analysis) causes() (l []Cause) {
	blamed := map[int]bool{}
	add := func(causes []Cause, more ...int) {
		for _, c := range causes {
			l = append(l, c)
			more = append(more, c.Ranks...)
		}
		for _, n := range more {
			blamed[n] = true
		}
	}
	for _, kind := range []string{CauseEnded, CauseStopped, CauseUninterruptible, CauseNotAttached, CauseOutside} {
		add(a.culprits(kind))
	}
	add(a.hosts())
	add(a.groupCauses(blamed))
	add(a.peerCauses(blamed))
	add(a.cycles(true, blamed))
	add(a.cycles(false, blamed))
	a.findLeads()
	add(a.elsewhere(blamed))
	if len(l) == 0 {
		l = append(l, a.remainder())
	}
	slices.SortStableFunc(l, byKind)
	return l[:min(len(l), mostCauses)]
}

// culprits returns the cause of a kind: the ranks for which others wait, and which wait for no
// other rank.
func (a *analysis) culprits(kind string) []Cause {
	var found []*rank
	for _, k := range a.ranks {
		if k.does == kind && k.node.hard {
			found = append(found, k)
		}
	}
	return a.causeOf(kind, found)
}

// causeOf makes one cause from ranks that do the same.
func (a *analysis) causeOf(kind string, found []*rank) []Cause {
	if len(found) == 0 {
		return nil
	}
	c := Cause{Kind: kind, Waiting: a.waiting(found...)}
	for _, k := range found {
		c.Ranks = append(c.Ranks, k.n)
	}
	if len(found) == 1 {
		c.Text = found[0].place() + " " + found[0].text() + waitingText(c.Waiting)
		return []Cause{c}
	}
	c.Text = ranksText(c.Ranks) + " " + manyTexts[kind] + waitingText(c.Waiting)
	c.Details = details(found)
	return []Cause{c}
}

// manyTexts holds the texts for several ranks.
var manyTexts = map[string]string{
	CauseEnded: "have ended", CauseStopped: "are stopped", CauseUninterruptible: "wait in the kernel",
	CauseNotAttached: "are attached to no daemon",
	CauseOutside:     "run or sleep outside of Weft", CauseTag: "wait for other tags than their messages have",
	CauseUnreachable: "wait for NICs that do not answer",
	CauseOutsider:    "wait for processes that are no ranks of the job", CauseElsewhere: "wait for something else",
}

// details returns a text for each of the first ranks.
func details(found []*rank) (l []string) {
	for i, k := range found {
		if i == mostPlaces {
			return append(l, fmt.Sprintf("and %s", count(len(found)-i, "more rank")))
		}
		l = append(l, k.place()+" "+k.text())
	}
	return l
}

// mostPlaces limits the number of ranks that a sentence names individually.
const mostPlaces = 4

func waitingText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 rank waits for that"
	}
	return fmt.Sprintf("; %d ranks wait for that", n)
}

// hosts returns a cause for each host that sends no information about its ranks.
func (a *analysis) hosts() (l []Cause) {
	for i := range a.f.Silent {
		s := &a.f.Silent[i]
		var there []*rank
		for _, k := range a.ranks {
			if k.silent == s && k.row == nil {
				there = append(there, k)
			}
		}
		c := Cause{Kind: CauseHost, Waiting: a.waiting(there...)}
		for _, k := range there {
			c.Ranks = append(c.Ranks, k.n)
		}
		c.Text = s.text(c.Ranks) + waitingText(c.Waiting)
		l = append(l, c)
	}
	return l
}

// text returns the text about the missing information. ranks may be empty.
func (s *Silent) text(ranks []int) string {
	text := fmt.Sprintf("host %s does not answer: %s", s.Node, s.Why)
	if s.Refused {
		text = fmt.Sprintf("host %s refuses (role observe): %s", s.Node, s.Why)
	}
	switch {
	case len(ranks) == 0:
		return text
	case s.Refused && len(ranks) == 1:
		return ranksText(ranks) + " is not known: " + text
	case s.Refused:
		return ranksText(ranks) + " are not known: " + text
	}
	return text + "; " + ranksText(ranks) + " should be there"
}

// groupCauses finds groups whose members do different things, or which have lost a member.
func (a *analysis) groupCauses(blamed map[int]bool) (l []Cause) {
	for _, g := range a.groups {
		if all := g.disagreements(); all != nil {
			l = append(l, disagreement(g, all))
			for _, s := range all {
				for _, n := range s.ranks() {
					blamed[n] = true
				}
			}
			continue
		}
		if m := g.failed(); m != nil {
			l = append(l, a.breakCauses(g, m)...)
		}
	}
	return l
}

// disagreement returns the cause for a group whose members do different things. The ranks to look
// at are the minority.
func disagreement(g *group, all []*step) Cause {
	c := Cause{Kind: CauseDisagreement}
	var texts []string
	for i, s := range all {
		if i > 0 || len(s.in) == len(all[1].in) {
			c.Ranks = append(c.Ranks, s.ranks()...)
		}
		c.Waiting += len(s.in)
		texts = append(texts, fmt.Sprintf("%s in %s", ranksText(s.ranks()), stepText(s.GroupStep)))
	}
	slices.Sort(c.Ranks)
	slices.Reverse(texts) // the minority first
	verb := "do"
	if g.state == groupBroken {
		verb = "did"
	}
	c.Text = fmt.Sprintf("members of %s %s different things in operation %d: %s", g.title(), verb, all[0].Number,
		strings.Join(texts, ", "))
	return c
}

// breakCauses returns the cause for which a group broke, according to m.
func (a *analysis) breakCauses(g *group, m *member) []Cause {
	s := g.steps()[0]
	failed := failedText(s)
	if m.g.Mismatch {
		return []Cause{{Kind: CauseDisagreement, Waiting: len(s.in),
			Text: fmt.Sprintf("members of %s did different things: %s", g.title(), failed)}}
	}
	if m.g.Lost == "" {
		return nil
	}
	c := Cause{Kind: CauseEnded, Waiting: len(g.members)}
	who := m.g.Lost
	if k := a.rankOf(m.g.Lost); k != nil {
		if k.node.hard && k.does == CauseEnded {
			return nil // this is already a cause
		}
		c.Ranks = []int{k.n}
		who = k.place() + ", which " + k.text() + ","
	}
	c.Text = fmt.Sprintf("%s left %s: %s", who, g.title(), failed)
	return []Cause{c}
}

// peerCauses finds causes in waits for messages, replies and processes.
func (a *analysis) peerCauses(blamed map[int]bool) (l []Cause) {
	found := map[string][]*rank{}
	for _, k := range a.ranks {
		if k.does != doesWaits {
			continue
		}
		w := k.waits[0]
		peer := a.rankOf(w.Peer)
		switch {
		case w.Unreachable:
			found[CauseUnreachable] = append(found[CauseUnreachable], k)
		case k.wrongTag() != nil:
			found[CauseTag] = append(found[CauseTag], k)
		case w.What == "reply" && peer != nil && peer.hasTaken(k, a.f.Job):
			if blamed[k.n] = true; len(l) < mostCauses {
				l = append(l, a.noReply(k, peer))
			}
		case peer == nil && !w.Any && w.Peer != "":
			found[CauseOutsider] = append(found[CauseOutsider], k)
		}
	}
	for _, kind := range []string{CauseUnreachable, CauseTag, CauseOutsider} {
		l = append(l, a.causeOf(kind, found[kind])...)
	}
	return l
}

func (a *analysis) noReply(caller, callee *rank) Cause {
	c := Cause{Kind: CauseNoReply, Ranks: []int{callee.n}, Waiting: a.waiting(callee)}
	c.Text = fmt.Sprintf("%s has taken the call of %s and has not replied: it %s", callee.place(), caller.place(),
		callee.text()) + waitingText(c.Waiting)
	return c
}

// hasTaken reports whether a rank waits for something other than a call, and has received every
// message of the caller.
func (k *rank) hasTaken(caller *rank, job string) bool {
	if k.does != doesWaits && k.does != doesOperation {
		return false
	}
	s := k.row.Standing
	return s.MoreUnread == 0 && !slices.ContainsFunc(s.Unread, func(u ctl.Unread) bool {
		n, ok := indexIn(u.From, job)
		return ok && n == caller.n || u.From == ""
	})
}

// elsewhere returns the cause for ranks that wait for something other than the operation in which
// others wait, if no other cause explains it.
func (a *analysis) elsewhere(blamed map[int]bool) []Cause {
	var found []*rank
	for _, k := range a.ranks {
		waits := k.does == doesWaits || k.does == doesOperation
		leaf := len(k.node.from) > 0 && len(k.node.to) == 0
		if waits && (k.behind || leaf) && !k.node.leads && !blamed[k.n] {
			found = append(found, k)
		}
	}
	return a.causeOf(CauseElsewhere, found)
}

// cycles finds ranks that wait for each other: only for messages, or only in operations of
// groups. In a cycle of both kinds, the cause is a rank that waits for a message while others are
// in an operation.
func (a *analysis) cycles(messages bool, blamed map[int]bool) (l []Cause) {
	for _, knot := range a.knots(messages) {
		way := cycle(knot, messages)
		if slices.ContainsFunc(way, func(k *rank) bool { return blamed[k.n] || !messages && k.does != doesOperation }) {
			continue
		}
		for _, k := range way {
			k.node.hard = true
		}
		if len(l) < mostCauses {
			l = append(l, a.cycleOf(way))
		}
	}
	return l
}

func (a *analysis) cycleOf(way []*rank) Cause {
	c := Cause{Kind: CauseCycle, Waiting: a.waiting(way...)}
	var numbers []string
	for _, k := range way {
		c.Ranks = append(c.Ranks, k.n)
		numbers = append(numbers, fmt.Sprint(k.n))
	}
	if len(numbers) > 2*mostPlaces {
		numbers = append(numbers[:2*mostPlaces], "…")
	}
	c.Text = fmt.Sprintf("ranks wait for each other: %s → %d", strings.Join(numbers, " → "), way[0].n) +
		waitingText(c.Waiting)
	c.Details = details(way)
	return c
}

// remainder returns the cause if there is no other.
func (a *analysis) remainder() Cause {
	rows, attached, waiting := 0, 0, 0
	for _, k := range a.ranks {
		if k.row != nil {
			rows++
		}
		if k.row != nil && k.row.Standing != nil {
			attached++
		}
		if k.does == doesOperation {
			waiting++
		}
	}
	switch {
	case rows == 0:
		return Cause{Kind: CauseNone, Text: fmt.Sprintf("no host tells of a rank of %s", a.f.Job)}
	case attached == 0:
		return a.detached()
	case waiting > 0:
		return Cause{Kind: CauseNetwork,
			Text: "each member is in the operation that others wait in: it may be about to end, " +
				"or the network loses frames"}
	}
	return Cause{Kind: CauseNone, Text: "no rank waits for another"}
}

// detached returns a cause from the states of the processes alone.
func (a *analysis) detached() Cause {
	for _, kind := range []string{CauseStopped, CauseUninterruptible} {
		var found []*rank
		for _, k := range a.ranks {
			if k.does == kind {
				found = append(found, k)
			}
		}
		if l := a.causeOf(kind, found); l != nil {
			return l[0]
		}
	}
	return Cause{Kind: CauseNone,
		Text: "no rank is attached to a daemon: with a NIC inside the program, " +
			"only the states of the processes are known"}
}
