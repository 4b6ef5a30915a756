// Package expose lets the public packages beside weft reach the parts of a *weft.Process that it does
// not export. Package weft fills in the variables when it is initialised.
package expose

import (
	"context"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// Programs are the parts of a process that package program uses.
type Programs struct {
	Half   *proc.Process
	Number uint32 // by which programs send to the process

	// Ask sends a request about programs to a NIC; 0 is the process's own.
	Ask func(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)

	// Error gives an error of Half its public form.
	Error func(error) error
}

// ProgramsOf returns these parts of a *weft.Process.
var ProgramsOf func(process any) Programs
