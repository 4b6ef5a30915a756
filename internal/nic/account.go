package nic

import (
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// Account is what a NIC has counted of one process, so that it can be told which one is slow, which one is refused, and
// which one takes more than it gives. All of it only grows.
type Account struct {
	Commands uint64 // read from its queue
	Turns    uint64 // of its sends (QNIX-39)
	Crowded  uint64 // times that its turns stopped because it had as many rooms as there were left
	Held     uint64 // sends that had neither credit nor room for one more permission request

	Sent, SentBytes         uint64 // messages that left well
	Received, ReceivedBytes uint64 // messages that it has asked for and got
	Truncated               uint64 // of those: longer than its buffer
	Unexpected              uint64 // messages that came before it had asked for them
	LongestWait             time.Duration

	Memory      uint64 // PUTs and GETs that have ended well
	Collectives uint64 // operations of groups that have, joins included

	Rings      uint64 // times that it rang
	EmptyRings uint64 // of those: without a command since the last
	Refused    [vni.Statuses]uint64
}

// ProcessInfo is what tools are told about a process.
type ProcessInfo struct {
	Name       vni.Name
	Slot       uint16
	Generation uint32
	PID        uint32 // of its program

	Posted     int           // receives waiting for a message
	Unexpected int           // messages waiting for a receive
	Oldest     time.Duration // how long the first of them has waited
	Staged     int           // bytes of staging that they take
	Credit     int           // bytes of staging that other NICs may fill without asking
	Sending    int           // sends, PUTs and GETs under way
	Rooms      int           // segments of them queued or not acknowledged

	Account
}

// Processes lists the registered processes by slot. now is the time.
func (e *Engine) Processes() []ProcessInfo {
	e.begin()
	var l []ProcessInfo
	for p := range e.procs.all {
		l = append(l, e.info(p))
	}
	return l
}

func (e *Engine) info(p *process) ProcessInfo {
	i := ProcessInfo{Name: p.name, Slot: p.slot, Generation: p.gen, PID: p.pid, Posted: p.posted.n, Unexpected: p.stray.n, Staged: p.staging(),
		Credit: p.credited, Sending: busySends(p), Rooms: p.rooms.Segments(), Account: p.account}
	if inb := p.stray.front(); inb != nil {
		i.Oldest = e.now.Sub(inb.at)
		i.LongestWait = max(i.LongestWait, i.Oldest)
	}
	return i
}

// staging is how many bytes of staging the messages take that wait for a receive: those that came on credit, with permission or locally.
func (p *process) staging() int {
	bytes := p.staged
	for inb := range p.stray.all {
		if inb.onCredit {
			bytes += int(stagedCost(inb.length))
		}
	}
	return bytes
}

// operation counts one that is neither a message nor a query.
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
