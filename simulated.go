package weft

import (
	"context"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// simulatedNIC is what the time of a simulated process does besides: it answers requests about the programs of the process's NIC.
type simulatedNIC interface {
	AskProgram(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)
}

// Simulated processes, those of package sim, have no NIC that this package has made.
func init() {
	proc.Public = func(half *proc.Process, leave func() error, time proc.Time) any {
		id := half.Identity()
		p := &Process{time: time, name: nameOf(id.Name), addr: Address{NICID(id.NIC), id.Slot, id.Gen}, leave: leave, askProgram: time.(simulatedNIC).AskProgram}
		p.init(half)
		return p
	}
}
