package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/names"
)

// A process joins and leaves a NIC only by the driver's commands (QNIX-49). The engine looks for
// them after a poll's frames, before each process's commands and before each turn. These are
// points between operations, where no operation uses a process. A look is one load.

// ControlGeneration is the generation of slot 0, which has one process in each life of the NIC.
const ControlGeneration = 1

// noCommand means that there is no driver command.
const noCommand = -1

// driverQueue is the NIC's half of the driver command queue (QNIX-51).
type driverQueue struct {
	*driver.NIC
	other    *driver.Driver // the driver's half
	executed int            // commands executed in this poll
	news     bool           // in this poll a doorbell has rung or a command was read
}

// Driver returns the driver's half of the queue by which it tells the NIC of its processes. It may
// be used while the engine is polled.
func (e *Engine) Driver() *driver.Driver { return e.driver.other }

// drive executes the driver's commands at once and in their order.
func (e *Engine) drive() {
	if e.driver.Pending() { // this is checked for each message
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
		e.driver.news = true // even if its doorbell does not ring now, there is room in the queue
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

// newProcess takes a process in (QNIX-62): it claims the name and listens to the command queue. It
// is answered when the name is confirmed (internal/names).
func (e *Engine) newProcess(c driver.Command, at int) {
	if e.process(c.Index) != nil {
		panic(fmt.Sprintf("nic: New_Process of %v at slot %d, where there is %v", c.Name, c.Index, e.procs.at(c.Index)))
	}
	if err := e.acceptable(c); err != nil {
		e.answer(at, driver.Result{Err: err})
		return
	}
	// Others reach it by the address (NIC, 0, ControlGeneration), not by name (decision 1).
	if c.Index == 0 {
		e.install(c, ControlGeneration, names.Control)
		e.answer(at, driver.Result{Gen: ControlGeneration})
		return
	}
	p := e.install(c, e.procs.generation(c.Index), c.Name)
	p.newAt = at
	e.names.Claim(e.addressOf(p), p.name, e.driver.Entry(c.Index).Life)
}

// acceptable returns why a process cannot be taken in, or nil.
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

// deleteProcess removes a process (leaving.go). After the answer, the engine touches neither the
// process's VNI nor its regions.
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
	if !p.gone { // else its name was refused, and its driver does not know yet
		e.vacate(p, ErrDeleted)
	}
}
