package ctl

import (
	"context"
	"fmt"
)

// Standing is where an attached process stands: its requests to its NIC that have not ended, and
// its places in groups. The NIC knows it, so the program need not cooperate. The lists are
// bounded; the oldest entries come first.
type Standing struct {
	Parked bool `json:"parked,omitempty"` // a thread of it sleeps until the NIC wakes it

	Groups     []GroupStanding `json:"groups,omitempty"`
	MoreGroups int             `json:"more_groups,omitempty"` // groups that Groups does not list
	Waits      []Wait          `json:"waits,omitempty"`
	MoreWaits  int             `json:"more_waits,omitempty"`
	Unread     []Unread        `json:"unread,omitempty"`
	MoreUnread int             `json:"more_unread,omitempty"`
}

// GroupStanding is the place of one process in a group.
type GroupStanding struct {
	Group string `json:"group"`
	// Index distinguishes groups of one name: epoch, and number of a part.
	Index uint32 `json:"index,omitempty"`
	// Part means that it was split off a group, and that its name means nothing to people.
	Part  bool   `json:"part,omitempty"`
	State string `json:"state"` // joining, open or broken
	// Size counts the members of the group, or those that the join waits for; 0: not known.
	Size    int `json:"size,omitempty"`
	Present int `json:"present"` // members present
	Rank    int `json:"rank"`    // in the group; -1 while it joins

	// In is the oldest operation whose end it awaits. For a broken group, the operation that
	// failed.
	In    *GroupStep `json:"in,omitempty"`
	Under int        `json:"under,omitempty"` // operations whose end it awaits
	// Done is the number of the last operation up to which all have succeeded; 0 is the join.
	Done uint32 `json:"done"`
	// For is the time since it entered In or, if it is in none, since its last operation ended.
	For int64 `json:"for_ns"`

	// Mismatch means that a group broke since its members called different operations.
	Mismatch bool     `json:"mismatch,omitempty"`
	Lost     string   `json:"lost,omitempty"` // otherwise the member that has gone
	LostAt   *Address `json:"lost_at,omitempty"`
}

// GroupStep is an operation of a group as one member has asked for it.
type GroupStep struct {
	Number uint32 `json:"number"`         // among the member's operations in this group, from 1
	Kind   string `json:"kind"`           // join, barrier, broadcast, reduce
	Root   string `json:"root,omitempty"` // name of the root; empty: the operation has none
}

// Wait is an operation of a process that has not ended. A receive or an inbox may be posted while
// its process does something else.
type Wait struct {
	// What is one of receive, reply, probe, datagram, inbox, send, answer, put, get, name,
	// multicast and program.
	What string `json:"what"`
	// Why is, for a send: name, order, turn, link, room, permission, accept, acknowledge or
	// copies. For a receive: arriving.
	Why string `json:"why,omitempty"`

	Peer        string   `json:"peer,omitempty"` // name of the awaited process
	At          *Address `json:"at,omitempty"`   // its address, if known
	Any         bool     `json:"any,omitempty"`  // any process may end the wait
	Unreachable bool     `json:"unreachable,omitempty"`

	Port   uint16 `json:"port,omitempty"`
	Tag    uint64 `json:"tag,omitempty"`
	AnyTag bool   `json:"any_tag,omitempty"`
	Bytes  uint64 `json:"bytes,omitempty"`
	Left   int    `json:"left,omitempty"` // receivers of a multicast that have not been served
	For    int64  `json:"for_ns"`
}

// Unread is a message that waits for its process to receive it.
type Unread struct {
	From  string   `json:"from,omitempty"`
	At    *Address `json:"at,omitempty"`
	Port  uint16   `json:"port,omitempty"`
	Tag   uint64   `json:"tag,omitempty"`
	Bytes uint64   `json:"bytes,omitempty"`
	For   int64    `json:"for_ns"`
}

// States of a RankInfo, from /proc.
const (
	RankRunning         = "running"
	RankSleeping        = "sleeping"
	RankStopped         = "stopped" // by a signal
	RankTraced          = "traced"  // by a debugger
	RankUninterruptible = "uninterruptible"
	RankEnded           = "ended"
)

// Stuck returns the part of a job on the NIC's host: its ranks, by rank, each with its state and
// standing. It also returns processes that the daemon did not start, if the application of their
// names is job. For such a job, only ID, NIC and Processes are set.
func (n NIC) Stuck(ctx context.Context, job string) (part JobInfo, err error) {
	for from := 0; ; {
		r, err := n.job(ctx, &Job{What: JobStuck, ID: job}, from)
		if err != nil {
			return JobInfo{}, err
		}
		if len(r.Job.Jobs) != 1 || r.Job.Jobs[0].ID != job {
			return JobInfo{}, fmt.Errorf("asked about job %s, and told about others", job)
		}
		ranks := part.Processes
		part = r.Job.Jobs[0]
		part.Processes = append(ranks, part.Processes...)
		if r.Next <= from {
			return part, nil
		}
		from = r.Next
	}
}
