// Package stuck finds out why a job makes no progress. Each host reports the state of its ranks:
// the NIC knows the operations, and the kernel knows the processes. The program need not
// cooperate.
//
//	Ask ──► daemons of the hosts ──► Facts ──► Analyze ──► Report ──► Text, JSON
//
// Analyze draws a graph of waits, and looks for the ranks for which others wait and which wait
// for no other rank:
//
//	rank 0 ──► operation 7 of world ──► rank 5: stopped        the cause
//	rank 1 ──►                      ──► rank 6 ──► rank 5      waits for the cause
package stuck

import (
	"cmp"
	"slices"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// Facts holds everything that the hosts of a job have reported.
type Facts struct {
	Job string // the application of the ranks
	// Size is the number of ranks in the job. 0: the highest reported rank decides, or the group
	// of all ranks.
	Size   int
	Hosts  int // number of hosts that were asked
	Rows   []Row
	Silent []Silent
}

// Row is one rank, as its host reports it.
type Row struct {
	ctl.RankInfo
	Node string
}

// Silent is a host that does not report its ranks.
type Silent struct {
	Node    string `json:"node"`
	Ranks   []int  `json:"ranks,omitempty"` // ranks that should be there, if known
	Why     string `json:"why"`
	Refused bool   `json:"refused,omitempty"` // it has answered with a refusal
}

// Report says why a job makes no progress. The most probable cause comes first.
type Report struct {
	Job    string   `json:"job"`
	Size   int      `json:"size"`
	Hosts  int      `json:"hosts"`
	Causes []Cause  `json:"causes"`
	Groups []Group  `json:"groups,omitempty"`
	Ranks  []Rank   `json:"ranks"`
	Silent []Silent `json:"silent,omitempty"`
}

// The kinds of a Cause, the most certain first.
const (
	// A rank that others need has ended, or has left their group.
	CauseEnded = "ended"
	CauseHost  = "host" // a host does not answer, or refuses
	// The NIC of a process for which a rank waits does not answer.
	CauseUnreachable     = "unreachable"
	CauseStopped         = "stopped"         // by a signal or a debugger
	CauseUninterruptible = "uninterruptible" // in the kernel
	CauseNotAttached     = "not-attached"
	// Members of a group do different things in one operation.
	CauseDisagreement = "disagreement"
	// A rank runs or sleeps, and waits for nothing in Weft.
	CauseOutside = "outside"
	// A rank waits for one tag, and has a message with another.
	CauseTag = "tag"
	// The callee has received a call, and waits for something else.
	CauseNoReply = "no-reply"
	// A rank waits for a process that is not a rank of the job.
	CauseOutsider = "outsider"
	// A rank waits for something other than the operation in which others wait.
	CauseElsewhere = "elsewhere"
	CauseCycle     = "cycle"          // ranks wait for each other
	CauseNetwork   = "network"        // all members are in an operation that has not ended
	CauseNone      = "not-determined" // none of the causes above
)

var causeOrder = []string{CauseEnded, CauseHost, CauseUnreachable, CauseStopped, CauseUninterruptible,
	CauseNotAttached, CauseDisagreement,
	CauseOutside, CauseTag, CauseNoReply, CauseOutsider, CauseElsewhere, CauseCycle, CauseNetwork, CauseNone}

// Cause is one reason why ranks wait.
type Cause struct {
	Kind  string `json:"kind"`
	Ranks []int  `json:"ranks,omitempty"` // ranks to look at
	// Ranks that wait for these, directly or through others.
	Waiting int    `json:"waiting,omitempty"`
	Text    string `json:"text"`

	// A sentence for each of the first ranks, if there are several.
	Details []string `json:"details,omitempty"`
}

// Group is a group in which at least one rank waits, or a broken group.
type Group struct {
	Title   string         `json:"title"`
	Group   string         `json:"group"`
	Index   uint32         `json:"index,omitempty"`
	State   string         `json:"state"` // joining, open, broken
	Size    int            `json:"size"`
	Step    *ctl.GroupStep `json:"step,omitempty"` // the operation of most members
	In      []int          `json:"in,omitempty"`   // ranks in that operation
	For     int64          `json:"for_ns,omitempty"`
	Text    string         `json:"text"`
	Missing []Missing      `json:"missing,omitempty"`
}

// Missing is a rank of a group for which others wait, or which does something else.
type Missing struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// Rank is the entry of one rank in a report.
type Rank struct {
	Rank  int    `json:"rank"`
	Node  string `json:"node,omitempty"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"state,omitempty"`
	// Does is ended, host, stopped, uninterruptible, not-attached, operation, waits or outside.
	Does     string        `json:"does"`
	Text     string        `json:"text"`
	Standing *ctl.Standing `json:"standing,omitempty"`
}

// Analyze finds the causes for which a job makes no progress.
func Analyze(f Facts) Report {
	a := newAnalysis(&f)
	a.findGroups()
	a.classify()
	a.draw()
	r := Report{Job: f.Job, Size: len(a.ranks), Hosts: f.Hosts, Silent: f.Silent}
	r.Groups = a.groupReports()
	r.Causes = a.causes()
	for _, k := range a.ranks {
		r.Ranks = append(r.Ranks, k.report())
	}
	return r
}

// analysis holds the state of Analyze.
type analysis struct {
	f      *Facts
	ranks  []*rank  // by number
	groups []*group // by name and index
	nodes  []*node  // nodes of the graph: the ranks, then the operations
}

func newAnalysis(f *Facts) *analysis {
	a := &analysis{f: f}
	size := f.Size
	if size == 0 {
		for i := range f.Rows {
			size = max(size, f.Rows[i].Rank+1)
		}
		for _, s := range f.Silent {
			for _, r := range s.Ranks {
				size = max(size, r+1)
			}
		}
		size = max(size, f.world())
	}
	for n := range size {
		a.ranks = append(a.ranks, &rank{n: n})
	}
	for i := range f.Rows {
		row := &f.Rows[i]
		if row.Rank < 0 || row.Rank >= size {
			continue
		}
		if k := a.ranks[row.Rank]; k.row == nil || row.Attached && !k.row.Attached {
			k.row = row
		}
	}
	for i := range f.Silent {
		for _, r := range f.Silent[i].Ranks {
			if r >= 0 && r < size && a.ranks[r].row == nil {
				a.ranks[r].silent = &f.Silent[i]
			}
		}
	}
	return a
}

// world returns the size of the group of all ranks, which has the name of the job. It returns 0
// if no rank has joined the group. Ranks that never attached are known only from this size.
func (f *Facts) world() (size int) {
	for i := range f.Rows {
		s := f.Rows[i].Standing
		for k := 0; s != nil && k < len(s.Groups); k++ {
			if g := &s.Groups[k]; g.Group == f.Job && g.Index == 0 && !g.Part {
				size = max(size, min(g.Size, limits.JobSize))
			}
		}
	}
	return size
}

// rankOf returns the rank with a name, or nil if the name is not that of a rank of the job.
func (a *analysis) rankOf(name string) *rank {
	n, ok := indexIn(name, a.f.Job)
	if !ok || n >= len(a.ranks) {
		return nil
	}
	return a.ranks[n]
}

// byKind compares causes: first by the certainty of their kind, then by the number of ranks that
// wait.
func byKind(x, y Cause) int {
	return cmp.Or(cmp.Compare(slices.Index(causeOrder, x.Kind), slices.Index(causeOrder, y.Kind)),
		cmp.Compare(y.Waiting, x.Waiting),
		slices.Compare(x.Ranks, y.Ranks))
}
