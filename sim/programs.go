package sim

import (
	"context"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/program"
)

// newSite makes the NIC's side of loading programs. A request takes no virtual time.
func (n *node) newSite() *deploy.Site {
	return &deploy.Site{NIC: nicid.ID(n.id), May: deploy.Everything, Do: func(f func(*program.Table)) {
		f(n.engine.Programs())
		n.soon(noticeTime)
	}}
}

// AskProgram answers a request of a process about the programs of its NIC, as a NIC inside a program does. Package weft asks.
func (v virtual) AskProgram(_ context.Context, nic nicid.ID, r *ctl.Program) (*ctl.ProgramReply, error) {
	n := v.p.host
	switch {
	case nic != 0 && uint64(nic) != n.id:
		return nil, fmt.Errorf("%w: NIC %v: a simulated NIC loads programs of its own processes only", weft.ErrBadArgument, nic)
	case v.p.gone || n.engine == nil:
		return nil, proc.ErrNICGone
	}
	return n.site.Answer(deploy.Asker{}, r)
}
