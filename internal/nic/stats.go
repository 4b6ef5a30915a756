package nic

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// publishEvery is how often a busy engine copies its counts to the counters page. To count in its
// own memory and to copy now and then costs the data path nothing.
const publishEvery = time.Millisecond

// publisher holds when counts are copied.
type publisher struct {
	changed bool       // the counts have changed since they were copied
	next    clock.Time // earliest time of the next copy
	rel     rel.Stats  // rel's statistics that are already in the counts
	peers   peerRows
	left    bool // the last copy has left out rows of peers
}

// publish copies the counts to the memory that tools map (decision 17), if it is time. It returns
// when it will be time, or Never. work is what a poll has done: after an idle poll the counts have
// not changed. next is when the engine must be polled for another reason.
func (e *Engine) publish(work int, next clock.Time) clock.Time {
	if e.cfg.Counters == (vni.CounterPage{}) && e.cfg.Peers == (vni.PeerTable{}) {
		return clock.Never
	}
	p := &e.publisher
	switch p.changed = p.changed || work > 0; {
	case !p.changed && !p.left:
		return clock.Never
	case e.now < p.next:
		return p.next
	}
	p.next = e.now.Add(publishEvery)
	if p.changed {
		p.changed = false
		e.collect()
		for i, v := range e.counts {
			e.cfg.Counters.Store(vni.Counter(i), v)
		}
	}
	rows := rowsPerPublish
	if next > p.next {
		rows = rowsAtRest
	}
	if p.left = p.peers.publish(e, rows); p.left {
		return p.next
	}
	return clock.Never
}

// collect updates the counts that come from the link, rel and the other parts.
func (e *Engine) collect() {
	var l link.Counters
	e.cfg.Link.Counters(&l)
	c := e.counts
	c[vni.LinkFramesIn], c[vni.LinkFramesOut] = l.FramesIn, l.FramesOut
	c[vni.LinkBytesIn], c[vni.LinkBytesOut] = l.BytesIn, l.BytesOut
	c[vni.LinkSystemCalls] = l.SystemCalls
	c[vni.LinkDroppedIn], c[vni.LinkDroppedOut] = l.DroppedIn, l.DroppedOut
	c[vni.LinkFramesBatched], c[vni.LinkFramesCopied], c[vni.LinkECNMarked] = l.FramesBatched, l.FramesCopied,
		l.ECNMarked
	c[vni.LinkCaptureMissed] = l.CaptureMissed
	e.collectRel()
	c[vni.NICStraightSends] = e.directSends()
	c[vni.RelPeersNow] = uint64(len(e.rel.Endpoints()))
	c[vni.RelInFlightNow] = uint64(e.rel.InFlight())
	c[vni.NICProcessesNow] = uint64(e.procs.registered)
	c[vni.NICActiveNow] = uint64(e.active.n)
	c[vni.NICStagedBytesNow] = uint64(e.staging.inUse)
	c[vni.NICProgramsNow] = uint64(len(e.programs.List()))
	c[vni.NICGroupsNow] = uint64(e.groups.Len())
	c[vni.NICTransitBytesNow] = uint64(e.transit.inUse)
}

// Count returns the present value of a counter.
func (e *Engine) Count(c vni.Counter) uint64 {
	e.begin()
	e.collect()
	return e.counts[c]
}

// callToken is the bit by which a process marks the token of a call, a message for which it awaits
// a reply.
const callToken = 1 << 31

// tokenCounts is the number of counts between that bit of a token and the number of its send.
const tokenCounts = callToken>>16 - 1

// countSend counts an ended send.
func (e *Engine) countSend(s *send, status vni.Status) {
	switch {
	case s.kind == kindResolve:
		e.counts[vni.NICResolves]++
	case (status == vni.StatusOK || status == vni.StatusTruncated) && s.kind == kindMessage:
		e.countMessage(s.p, vni.StatusOK, s.frag.Length)
		if s.env.Flags&wire.FlagReply != 0 {
			e.counts[vni.NICReplies]++
		} else if s.env.Token&callToken != 0 {
			e.counts[vni.NICCalls]++
		}
	case status != vni.StatusOK:
		e.countMessage(s.p, status, s.frag.Length)
	}
}

// countMessage counts a message that has left, or failed.
func (e *Engine) countMessage(p *process, status vni.Status, length uint64) {
	switch status {
	case vni.StatusOK:
		e.countSent(p, 1, length)
	case vni.StatusUnreachable, vni.StatusSessionLost:
		e.counts[vni.NICFailedUnreachable]++
	case vni.StatusNameUnknown:
		e.counts[vni.NICFailedNameUnknown]++
	}
}

// countSent counts messages that have left.
func (e *Engine) countSent(p *process, messages, bytes uint64) {
	p.account.Sent += messages
	p.account.SentBytes += bytes
	e.counts[vni.NICMessagesSent] += messages
	e.counts[vni.NICBytesSent] += bytes
}

// countSegment counts bytes that are copied into a segment, and from there into its frame.
func (e *Engine) countSegment(bytes uint64) { e.counts[vni.NICCopiedOut] += 2 * bytes }

// Quiet reports whether everything that processes have sent has been acknowledged.
func (e *Engine) Quiet() bool {
	e.begin()
	return e.turns.ready.n == 0 && e.turns.crowded.n == 0 && e.relays.Quiet() && e.programs.Quiet() &&
		e.groups.Quiet() && e.rel.Quiet()
}
