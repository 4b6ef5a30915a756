package nic

import (
	"math/bits"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// stagingPool is the managed memory in which unexpected messages wait (QNIX-47, QNIX-57): buffers
// in powers of two, kept for reuse. It does not bound the use of a process; the process's quota
// does. keepStaging bounds the unused memory that it keeps.
type stagingPool struct {
	free  [40][][]byte
	kept  int // bytes in free
	inUse int // bytes in use
}

const (
	leastStagingShift = 6       // 64 bytes
	keepStaging       = 8 << 20 // most bytes kept for reuse: two processes' quotas
)

func (sp *stagingPool) take(n int) []byte {
	if n == 0 {
		return nil
	}
	c := max(bits.Len(uint(n-1)), leastStagingShift)
	sp.inUse += 1 << c
	if l := sp.free[c]; len(l) > 0 {
		b := l[len(l)-1]
		sp.free[c] = l[:len(l)-1]
		sp.kept -= 1 << c
		return b[:n]
	}
	return make([]byte, n, 1<<c)
}

// blank is take for a message that arrives in pieces: its missing bytes are zeros, not another
// process's data.
func (sp *stagingPool) blank(n int) []byte {
	b := sp.take(n)
	clear(b)
	return b
}

func (sp *stagingPool) give(b []byte) {
	n := cap(b)
	if n == 0 {
		return
	}
	sp.inUse -= n
	if sp.kept+n > keepStaging {
		return
	}
	c := bits.Len(uint(n - 1))
	sp.kept += n
	sp.free[c] = append(sp.free[c], b[:0])
}

// stagedCost returns what a message of n bytes costs of a process's staging quota, and so of a
// sender's credit.
func stagedCost(n uint64) uint64 { return n + limits.StagedOverhead }

// charge takes room for an unexpected message out of its receiver's staging. If there is none, the
// message waits for it in line, and its sender waits for the message (QNIX-A6). No message passes
// those in line unless it overdraws the staging: otherwise small messages could keep a large one
// waiting for ever. Idle credit is recalled for the line.
func (e *Engine) charge(inb *inbound, cost int) bool {
	p := inb.src.p
	if first := p.unstaged.front(); (first != nil && first != inb || cost > e.stagingLeft(p)) && !e.overdraws(inb) {
		if inb.grant.in == nil && (cost <= e.cfg.StagingBytes || inb.lacksBytes()) {
			p.unstaged.pushBack(&inb.grant)
		}
		e.recallCredit(p)
		return false
	}
	inb.grant.remove()
	if e.cfg.Defect == mutate.StagingNotCharged {
		return true
	}
	inb.charged = cost
	p.staged += cost
	return true
}

// stagingLeft returns how many bytes of p's staging are neither in use nor promised as credit.
func (e *Engine) stagingLeft(p *process) int { return max(0, e.cfg.StagingBytes-p.staged-p.credited) }

// leaveLine takes a message out of the line for room: it has met its receive, or its sender has
// given it up.
func (e *Engine) leaveLine(inb *inbound) {
	if inb.src != nil && inb.grant.in == &inb.src.p.unstaged {
		inb.grant.remove()
		e.restage(inb.src.p)
	}
}

// restage stages the messages that wait for room in the staging of p, in their order, as far as
// there is room again.
func (e *Engine) restage(p *process) {
	if e.cfg.Defect == mutate.LineForgotten {
		return
	}
	for p.served() {
		inb := p.unstaged.front()
		if inb == nil {
			return
		}
		e.stage(inb)
		if p.unstaged.front() == inb {
			e.overdraw(p)
			return
		}
	}
}

// stage stages a message that has waited for room, if there is some.
func (e *Engine) stage(inb *inbound) {
	if inb.kind == inboundLocal {
		e.stageLocal(inb)
	} else {
		e.stageRequest(inb)
	}
}
