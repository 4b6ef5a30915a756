package nic

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// publishEvery is how often a busy engine copies its counts to the counters page. Counting in its own memory and copying
// now and then costs the data path nothing.
const publishEvery = time.Millisecond

// publishPerPeer makes that longer for each peer, since the sums over all of them take some half a microsecond each.
const publishPerPeer = 50 * time.Microsecond

// publish copies the counts to the page that tools map (decision 17).
// It returns when it wants to do so next.
func (e *Engine) publish(work int) clock.Time {
	if e.cfg.Counters == (vni.CounterPage{}) {
		return clock.Never
	}
	e.dirty = e.dirty || work > 0
	switch {
	case !e.dirty:
		return clock.Never
	case e.now < e.nextPublish:
		return e.nextPublish
	}
	e.dirty = false
	e.nextPublish = e.now.Add(publishEvery + publishPerPeer*time.Duration(len(e.rel.Endpoints())))
	e.collect()
	for i, v := range e.counts {
		e.cfg.Counters.Store(vni.Counter(i), v)
	}
	return clock.Never
}

// collect brings the counts of the parts together.
func (e *Engine) collect() {
	var l link.Counters
	e.cfg.Link.Counters(&l)
	c := e.counts
	c[vni.LinkFramesIn], c[vni.LinkFramesOut] = l.FramesIn, l.FramesOut
	c[vni.LinkBytesIn], c[vni.LinkBytesOut] = l.BytesIn, l.BytesOut
	c[vni.LinkSystemCalls] = l.SystemCalls
	c[vni.LinkDroppedIn], c[vni.LinkDroppedOut] = l.DroppedIn, l.DroppedOut
	c[vni.LinkFramesBatched], c[vni.LinkECNMarked] = l.FramesBatched, l.ECNMarked
	e.collectRel()
	c[vni.RelPeersNow] = uint64(len(e.rel.Endpoints()))
	c[vni.RelInFlightNow] = uint64(e.rel.InFlight())
	c[vni.NICProcessesNow] = uint64(e.registered)
	c[vni.NICActiveNow] = uint64(e.active.n)
	c[vni.NICStagedBytesNow] = uint64(e.staging.inUse)
	c[vni.NICGroupsNow] = uint64(len(e.groups.list))
	c[vni.NICTransitBytesNow] = uint64(e.groups.transit.inUse)
}

// Count returns a counter as it stands now.
func (e *Engine) Count(c vni.Counter) uint64 {
	e.catchUp()
	e.collect()
	return e.counts[c]
}

// callToken is the bit by which a process marks the token of a message that it awaits a reply to.
const callToken = 1 << 31

// tokenCounts is how many counts a token has between that bit and the number of its send.
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

// Quiet reports whether everything that processes have handed over has been acknowledged.
func (e *Engine) Quiet() bool {
	e.catchUp()
	return e.sending.n == 0 && e.crowded.n == 0 && len(e.relays.legs) == 0 && e.groups.quiet() && e.rel.Quiet()
}
