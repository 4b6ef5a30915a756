package sweep

import (
	"errors"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
)

// checkEvery is the number of polls between two checks of the NICs' limits.
const checkEvery = 64

// checks judges the NICs of a fabric during its run: each of their polls and, from time to time,
// all their state.
type checks struct {
	patience time.Duration // time within which live NICs have answered each other, or given up
	polls    int
	auditors map[*nic.Engine]*nic.Auditor
}

func newChecks(unreachableAfter time.Duration) *checks {
	return &checks{patience: 4*unreachableAfter + time.Second, auditors: map[*nic.Engine]*nic.Auditor{}}
}

// check judges the last poll of a NIC.
func (c *checks) check(e *nic.Engine) error {
	a := c.auditors[e]
	if a == nil {
		a = nic.NewAuditor(e, c.patience)
		c.auditors[e] = a
	}
	if err := a.Poll(); err != nil {
		return err
	}
	if c.polls++; c.polls%checkEvery != 0 {
		return nil
	}
	return e.Limits()
}

// takeStock checks every NIC after everything has come to rest: all lent resources must be back.
func (w *world) takeStock() {
	for host := range w.plan.nics {
		e := simulated.Engine(w.f, host)
		if e == nil {
			continue
		}
		for _, leak := range e.Leaks() {
			w.l.violate("NIC %d leaks: %s", host, leak)
		}
		w.checkCredit(host, e)
		w.countNIC(host)
	}
	for _, name := range w.names {
		lf := w.lives[name]
		if lf.ended {
			continue
		}
		for what, since := range lf.open {
			w.l.violate("%v by %s, begun at %v, has not ended", what, lf.name, since)
		}
		if lf.region != nil {
			if err := lf.region.check(); err != nil {
				w.l.violate("the region of %s: %v", lf.name, err)
			}
		}
	}
}

// checkCredit compares the credit that a NIC has granted to others with the credit that the
// others count.
func (w *world) checkCredit(host int, e *nic.Engine) {
	for _, given := range e.CreditGiven() {
		holder := simulated.Engine(w.f, int(given.NIC-nicID(0)))
		if holder == nil {
			continue
		}
		if held := holder.CreditHeld(e.ID(), given.Slot, given.Gen); held != given.Unspent {
			w.l.violate("NIC %d believes that NIC %d has %d bytes of credit for slot %d, and that believes %d", host,
				given.NIC-nicID(0), given.Unspent, given.Slot, held)
		}
	}
}

// countNIC adds a NIC's statistics to the totals, after a consistency check.
func (w *world) countNIC(host int) {
	s := simulated.Engine(w.f, host).Transport()
	if err := s.Check(); err != nil {
		w.l.violate("the statistics of NIC %d do not fit: %v", host, err)
	}
	w.totals.Retransmissions += s.Resends
	if n := simulated.Engine(w.f, host).Count(vni.NICRefusedRelay); n > 0 {
		w.l.violate("NIC %d has refused %d relays as altered, and no NIC alters any", host, n)
	}
}

// judge makes the verdict on the run at its end. err is the error with which it ended.
func (w *world) judge(err error) {
	if err != nil {
		w.l.violate("%v", err)
	}
	if err != nil && w.phase < closing {
		w.l.violate("the run did not come to its end: %v, %d messages to send by %d functions, %d under way, %d acts",
			w.phase, w.toSend, w.sending, w.l.unended, w.pendingActs)
	}
	w.checkClosed()
	w.l.audit(func(m *message) bool { return w.excused(m.from, m.to) || w.unnamed(m) }, w.lives)
	w.totals.Ways = Ways{}
	w.totals.Ways.count(w.f, w.plan.link, w.plan.nics)
	w.totals.Faults.Counts = w.f.Counts()
	w.totals.Messages = uint64(len(w.l.order))
	w.totals.Bytes = w.l.bytes
	w.totals.Violations = uint64(len(w.l.violations))
}

// excused reports whether an event of the run explains why an operation of a life with another
// process failed. Lost frames explain a failure only if so many are lost that silence is likely.
func (w *world) excused(lf *life, peer string) bool {
	return w.touched[lf.host] || w.touched[w.homes[peer]] || w.plan.hopeless()
}

// unnamed reports whether a message failed because its receiver did not have its name yet. That
// takes long only after an act on the name's home, the NIC that confirms the name. The home is
// neither the sender's nor the receiver's NIC.
func (w *world) unnamed(m *message) bool {
	to := w.lives[m.to]
	return errors.Is(m.err, proc.ErrNameUnknown) && slices.Contains(w.touched, true) &&
		(to.born == 0 || to.born+newsTakes >= m.ended)
}

// hopeless reports whether so many frames are lost that a peer may seem silent for
// unreachableAfter by chance.
func (p *plan) hopeless() bool {
	lost := p.faults.Loss + p.faults.Corrupt + p.faults.Truncate + p.dropped
	return lost > 0.05 || lost >= 0.01 && p.unreachableAfter < 2*time.Second
}
