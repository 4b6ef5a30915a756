package sim

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/vni"
)

// An ask is a request of a host's driver to its NIC: to register or to delete a process. The
// driver posts its requests in order, as soon as there is room and a slot, and reads the answers
// after each turn of the NIC.
//
//	asked ──► posted ──► answered: a process begins, or its slot is free
//
// The NIC reads and answers requests only in its turns. So it serves a process that ends until its
// next turn, as a real NIC does.
type ask struct {
	p      *Process
	delete bool
	posted bool
	at     int // index of its doorbell
}

// ask enqueues a request for a process and posts it if possible.
func (n *node) ask(p *Process, delete bool) {
	n.asks = append(n.asks, &ask{p: p, delete: delete})
	n.post()
	n.soon(noticeTime)
}

// post posts the requests for which there are slots and room.
func (n *node) post() {
	for _, a := range n.asks {
		if a.posted || !a.delete && a.p.slot == 0 && !n.takeSlot(a.p) {
			continue // a later request may give a slot back
		}
		if a.at, a.posted = n.engine.Driver().Post(n.command(a)); !a.posted {
			return
		}
	}
}

func (n *node) command(a *ask) driver.Command {
	p := a.p
	if a.delete {
		return driver.Command{Code: driver.DeleteProcess, Index: p.slot}
	}
	e := driver.Entry{VNI: p.seg, WakeUp: p.wakeAll}
	if life := p.f.cfg.hooks.Life; life != nil {
		e.Life = life(p)
	}
	n.engine.Driver().Tie(p.slot, e)
	return driver.Command{Code: driver.NewProcess, Index: p.slot, PID: p.pid, Name: p.vniName}
}

// withdraw removes a registration that is not posted yet. It reports whether there was one.
func (n *node) withdraw(p *Process) bool {
	before := len(n.asks)
	n.asks = slices.DeleteFunc(n.asks, func(a *ask) bool { return a.p == p && !a.posted })
	if len(n.asks) == before {
		return false
	}
	if p.slot != 0 {
		n.engine.Driver().GiveBack(p.slot)
	}
	return true
}

// takeSlot takes a slot for a process. If none is free, it fails the run unless a deletion is in
// flight, which will free one.
func (n *node) takeSlot(p *Process) (ok bool) {
	p.slot, ok = n.engine.Driver().Take(p.pid)
	if !ok && !slices.ContainsFunc(n.asks, func(a *ask) bool { return a.delete }) {
		n.f.fail(fmt.Errorf("%v on host %d: %w", p.name, n.index, driver.ErrNoSlot))
	}
	return ok
}

// answered handles the NIC's answers, then posts the requests that waited for them.
func (n *node) answered() {
	d := n.engine.Driver()
	for i := 0; i < len(n.asks); {
		a := n.asks[i]
		if !a.posted || d.Doorbell(a.at) != vni.Done {
			i++
			continue
		}
		n.asks = slices.Delete(n.asks, i, i+1)
		r, _ := d.Answered(a.at)
		if a.delete {
			d.GiveBack(a.p.slot)
			continue
		}
		a.p.taken(r)
	}
	n.post()
}
