package sim

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/vni"
)

// An ask is something that a host's driver wants of its NIC: that it takes a process in, or lets it go. The driver posts
// what is asked in its order, as soon as there is room and a slot, and looks after each turn of the NIC what is answered.
//
//	asked ──► posted ──► answered: a process begins, or its slot is free
//
// The NIC is asked and answers within its turns, so a process that ends is served until the next one, as a real one is.
type ask struct {
	p      *Process
	delete bool
	posted bool
	at     int // position of its doorbell
}

// ask has the driver do something for a process.
func (n *node) ask(p *Process, delete bool) {
	n.asks = append(n.asks, &ask{p: p, delete: delete})
	n.post()
	n.soon(noticeTime)
}

// post posts what has been asked, as far as that can be done.
func (n *node) post() {
	for _, a := range n.asks {
		if a.posted || !a.delete && a.p.slot == 0 && !n.takeSlot(a.p) {
			continue // those behind one without a slot may be about to give theirs back
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
	n.engine.Driver().Tie(p.slot, driver.Entry{VNI: p.seg, WakeUp: p.wakeAll})
	return driver.Command{Code: driver.NewProcess, Index: p.slot, PID: p.pid, Name: p.vniName}
}

// withdraw takes back a registration that has not been posted yet, if there is one.
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

// takeSlot takes a slot for a process. If all have one, it waits for processes that are about to go.
func (n *node) takeSlot(p *Process) (ok bool) {
	p.slot, ok = n.engine.Driver().Take(p.pid)
	if !ok && !slices.ContainsFunc(n.asks, func(a *ask) bool { return a.delete }) {
		n.f.fail(fmt.Errorf("%v on host %d: %w", p.name, n.index, driver.ErrNoSlot))
	}
	return ok
}

// answered does what follows from the NIC's answers, and posts what has waited for them.
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
