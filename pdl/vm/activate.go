package vm

import "github.com/weftnet/weft/pdl/prog"

// An Outcome says how an activation has ended or paused.
type Outcome uint8

// The outcomes. The last four mean that the message has activated nothing.
const (
	Awaiting  Outcome = iota // ended at AWAIT, or at the end of its block
	Stopped                  // ended at STOP
	Passed                   // ended at PASS
	Dropped                  // ended at DROP
	Waiting                  // will go on when its transfers have ended
	Aborted                  // ended by an error; see Profile and LastAbort
	NoProgram                // no program has this number
	NoTrigger                // the program has no such trigger
	Inactive                 // the program was never started, or is stopped
	Busy                     // another activation of the program is in progress
)

var outcomeNames = []string{
	"await", "stop", "pass", "drop", "waiting", "aborted",
	"no such program", "no such trigger", "inactive", "busy"}

// String returns the name of the outcome.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown outcome"
}

// Passes reports whether a filter lets the message go on that activated it. Only DROP and an
// error, which a forged message may have caused, keep it back.
func (o Outcome) Passes() bool { return o != Dropped && o != Aborted }

// Start runs the initialisation of a program. From then on messages can activate it.
func (m *Machine) Start(id ID) Outcome {
	p := m.find(id)
	switch {
	case p == nil:
		return NoProgram
	case p.state != loaded:
		return Inactive
	}
	p.starting = true
	return m.activate(p, p.module.Init, 0, nil)
}

// Dispatch activates the handler for a message: it finds the program, then the trigger, then the
// code.
func (m *Machine) Dispatch(msg *Message) Outcome {
	p := m.find(msg.Program)
	if p == nil {
		m.unknown++
		return NoProgram
	}
	if p.state != idle {
		if p.state == running || p.state == waiting || p.state == ending {
			return Busy
		}
		p.profile.Refused++
		return Inactive
	}
	entry := p.entry(msg.Trigger)
	if entry < 0 {
		p.profile.Refused++
		return NoTrigger
	}
	return m.activate(p, entry, msg.Source, msg.Payload)
}

// entry returns the index of a trigger's block, or -1.
func (p *program) entry(number uint32) int {
	for i := range p.module.Triggers { // there are few
		if t := &p.module.Triggers[i]; t.Number == number {
			return t.Entry
		}
	}
	return -1
}

func (m *Machine) activate(p *program, entry int, source uint64, packet []byte) Outcome {
	p.pc, p.limit = entry, entry+m.cfg.Budget
	p.packet, m.after = packet, 0
	p.mem[prog.PacketLen], p.mem[prog.Source] = int64(len(packet)), int64(source)
	p.profile.Activations++
	return m.resume(p)
}

// resume runs an activation until it ends or waits.
func (m *Machine) resume(p *program) Outcome {
	p.state = running
	for {
		if p.pc >= p.limit {
			return m.abort(p, OutOfBudget)
		}
		switch p.run(p.code[:min(len(p.code), p.limit)], p.mem) {
		case failed:
			return m.abort(p, p.cause)
		case cut:
			continue
		case addUp:
			if p.addUp() == failed {
				return m.abort(p, p.cause)
			}
			continue
		}
		w := p.code[p.pc-1]
		switch w.Op() {
		case prog.Await, prog.Stop, prog.Pass, prog.Drop:
			if p.pending > 0 {
				return p.wait()
			}
			if p.broken {
				return m.abort(p, SegmentRefused)
			}
			return m.end(p, w.Op())
		case prog.Wait:
			if p.pending > 0 {
				return p.wait()
			}
			if p.broken {
				return m.abort(p, SegmentRefused)
			}
		default:
			if cause := m.serve(p, w); cause != None {
				return m.abort(p, cause)
			}
		}
	}
}

// wait suspends the activation at the instruction before pc. That instruction is executed again
// later, and counted once.
func (p *program) wait() Outcome {
	p.pc--
	p.state = waiting
	return Waiting
}

// After returns the delay in ns for the message that the last activation judged: 0 to
// prog.MaxDelay. It is valid if the outcome was Passed.
func (m *Machine) After() int64 { return m.after }

// charge adds the cost of an activation to the profile.
func (m *Machine) charge(p *program) {
	m.last = p.used(m.cfg.Budget)
	p.profile.Instructions += uint64(m.last)
}

// end finishes an activation that ended normally.
func (m *Machine) end(p *program, by prog.Op) Outcome {
	m.charge(p)
	p.packet, p.starting = nil, false
	p.state = idle
	switch by {
	case prog.Stop:
		p.state = stopped
		return Stopped
	case prog.Pass:
		return Passed
	case prog.Drop:
		return Dropped
	}
	return Awaiting
}

// abort ends an activation because of an error. Its effects so far remain.
func (m *Machine) abort(p *program, cause Cause) Outcome {
	m.charge(p)
	p.profile.Aborts[cause]++
	at := p.pc - 1
	if cause == OutOfBudget {
		at = p.pc // pc was not executed any more
	}
	p.profile.LastLine, p.profile.LastCause = p.module.LineAt(at), cause
	p.packet, p.broken = nil, false
	switch {
	case cause == OutOfBudget, p.starting: // a program without its initialisation cannot work
		p.state = stopped
	case p.pending > 0:
		p.state = ending
	default:
		p.state = idle
	}
	p.starting = false
	return Aborted
}

// Finish tells a program that one of its transfers has ended, and whether it succeeded. It
// returns the outcome of the activation that waited for it, or Busy if that still waits or no
// activation waited.
func (m *Machine) Finish(id ID, done bool) Outcome {
	p := m.find(id)
	if p == nil {
		return NoProgram
	}
	if p.pending == 0 {
		return Inactive
	}
	p.pending--
	p.broken = p.broken || !done
	switch {
	case p.pending > 0:
		return Busy
	case p.state == waiting:
		return m.resume(p)
	case p.state == ending:
		p.state, p.broken = idle, false
	}
	return Busy
}
