package nic

import (
	"cmp"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// The seam between the engine and the programs that run in it (internal/program).

// ProgramFilter judges a message for a process by its bytes, which are nil if they have not all
// arrived. It reports whether to drop the message.
type ProgramFilter = program.GuardFunc

// forPrograms is the engine as internal/program sees it.
type forPrograms struct{ *services }

// Programs returns the programs of this NIC. After a change there, the engine must be polled soon.
func (e *Engine) Programs() *program.Table {
	e.begin()
	return e.programs
}

func (h forPrograms) Clock() clock.Time {
	if h.cfg.Clock == nil {
		return h.now
	}
	return max(h.now, h.cfg.Clock())
}

func (h forPrograms) Peer(nic uint64) *program.Peer {
	return part(h.services, nic, func(pr *peer) *program.Peer { return &pr.programs })
}

func (h forPrograms) Peers(yield func(*program.Peer) bool) {
	for _, pr := range h.peers.list {
		if !yield(&pr.programs) {
			return
		}
	}
}

func (h forPrograms) Announce(to *program.Peer, n int) []byte { return h.Record(to.Endpoint, n) }

// programStatus returns the status of a process's message to a program. A message with no known
// outcome was not handled, for example if the driver could not provide the program's variables.
func programStatus(o vm.Outcome) vni.Status {
	switch o {
	case vm.Awaiting, vm.Stopped, vm.Passed, vm.Dropped:
		return vni.StatusOK
	case vm.NoProgram, vm.NoTrigger, vm.Inactive:
		return vni.StatusNoProgram
	}
	return vni.StatusProgramFailed
}

func (h forPrograms) Answered(r program.Request, o vm.Outcome) { h.Ended(r, programStatus(o)) }

func (h forPrograms) Ended(r program.Request, status vni.Status) {
	h.engine().completeSend(r.(*send), status)
}

// Deliver gives a process a message of a program, by the matcher: the message waits in the staging
// of the process for a receive.
func (h forPrograms) Deliver(to vm.ID, m program.Arrival) bool {
	e := h.engine()
	p := e.process(program.ProcessSlot(to))
	if p == nil || !p.served() || program.ProcessNumber(p.slot, p.gen) != to {
		return false
	}
	length := uint64(len(m.Payload))
	if p.unstaged.n > 0 || int(stagedCost(length)) > e.stagingLeft(p) {
		e.counts[vni.NICProgramsNoRoom]++
		return false
	}
	key := sourceKey{nil, programSlot, uint32(m.From)}
	if m.NIC != e.cfg.ID {
		if key.peer = e.peerOf(m.NIC); key.peer == nil {
			return false
		}
	}
	src := e.source(p, key)
	if src == nil {
		return false
	}
	// It is whole, and its sender's name is known: so it is never parked, and always the next.
	env := wire.Envelope{DstSlot: p.slot, DstGen: p.gen, SrcSlot: programSlot, SrcGen: uint32(m.From),
		Number: src.expected, Tag: uint64(m.Trigger)}
	inb := e.newInbound(src, &env, inboundStaged, length)
	e.charge(inb, int(stagedCost(length)))
	inb.done, inb.staging = true, e.staging.take(int(length))
	inb.got = uint64(copy(inb.staging, m.Payload))
	e.arrive(inb)
	return true
}

// programSlot is the slot from which messages of programs come. No process has it. The generation
// is the program's number.
const programSlot = 1<<16 - 1

// Rang makes the processes look that have mapped a segment: a flag was set there, or a lock
// cleared.
func (h forPrograms) Rang(segment uint32) {
	e := h.engine()
	for p := range e.procs.all {
		if p.segments[segment] {
			e.ring(p)
		}
	}
}

// programGuard is the filter of a program, and the users whose processes it may judge.
type programGuard struct {
	filter ProgramFilter
	of     program.Whose
}

// UserOf returns the user of the process with a name, if it is on this NIC.
func (h forPrograms) UserOf(name vni.Name) (user string, there bool) {
	for p := range h.engine().procs.all {
		if p.name == name && p.slot != 0 && !p.gone {
			return p.user, true
		}
	}
	return "", false
}

// Guard puts a filter in front of the process with a name, now and whenever it registers, if it
// belongs to one of the users in of. A nil f removes it.
func (h forPrograms) Guard(name vni.Name, f program.GuardFunc, of program.Whose) {
	e := h.engine()
	if f == nil {
		delete(e.procs.guards, name)
	} else {
		if e.procs.guards == nil {
			e.procs.guards = make(map[vni.Name]programGuard)
		}
		e.procs.guards[name] = programGuard{f, of}
	}
	for p := range e.procs.all {
		if p.name == name && p.slot != 0 {
			if p.guardBy(nil); f != nil && of.Covers(p.user) {
				p.guardBy(f)
			}
			// Messages that have waited for their bytes need not any more.
			for _, src := range sorted(p.sources) {
				e.release(src)
			}
		}
	}
}

// guardBy puts a program's filter in front of a process.
func (p *process) guardBy(f ProgramFilter) {
	if p.guard = nil; f != nil {
		p.judged = true
		p.guard = &guard{bytes: true, filter: func(m *Arrival) bool { return f(m.Addr.NIC, m.Payload) }}
	}
}

// ShareSegment notes that a process has mapped or unmapped a segment. Flags that are set in a
// mapped segment wake it. It reports whether the process exists.
func (e *Engine) ShareSegment(slot uint16, gen uint32, segment uint32, shared bool) bool {
	e.begin()
	p := e.process(slot)
	if p == nil || p.gen != gen {
		return false
	}
	if p.segments == nil {
		p.segments = make(map[uint32]bool)
	}
	if p.segments[segment] = shared; !shared {
		delete(p.segments, segment)
	}
	return true
}

// startProgram executes a command that sends to a program. The command ends when the memory may be
// reused, or when the message has been handled.
func (e *Engine) startProgram(s *send, sc *vni.SendContext) {
	s.kind, s.dest, s.state = kindProgram, nil, sendPosted
	if sc.Gen == 0 || sc.Len > prog.MaxMessage || sc.Tag > 1<<32-1 || s.env.Flags&^wire.FlagAccept != 0 {
		e.rejectSend(s, fmt.Errorf("%d bytes to trigger %d of program %d", sc.Len, sc.Tag, sc.Gen))
		return
	}
	to := program.Departure{Tag: sc.Tag, Kind: program.DepartsProgram, NIC: cmp.Or(sc.NIC, e.cfg.ID),
		Number: vm.ID(sc.Gen)}
	s.departs = departure{to: to, accept: s.accept}
	s.accept = false
	e.depart(s)
}

// commandProgram gives a message to the programs, which end its command.
func (e *Engine) commandProgram(s *send) {
	d := &s.departs.to
	e.programs.Command(s, vm.Destination{Program: d.Number, Trigger: uint32(d.Tag), NIC: d.NIC},
		int(s.frag.Length), s.departs.accept)
}

// programName returns the sender's name of a program's messages.
func programName(id uint32) vni.Name { return vni.Name{App: names.Programs.App, Index: id} }
