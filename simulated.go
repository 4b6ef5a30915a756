package weft

import (
	"context"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// simulatedNIC answers requests about the programs and segments of the NIC of a simulated process.
// The proc.Time of such a process implements it.
type simulatedNIC interface {
	AskProgram(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)
	ShareSegment(id uint32, size int) (mem []byte, leave func() error, err error)
}

// Package sim makes its processes by proc.Public. Their NIC is not one of this package.
func init() {
	proc.Public = func(half *proc.Process, leave func() error, time proc.Time) any {
		id, nic := half.Identity(), time.(simulatedNIC)
		p := &Process{
			time: time, name: nameOf(id.Name), addr: Address{NICID(id.NIC), id.Slot, id.Gen}, leave: leave,
			askProgram: nic.AskProgram, share: nic.ShareSegment,
		}
		p.init(half)
		return p
	}
}
