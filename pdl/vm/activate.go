package vm

import "github.com/weftnet/weft/pdl/prog"

// An Outcome is what has become of an activation.
type Outcome uint8

// The outcomes. The last four are of messages that activated nothing.
const (
	Awaiting  Outcome = iota // it ended at AWAIT, or at the end of its block
	Stopped                  // at STOP
	Passed                   // at PASS
	Dropped                  // at DROP
	Waiting                  // it goes on when its transfers have ended
	Aborted                  // see Profile and LastAbort
	NoProgram                // there is none of this number
	NoTrigger                // it has none of this number
	Inactive                 // it was never started, or is stopped
	Busy                     // another activation of it is under way
)

var outcomeNames = []string{"await", "stop", "pass", "drop", "waiting", "aborted", "no such program", "no such trigger", "inactive", "busy"}

// String names the outcome.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown outcome"
}

// Passes is a filter's verdict on the message that activated it: only DROP, and an error, which a forger may have caused,
// keep it from going on (PANIC-5).
func (o Outcome) Passes() bool { return o != Dropped && o != Aborted }

// Start runs the initialisation of a program, from where on messages activate it.
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

// Dispatch activates the trigger that a message is for: program, then trigger, then the code there (PANIC-20, PANIC-38).
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

// entry returns where a trigger's block begins, or -1.
func (p *program) entry(number uint32) int {
	for i := range p.module.Triggers { // few
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

// resume runs an activation on, until it ends or waits.
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

// wait suspends the activation at the instruction before pc, which is executed anew, and is counted once.
func (p *program) wait() Outcome {
	p.pc--
	p.state = waiting
	return Waiting
}

// After is by how many ns the last activation, if it ended in Passed, delays the message that it judged: 0 to prog.MaxDelay.
func (m *Machine) After() int64 { return m.after }

// charge counts what an activation has cost.
func (m *Machine) charge(p *program) {
	m.last = p.used(m.cfg.Budget)
	p.profile.Instructions += uint64(m.last)
}

// end finishes an activation that came to its end.
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

// abort ends an activation for an error. What the program has done stays done.
func (m *Machine) abort(p *program, cause Cause) Outcome {
	m.charge(p)
	p.profile.Aborts[cause]++
	at := p.pc - 1
	if cause == OutOfBudget {
		at = p.pc // which was not executed any more
	}
	p.profile.LastLine, p.profile.LastCause = p.module.LineAt(at), cause
	p.packet, p.broken = nil, false
	switch {
	case cause == OutOfBudget, p.starting: // what was not initialised cannot work
		p.state = stopped
	case p.pending > 0:
		p.state = ending
	default:
		p.state = idle
	}
	p.starting = false
	return Aborted
}

// Finish tells a program that one of its transfers has ended, and whether it could be done. It returns what becomes of the
// activation that waited for it: Busy, if it goes on waiting, or did not wait.
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
