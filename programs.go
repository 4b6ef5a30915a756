package weft

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/expose"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/resident"
)

// Package program is the public interface to programs in a NIC. It reaches the internals of a
// Process through package expose.
func init() {
	expose.ProgramsOf = func(process any) expose.Programs {
		p := process.(*Process)
		return expose.Programs{
			Half: p.p, Number: uint32(program.ProcessNumber(p.addr.Slot, p.addr.Generation)),
			Ask: p.askProgram, Error: opError,
		}
	}
}

// newSite returns the NIC's side of program loading. It serves the processes of this NIC, and
// permits every request.
func (n *NIC) newSite() *deploy.Site {
	s := &deploy.Site{NIC: nicid.ID(n.id), May: deploy.Everything, Do: func(f func(*program.Table)) {
		n.poller.Do(func(clock.Time) { f(n.engine.Programs()) })
	}}
	// A wrapped link is no resident.Link, because faults and captures must see all frames.
	if l, ok := n.link.(resident.Link); ok {
		if !n.engine.PlainPrograms() {
			s.Driver = resident.Sealed
			return s
		}
		n.resident = resident.New(resident.Config{Link: l, Do: s.Do, Now: poller.Now})
		s.Driver = n.resident.Prepare
	}
	return s
}

// askProgram answers a program request of a process of this NIC.
func (n *NIC) askProgram(ctx context.Context, nic nicid.ID, r *ctl.Program) (*ctl.ProgramReply, error) {
	if nic != 0 && nic != nicid.ID(n.id) {
		return nil, fmt.Errorf("%w: NIC %v; a process of a NIC inside its program reaches programs only in that NIC",
			ErrBadArgument, nic)
	}
	if err := errors.Join(ctx.Err(), n.alive()); err != nil {
		return nil, err
	}
	return n.site.Answer(deploy.Asker{}, r)
}
