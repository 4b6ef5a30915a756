package nic

import (
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// Account holds the counts of one process: they show which process is slow, which one is refused,
// and which one takes more than it gives. All of them only grow.
type Account struct {
	Commands uint64 // read from its queue
	Turns    uint64 // of its sends (QNIX-39)
	Crowded  uint64 // times that its turns stopped because it had as many rooms as were left
	Held     uint64 // sends that had neither credit nor room for one more permission request

	Sent, SentBytes         uint64 // messages that left without an error
	Received, ReceivedBytes uint64 // messages that it asked for and got
	Truncated               uint64 // received messages that were longer than their buffer
	Unexpected              uint64 // messages that arrived before their receive was posted
	LongestWait             time.Duration

	Memory      uint64 // PUTs and GETs that ended without an error
	Collectives uint64 // group operations that ended without an error, joins included

	Rings      uint64 // calls of Ring for it
	EmptyRings uint64 // calls of Ring without a command since the last call
	Refused    [vni.Statuses]uint64
}

// ProcessInfo holds what tools show of a process.
type ProcessInfo struct {
	Name       vni.Name
	Slot       uint16
	Generation uint32
	PID        uint32 // of its program

	Posted     int           // receives waiting for a message
	Unexpected int           // messages waiting for a receive
	Oldest     time.Duration // how long the first of these messages has waited
	Staged     int           // bytes of staging that these messages take
	Credit     int           // bytes of staging that other NICs may fill without permission
	Sending    int           // sends, PUTs and GETs in progress
	Rooms      int           // segments of these operations, queued or not acknowledged

	Account
}

// Processes returns the registered processes, ordered by slot. A message's age counts up to the
// time of the last poll.
func (e *Engine) Processes() []ProcessInfo {
	e.begin()
	var l []ProcessInfo
	for p := range e.procs.all {
		l = append(l, e.info(p))
	}
	return l
}

func (e *Engine) info(p *process) ProcessInfo {
	i := ProcessInfo{Name: p.name, Slot: p.slot, Generation: p.gen, PID: p.pid, Posted: p.posted.n,
		Unexpected: p.stray.n, Staged: p.staging(),
		Credit: p.credited, Sending: busySends(p), Rooms: p.rooms.Segments(), Account: p.account}
	if inb := p.stray.front(); inb != nil {
		i.Oldest = e.now.Sub(inb.at)
		i.LongestWait = max(i.LongestWait, i.Oldest)
	}
	return i
}

// staging returns the bytes of staging that unexpected messages take: those that arrived on
// credit, with permission or from this NIC.
func (p *process) staging() int {
	bytes := p.staged
	for inb := range p.stray.all {
		if inb.onCredit {
			bytes += int(stagedCost(inb.length))
		}
	}
	return bytes
}

// operation counts an operation that is neither a message nor a query.
func (a *Account) operation(k sendKind, status vni.Status) {
	switch {
	case status != vni.StatusOK:
	case k == kindPut || k == kindGet:
		a.Memory++
	case k == kindCollective:
		a.Collectives++
	}
}

// ended counts how an operation of a process ended, if it was refused.
func (p *process) ended(status vni.Status) {
	switch status {
	case vni.StatusOK, vni.StatusCancelled, vni.StatusTruncated, vni.StatusClosed:
	default:
		p.account.Refused[status]++
	}
}
