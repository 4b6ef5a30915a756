package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/names"
)

// The driver's commands are the only way by which a process comes to a NIC and leaves it (QNIX-49). They are looked for
// behind a poll's frames, before each process's commands and before each turn: between operations, where no operation holds on to
// a process. Looking is one load.

// ControlGeneration is the generation of slot 0, which has one process in each life of the NIC.
const ControlGeneration = 1

// noCommand is the position of no driver command.
const noCommand = -1

// driverQueue is the NIC's half of that queue (QNIX-51).
type driverQueue struct {
	*driver.NIC
	other    *driver.Driver // the driver's half
	executed int            // commands in this poll
	news     bool           // a doorbell has rung in this poll, or a command was read
}

// Driver is the driver's half of the queue by which it tells the NIC of its processes. It may be used while the engine is
// polled.
func (e *Engine) Driver() *driver.Driver { return e.driver.other }

// drive executes what the driver has asked for, at once and in its order.
func (e *Engine) drive() {
	if e.driver.Pending() { // a look is made for each message
		e.driveSome()
	}
}

func (e *Engine) driveSome() {
	for range limits.DriverCommands {
		c, at, ok := e.driver.Next()
		if !ok {
			return
		}
		e.driver.executed++
		e.driver.news = true // if its doorbell does not ring now, there is room in the queue all the same
		switch c.Code {
		case driver.NewProcess:
			e.newProcess(c, at)
		case driver.DeleteProcess:
			e.deleteProcess(c, at)
		default:
			panic(fmt.Sprintf("nic: the driver posts %v", c.Code))
		}
	}
}

// answer rings a driver doorbell. The driver is woken at the end of the poll.
func (e *Engine) answer(at int, r driver.Result) {
	if e.cfg.Defect == mutate.DriverBellLost && e.rng.IntN(20) == 0 {
		return
	}
	e.driver.Ring(at, r)
	e.driver.news = true
}

// newProcess takes a process in (QNIX-62): its name is claimed, and its command queue is listened to. It is answered when
// the name is its own (internal/names).
func (e *Engine) newProcess(c driver.Command, at int) {
	if e.process(c.Index) != nil {
		panic(fmt.Sprintf("nic: New_Process of %v at slot %d, where there is %v", c.Name, c.Index, e.procs.at(c.Index)))
	}
	if err := e.acceptable(c); err != nil {
		e.answer(at, driver.Result{Err: err})
		return
	}
	if c.Index == 0 { // others reach it by the address (NIC, 0, ControlGeneration), not by name (decision 1)
		e.install(c, ControlGeneration, names.Control)
		e.answer(at, driver.Result{Gen: ControlGeneration})
		return
	}
	p := e.install(c, e.procs.generation(c.Index), c.Name)
	p.newAt = at
	e.names.Claim(e.addressOf(p), p.name, e.driver.Entry(c.Index).Life)
}

// acceptable says why a process cannot be taken in, if it cannot.
func (e *Engine) acceptable(c driver.Command) error {
	switch {
	case e.closed:
		return ErrClosed
	case c.Index == 0:
		return nil
	case c.Name.IsZero():
		return fmt.Errorf("nic: a process without a name cannot register; expected app/index")
	case names.Reserved(c.Name):
		return fmt.Errorf("%w: %v; its application is the NICs' own", ErrNameTaken, c.Name)
	}
	return nil
}

// answerNew answers a process's New_Process, once.
func (e *Engine) answerNew(p *process, r driver.Result) {
	if p.newAt != noCommand {
		e.answer(p.newAt, r)
		p.newAt = noCommand
	}
}

// deleteProcess lets a process go (leaving.go). When it is answered, the engine touches neither the process's VNI nor its
// regions again.
func (e *Engine) deleteProcess(c driver.Command, at int) {
	p := e.process(c.Index)
	if p == nil { // its New_Process was refused
		e.answer(at, driver.Result{})
		return
	}
	if e.cfg.Defect == mutate.DeleteUnfinished && busySends(p) > 0 {
		e.answer(at, driver.Result{})
		return
	}
	p.deleteAt = at
	if !p.gone { // else its name was refused, and its driver has not heard so
		e.vacate(p, ErrDeleted)
	}
}
