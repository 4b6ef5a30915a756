package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// drainCommands reads a batch from the command queue of each active process and starts the
// commands (QNIX-6, QNIX-37). It removes a process from the active list if it has posted nothing
// for some polls. more reports whether a batch was full.
func (e *Engine) drainCommands() (commands int, more bool) {
	batch := limits.CommandsPerPoll
	if e.active.n > 1 {
		batch = max(limits.CommandsShared/e.active.n, limits.CommandsPerVisit)
	}
	for n := e.active.n; n > 0; n-- {
		if e.drive(); e.active.n == 0 {
			break
		}
		p := e.active.front()
		e.counts[vni.NICVisits]++
		// Not a walk along the list: a command of one process may detach the next process.
		e.active.rotate()
		got := e.takeCommands(p, batch)
		commands += got
		if more = more || got == batch; got > 0 {
			continue
		}
		if p.idle++; p.idle > e.cfg.IdlePolls && p.node.in != nil {
			e.stopListening(p)
		}
	}
	return commands, more
}

// takeCommands starts up to most commands of a process's queue and returns their number. A command
// may get the process detached.
func (e *Engine) takeCommands(p *process, most int) (got int) {
	for got < most && p.served() {
		c, ok := p.vni.Next()
		if !ok {
			break
		}
		got++
		e.command(p, c)
	}
	if got > 0 {
		p.idle, p.silent = 0, 0
		p.account.Commands += uint64(got)
		e.counts[vni.NICCommands] += uint64(got)
	}
	return got
}

// stopListening removes p from the active list, unless a command has just arrived (decision 11).
func (e *Engine) stopListening(p *process) {
	if p.vni.StopListening() || e.cfg.Defect == mutate.StoppedDeaf {
		p.node.remove()
	} else {
		p.idle = 0
	}
}

// EndListening stops listening to all processes whose queues are empty, no matter how long they
// have been idle. They ring for their next commands. It is for pollers that are about to park.
func (e *Engine) EndListening() {
	e.begin()
	for n := e.active.n; n > 0; n-- {
		p := e.active.front()
		e.active.rotate()
		e.stopListening(p)
	}
}

// command starts one command.
func (e *Engine) command(p *process, c vni.Command) {
	switch c.Code {
	case vni.CodeSend, vni.CodeSendShort, vni.CodePut, vni.CodeGet, vni.CodeResolve, vni.CodeSendRun,
		vni.CodeSendDatagram,
		vni.CodeMulticast, vni.CodeMulticastShort, vni.CodeProgram,
		vni.CodeJoinGroup, vni.CodeBarrier, vni.CodeBroadcast, vni.CodeBroadcastShort, vni.CodeReduce, vni.CodeLeave:
		if s := e.sendFor(p, c); s != nil {
			e.sendCommand(s, c)
		}
	case vni.CodeReceive, vni.CodeReceiveRing, vni.CodeReceiveDatagram, vni.CodeProbe:
		if int(c.Context) >= len(p.recvs) {
			e.detach(p, fmt.Errorf("receive names context %d of %d", c.Context, len(p.recvs)))
			return
		}
		r := &p.recvs[c.Context]
		if r.state != recvIdle {
			e.detach(p, fmt.Errorf("receive on context %d, which is in use", c.Context))
			return
		}
		e.startReceive(p, r, c.Code)
	case vni.CodeCancel:
		e.cancel(p, int(c.Context), c.Size)
	case vni.CodeRefill:
		e.refillCommand(p, int(c.Context), c.Size)
	default:
		e.detach(p, fmt.Errorf("command %v is not served", c.Code))
	}
}

// sendFor returns the send of the context that a command names. It detaches a process that names
// no context, or one in use, and returns nil.
func (e *Engine) sendFor(p *process, c vni.Command) *send {
	if int(c.Context) >= len(p.sends) {
		e.detach(p, fmt.Errorf("command %v names send context %d of %d", c.Code, c.Context, len(p.sends)))
		return nil
	}
	s := &p.sends[c.Context]
	if s.state != sendIdle {
		e.detach(p, fmt.Errorf("command %v on send context %d, which is in use", c.Code, c.Context))
		return nil
	}
	return s
}
