// Package expose gives Weft's other public packages access to the parts of a *weft.Process that
// it does not export. Package weft fills in the variables when it is initialised.
package expose

import (
	"context"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// Programs holds the parts of a process that package program uses.
type Programs struct {
	Half   *proc.Process
	Number uint32 // number to which programs send messages for the process

	// Ask sends a request about programs to a NIC. NIC 0 is the process's own NIC.
	Ask func(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)

	// Error returns the public form of an error of Half.
	Error func(error) error
}

// ProgramsOf returns the Programs of a *weft.Process.
var ProgramsOf func(process any) Programs
