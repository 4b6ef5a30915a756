// Package stuck finds out why a job does not go on. Each host tells where its ranks stand: the NIC knows the
// operations, the kernel knows the processes, and the program does not cooperate.
//
//	Ask ──► daemons of the hosts ──► Facts ──► Analyze ──► Report ──► Text, JSON
//
// Analyze draws who waits for whom, and looks for the ranks that somebody waits for and that wait for nobody:
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

// Facts is everything that the hosts of a job have told.
type Facts struct {
	Job    string // the application of the ranks
	Size   int    // ranks of the job; 0: the highest rank that a host tells of decides, or the group of all ranks
	Hosts  int    // that were asked
	Rows   []Row
	Silent []Silent
}

// Row is one rank, as its host tells of it.
type Row struct {
	ctl.RankInfo
	Node string
}

// Silent is a host that does not tell of its ranks.
type Silent struct {
	Node    string `json:"node"`
	Ranks   []int  `json:"ranks,omitempty"` // that should be there, as far as is known
	Why     string `json:"why"`
	Refused bool   `json:"refused,omitempty"` // it has answered, and refuses
}

// Report tells why a job does not go on. The most probable cause comes first.
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
	CauseEnded           = "ended"           // a rank that others need has ended, or has left their group
	CauseHost            = "host"            // a host does not answer, or refuses
	CauseUnreachable     = "unreachable"     // the NIC of a process that a rank waits for does not answer
	CauseStopped         = "stopped"         // by a signal or a debugger
	CauseUninterruptible = "uninterruptible" // in the kernel
	CauseNotAttached     = "not-attached"
	CauseDisagreement    = "disagreement"   // members of a group do different things in one operation
	CauseOutside         = "outside"        // runs or sleeps, and waits for nothing of Weft
	CauseTag             = "tag"            // waits for one tag, and has a message with another
	CauseNoReply         = "no-reply"       // the callee has taken a call, and waits for something else
	CauseOutsider        = "outsider"       // waits for a process that is no rank of the job
	CauseElsewhere       = "elsewhere"      // waits for something else than the operation that others stand in
	CauseCycle           = "cycle"          // ranks wait for each other
	CauseNetwork         = "network"        // all members are in an operation that has not ended
	CauseNone            = "not-determined" // nothing of the above
)

var causeOrder = []string{CauseEnded, CauseHost, CauseUnreachable, CauseStopped, CauseUninterruptible, CauseNotAttached, CauseDisagreement,
	CauseOutside, CauseTag, CauseNoReply, CauseOutsider, CauseElsewhere, CauseCycle, CauseNetwork, CauseNone}

// Cause is one reason for which ranks wait.
type Cause struct {
	Kind    string `json:"kind"`
	Ranks   []int  `json:"ranks,omitempty"`   // to look at
	Waiting int    `json:"waiting,omitempty"` // ranks that wait for these, directly or through others
	Text    string `json:"text"`

	Details []string `json:"details,omitempty"` // a sentence for each of the first ranks, if there are several
}

// Group is a group in which at least one rank waits, or which broke.
type Group struct {
	Title   string         `json:"title"`
	Group   string         `json:"group"`
	Index   uint32         `json:"index,omitempty"`
	State   string         `json:"state"` // joining, open, broken
	Size    int            `json:"size"`
	Step    *ctl.GroupStep `json:"step,omitempty"` // where most members stand
	In      []int          `json:"in,omitempty"`   // ranks that stand there
	For     int64          `json:"for_ns,omitempty"`
	Text    string         `json:"text"`
	Missing []Missing      `json:"missing,omitempty"`
}

// Missing is a rank that others in a group wait for, or that does something else.
type Missing struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// Rank is the place of one rank.
type Rank struct {
	Rank     int           `json:"rank"`
	Node     string        `json:"node,omitempty"`
	PID      int           `json:"pid,omitempty"`
	State    string        `json:"state,omitempty"`
	Does     string        `json:"does"` // ended, host, stopped, uninterruptible, not-attached, operation, waits, outside
	Text     string        `json:"text"`
	Standing *ctl.Standing `json:"standing,omitempty"`
}

// Analyze finds the causes for which a job does not go on.
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

// analysis is the work of Analyze.
type analysis struct {
	f      *Facts
	ranks  []*rank  // by number
	groups []*group // by name and index
	nodes  []*node  // of the graph: the ranks, then the operations
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

// world returns the size of the group of all ranks, which has the name of the job; 0 if no rank has joined it.
// Ranks that have never attached are known by it alone.
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

// rankOf finds the rank with a name; nil if it is no rank of the job.
func (a *analysis) rankOf(name string) *rank {
	n, ok := indexIn(name, a.f.Job)
	if !ok || n >= len(a.ranks) {
		return nil
	}
	return a.ranks[n]
}

// byKind orders causes: by the certainty of their kind, then by how many ranks wait.
func byKind(x, y Cause) int {
	return cmp.Or(cmp.Compare(slices.Index(causeOrder, x.Kind), slices.Index(causeOrder, y.Kind)), cmp.Compare(y.Waiting, x.Waiting),
		slices.Compare(x.Ranks, y.Ranks))
}
